//! The derivatives of expressions, which are expressions again.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use super::builder::{Builder, Value};
use super::expression::{Expression, Node};
use crate::{Binary, Error, Function, Result, Ternary, Unary};

impl Expression {
    /// The gradient with respect to an input: an expression of the same inputs and, as one more,
    /// the gradient `g` with respect to the result, so that it is `g` times the derivative.
    /// Scalars keep their order. The gradient of an input that was broadcast is one for each
    /// element of the output; summing it over the repeated axes is the caller's.
    ///
    /// Where a function has no derivative, the convention is PyTorch's: 0 for `relu` and `abs` at 0,
    /// half to each of two equal arguments of `maximum` and `minimum`, all of it within and on the
    /// bounds of `clamp`. Rounding, signs and comparisons have derivative 0.
    ///
    /// # Errors
    /// `InvalidParameter` if there is no such input, or the gradient has more inputs or nodes than
    /// an expression may have.
    pub fn gradient(&self, input: usize) -> Result<Self> {
        if input >= self.inputs() {
            let what = format!("there is no input {input}: there are {}", self.inputs());
            return Err(Error::InvalidParameter { op: super::NAME, what });
        }
        let nodes = self.nodes();
        let mut depends: Vec<bool> = Vec::with_capacity(nodes.len());
        for node in nodes {
            let through = node.arguments().iter().any(|&argument| depends[argument]);
            depends.push(through || *node == Node::Input(input));
        }
        let build = Builder::extending(self);
        let mut gradients: Vec<Option<Value<'_>>> = vec![None; nodes.len()];
        gradients[nodes.len() - 1] = Some(build.input(self.inputs()));
        for (at, node) in nodes.iter().enumerate().rev() {
            let (Node::Apply(function, arguments), Some(g), true) =
                (node, gradients[at], depends[at])
            else {
                continue;
            };
            let values = arguments.map(|argument| build.value(argument));
            let parts = partial(*function, values, build.value(at), g);
            for (&argument, part) in node.arguments().iter().zip(parts) {
                let sum = &mut gradients[argument];
                if depends[argument] {
                    *sum = match (*sum, part) {
                        (Some(sum), Some(part)) => Some(sum + part),
                        (sum, part) => sum.or(part),
                    };
                }
            }
        }
        let found = nodes.iter().position(|&node| node == Node::Input(input));
        let gradient = found.and_then(|at| gradients[at]);
        build.finish(gradient.unwrap_or_else(|| build.constant(0.0)))
    }
}

/// What each argument of a function receives of the gradient `g` of its result `y`; none for 0.
fn partial<'b>(
    function: Function,
    [a, b, c]: [Value<'b>; 3],
    y: Value<'b>,
    g: Value<'b>,
) -> [Option<Value<'b>>; 3] {
    match function {
        Function::Unary(function) => [unary(function, a, y, g), None, None],
        Function::Binary(function) => {
            let [a, b] = binary(function, [a, b], y, g);
            [a, b, None]
        }
        Function::Ternary(function) => ternary(function, [a, b, c], g),
    }
}

fn unary<'b>(function: Unary, a: Value<'b>, y: Value<'b>, g: Value<'b>) -> Option<Value<'b>> {
    Some(match function {
        Unary::Neg => -g,
        Unary::Abs => g * a.unary(Unary::Sign),
        Unary::Square => g * (a * 2.0),
        // NaN is not below 0 and passes the gradient on, as the function passes NaN.
        Unary::Relu => unless(a.binary(Binary::LessEqual, 0.0), g),
        Unary::Sqrt => g / (y * 2.0),
        Unary::Rsqrt => g * -0.5 * (y * y.unary(Unary::Square)),
        Unary::Reciprocal => -g * y.unary(Unary::Square),
        Unary::Exp => g * y,
        Unary::Log => g / a,
        Unary::Sin => g * a.unary(Unary::Cos),
        Unary::Cos => -g * a.unary(Unary::Sin),
        Unary::Tanh => g * (1.0 - y.unary(Unary::Square)),
        Unary::Erf => g * FRAC_2_SQRT_PI * (-a.unary(Unary::Square)).unary(Unary::Exp),
        Unary::Sigmoid => g * (y * (1.0 - y)),
        Unary::Silu => {
            let sigmoid = a.unary(Unary::Sigmoid);
            g * (sigmoid * a.ternary(Ternary::MulAdd, 1.0 - sigmoid, 1.0))
        }
        Unary::GeluErf => g * a.unary(Unary::GeluErfSlope),
        Unary::GeluErfSlope => {
            let square = a.unary(Unary::Square);
            let density =
                (square * -0.5).unary(Unary::Exp) * (0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2);
            g * (density * (2.0 - square))
        }
        Unary::GeluTanh => {
            // (1 + tanh(u)) / 2 is the sigmoid of 2u. This is 2u, and a times its derivative.
            let scale = 2.0 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
            let square = a.unary(Unary::Square);
            let sigmoid = (a * square.ternary(Ternary::MulAdd, scale * 0.044715, scale))
                .unary(Unary::Sigmoid);
            let slope = a * square.ternary(Ternary::MulAdd, 3.0 * scale * 0.044715, scale);
            g * (sigmoid * slope.ternary(Ternary::MulAdd, 1.0 - sigmoid, 1.0))
        }
        Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round | Unary::Not => return None,
    })
}

fn binary<'b>(
    function: Binary,
    [a, b]: [Value<'b>; 2],
    y: Value<'b>,
    g: Value<'b>,
) -> [Option<Value<'b>>; 2] {
    let below = || a.binary(Binary::Less, b);
    let above = || a.binary(Binary::Greater, b);
    let half_if_equal = || a.binary(Binary::Equal, b).ternary(Ternary::Where, g * 0.5, g);
    let [of_a, of_b] = match function {
        Binary::Add => [g, g],
        Binary::Sub => [g, -g],
        Binary::Mul => [g * b, g * a],
        Binary::Div => [g / b, -g * y / b],
        Binary::Pow => {
            let of_a = g * (b * a.binary(Binary::Pow, b - 1.0));
            let of_b = g * (y * a.unary(Unary::Log));
            // 0 to a power that is not negative does not change with the power.
            let still = a
                .binary(Binary::Equal, 0.0)
                .binary(Binary::And, b.binary(Binary::GreaterEqual, 0.0));
            [unless(b.binary(Binary::Equal, 0.0), of_a), unless(still, of_b)]
        }
        Binary::Maximum => [unless(below(), half_if_equal()), unless(above(), half_if_equal())],
        Binary::Minimum => [unless(above(), half_if_equal()), unless(below(), half_if_equal())],
        Binary::Equal
        | Binary::NotEqual
        | Binary::Less
        | Binary::LessEqual
        | Binary::Greater
        | Binary::GreaterEqual
        | Binary::And
        | Binary::Or
        | Binary::Xor => return [None, None],
    };
    [Some(of_a), Some(of_b)]
}

fn ternary<'b>(
    function: Ternary,
    [a, b, c]: [Value<'b>; 3],
    g: Value<'b>,
) -> [Option<Value<'b>>; 3] {
    match function {
        Ternary::Where => [None, Some(a.ternary(Ternary::Where, g, 0.0)), Some(unless(a, g))],
        Ternary::MulAdd => [Some(g * b), Some(g * a), Some(g)],
        Ternary::Clamp => {
            let below = a.binary(Binary::Less, b);
            let above = a.binary(Binary::Greater, c);
            let of_low = below.ternary(Ternary::Where, g, 0.0);
            let of_high = unless(below, above.ternary(Ternary::Where, g, 0.0));
            [Some(unless(below.binary(Binary::Or, above), g)), Some(of_low), Some(of_high)]
        }
    }
}

/// 0 where the condition holds.
fn unless<'b>(condition: Value<'b>, value: Value<'b>) -> Value<'b> {
    condition.ternary(Ternary::Where, 0.0, value)
}
