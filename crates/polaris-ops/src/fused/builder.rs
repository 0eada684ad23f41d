//! Building expressions: values that are joined by operators and functions.

use std::cell::RefCell;
use std::fmt;
use std::ops::{Add, Div, Mul, Neg, Sub};

use super::expression::{Expression, MAX_INPUTS, MAX_NODES, MAX_SCALARS, Node};
use crate::{Binary, Error, Function, Result, Ternary, Unary};

/// Collects the values of one expression. What is computed twice from the same values is one node.
///
/// ```
/// use polaris_ops::{Unary, fused::Builder};
///
/// let build = Builder::new(3);
/// let [a, x, b] = build.inputs();
/// let expression = build.finish((a * x + b).unary(Unary::GeluErf))?;
/// assert_eq!(expression.to_string(), "v3 = mul(x0, x1); v4 = add(x2, v3); v5 = gelu_erf(v4)");
/// # Ok::<(), polaris_ops::Error>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    draft: RefCell<Draft>,
}

#[derive(Debug)]
struct Draft {
    inputs: usize,
    scalars: Vec<f64>,
    nodes: Vec<Node>,
    /// The first mistake; reported at the end, so that values can be joined by operators.
    problem: Option<String>,
}

impl Draft {
    /// The place of a node, which is there once.
    fn node(&mut self, node: Node) -> usize {
        self.nodes.iter().position(|&other| other == node).unwrap_or_else(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        })
    }
}

/// A value of an expression in the making.
#[derive(Clone, Copy)]
pub struct Value<'b> {
    builder: &'b Builder,
    node: usize,
}

/// A value, or a number that is part of the expression.
#[derive(Debug, Clone, Copy)]
pub enum Operand<'b> {
    /// A value.
    Value(Value<'b>),
    /// A number.
    Number(f64),
}

impl Builder {
    /// An expression of this many input arrays.
    pub fn new(inputs: usize) -> Self {
        let problem = (!(1..=MAX_INPUTS).contains(&inputs)).then(|| {
            format!("{inputs} input arrays were requested; 1 to {MAX_INPUTS} are supported")
        });
        let (scalars, nodes) = (Vec::new(), Vec::new());
        Self { draft: RefCell::new(Draft { inputs, scalars, nodes, problem }) }
    }

    /// A builder that goes on from an expression, with one more input. The nodes keep their places.
    pub(super) fn extending(expression: &Expression) -> Self {
        let builder = Self::new(expression.inputs() + 1);
        let mut draft = builder.draft.borrow_mut();
        draft.scalars = expression.scalars().to_vec();
        draft.nodes = expression.nodes().to_vec();
        drop(draft);
        builder
    }

    /// The element of an input array.
    pub fn input(&self, index: usize) -> Value<'_> {
        let inputs = self.draft.borrow().inputs;
        if index >= inputs {
            self.complain(|| format!("input {index} was used; there are {inputs}"));
        }
        self.node(Node::Input(index))
    }

    /// The elements of the first input arrays.
    pub fn inputs<const N: usize>(&self) -> [Value<'_>; N] {
        std::array::from_fn(|index| self.input(index))
    }

    /// A number that may be changed between runs (see
    /// [`scalars_mut`](Expression::scalars_mut)) without a new program, such as a learning rate.
    pub fn scalar(&self, value: f64) -> Value<'_> {
        let mut draft = self.draft.borrow_mut();
        draft.scalars.push(value);
        let index = draft.scalars.len() - 1;
        drop(draft);
        if index >= MAX_SCALARS {
            self.complain(|| format!("more than {MAX_SCALARS} scalars were used"));
        }
        self.node(Node::Scalar(index))
    }

    /// A number that is part of the expression: another one makes another program.
    pub fn constant(&self, value: f64) -> Value<'_> {
        self.node(Node::Constant(value.to_bits()))
    }

    /// The expression of a value.
    ///
    /// # Errors
    /// `InvalidParameter` for more inputs, scalars or nodes than there may be, an input that does
    /// not exist, or a value of another builder.
    pub fn finish(&self, result: Value<'_>) -> Result<Expression> {
        let result = self.own(result);
        let draft = self.draft.borrow();
        let invalid = |what: String| Error::InvalidParameter { op: super::NAME, what };
        if let Some(problem) = &draft.problem {
            return Err(invalid(problem.clone()));
        }
        let mut used = vec![false; draft.nodes.len()];
        used[result] = true;
        for at in (0..=result).rev() {
            if used[at] {
                draft.nodes[at].arguments().iter().for_each(|&argument| used[argument] = true);
            }
        }
        let mut places = vec![0; draft.nodes.len()];
        let mut nodes = Vec::new();
        for at in (0..=result).filter(|&at| used[at]) {
            places[at] = nodes.len();
            nodes.push(match draft.nodes[at] {
                Node::Apply(function, arguments) => {
                    Node::Apply(function, arguments.map(|argument| places[argument]))
                }
                leaf => leaf,
            });
        }
        if nodes.len() > MAX_NODES {
            let count = nodes.len();
            return Err(invalid(format!(
                "an expression of {count} nodes was requested; at most {MAX_NODES} are supported"
            )));
        }
        Ok(Expression::new(draft.inputs, draft.scalars.clone(), nodes))
    }

    /// The value of a node that is already there.
    pub(super) fn value(&self, node: usize) -> Value<'_> {
        Value { builder: self, node }
    }

    fn node(&self, node: Node) -> Value<'_> {
        self.value(self.draft.borrow_mut().node(node))
    }

    /// The place of a value, which must be of this builder.
    fn own(&self, value: Value<'_>) -> usize {
        if !std::ptr::eq(self, value.builder) {
            self.complain(|| "a value of another builder was used".to_owned());
            return 0;
        }
        value.node
    }

    fn complain(&self, problem: impl FnOnce() -> String) {
        self.draft.borrow_mut().problem.get_or_insert_with(problem);
    }

    fn apply(&self, function: Function, arguments: [Operand<'_>; 3]) -> Value<'_> {
        let mut arguments = arguments.map(|argument| match argument {
            Operand::Value(value) => self.own(value),
            Operand::Number(number) => self.constant(number).node,
        });
        // In one order, so that what is the same either way is found to be.
        if matches!(function, Function::Binary(Binary::Add | Binary::Mul)) {
            arguments[..2].sort_unstable();
            arguments[2] = arguments[0];
        }
        self.node(Node::Apply(function, arguments))
    }
}

impl<'b> Value<'b> {
    /// A function of this value.
    pub fn unary(self, function: Unary) -> Self {
        let this = Operand::Value(self);
        self.builder.apply(function.into(), [this; 3])
    }

    /// A function of this value and another.
    pub fn binary(self, function: Binary, second: impl Into<Operand<'b>>) -> Self {
        let this = Operand::Value(self);
        self.builder.apply(function.into(), [this, second.into(), this])
    }

    /// A function of this value and two others: `condition.ternary(Ternary::Where, yes, no)`.
    pub fn ternary(
        self,
        function: Ternary,
        second: impl Into<Operand<'b>>,
        third: impl Into<Operand<'b>>,
    ) -> Self {
        let this = Operand::Value(self);
        self.builder.apply(function.into(), [this, second.into(), third.into()])
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({})", self.node)
    }
}

impl<'b> From<Value<'b>> for Operand<'b> {
    fn from(value: Value<'b>) -> Self {
        Self::Value(value)
    }
}

impl From<f64> for Operand<'_> {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

macro_rules! operator {
    ($operator:ident, $method:ident) => {
        impl<'b, T: Into<Operand<'b>>> $operator<T> for Value<'b> {
            type Output = Self;

            fn $method(self, second: T) -> Self {
                self.binary(Binary::$operator, second)
            }
        }

        impl<'b> $operator<Value<'b>> for f64 {
            type Output = Value<'b>;

            fn $method(self, second: Value<'b>) -> Value<'b> {
                second.builder.constant(self).binary(Binary::$operator, second)
            }
        }
    };
}

operator!(Add, add);
operator!(Sub, sub);
operator!(Mul, mul);
operator!(Div, div);

impl Neg for Value<'_> {
    type Output = Self;

    fn neg(self) -> Self {
        self.unary(Unary::Neg)
    }
}
