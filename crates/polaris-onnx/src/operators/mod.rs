//! The reference implementation of each operator: a function from values to values.
//!
//! An operator is computed in `f64`, or in integers of 128 bits, and rounded to its type at the end,
//! whatever that type is. One folder or file for each family; `FAMILIES` lists them.

mod attention;
mod control;
mod elementwise;
mod generate;
mod image;
mod indexing;
mod learned;
mod linear;
mod loss;
mod network;
mod quantize;
mod reduce;
mod sequence;
mod shape;
mod signal;
pub(crate) mod signatures;
mod text;
mod walk;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

pub use self::network::{Window, windows};

use crate::interpret::interpret_valid;
use crate::{Attributes, Error, Graph, Node, Result, Tensor, Value, ValueId};

/// What an operator does.
pub type Operator = fn(&Call<'_>) -> Result<Vec<Value>>;

/// The operators of a family, by name.
type Family = &'static [(&'static str, Operator)];

/// Every family with its domain.
const FAMILIES: &[(&str, Family)] = &[
    ("", attention::OPERATORS),
    ("", control::OPERATORS),
    ("", elementwise::OPERATORS),
    ("", generate::OPERATORS),
    ("", image::OPERATORS),
    ("", indexing::OPERATORS),
    ("", linear::OPERATORS),
    ("", loss::OPERATORS),
    ("", network::OPERATORS),
    ("", quantize::OPERATORS),
    ("", reduce::OPERATORS),
    ("", sequence::OPERATORS),
    ("", shape::OPERATORS),
    ("", signal::OPERATORS),
    ("", text::OPERATORS),
    ("ai.onnx.ml", learned::OPERATORS),
    ("ai.onnx.preview.training", loss::TRAINING),
    ("ai.onnx.preview", attention::PREVIEW),
];

/// Operators that draw numbers: each run gives others. Dropout does so in training.
pub const RANDOM: &[&str] = &[
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
];

/// The operator of this name.
pub fn find(domain: &str, name: &str) -> Option<Operator> {
    static TABLE: OnceLock<HashMap<(&str, &str), Operator>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let all = FAMILIES.iter().flat_map(|&(domain, family)| {
            family.iter().map(move |&(name, operator)| ((domain, name), operator))
        });
        all.collect()
    });
    table.get(&(domain, name)).copied()
}

/// A node with its operands.
pub struct Call<'a> {
    /// The node.
    pub node: &'a Node,
    /// Its operands; `None` where one is left out.
    pub inputs: &'a [Option<Value>],
    /// What surrounds the node, for graphs inside it.
    pub scope: &'a dyn Scope,
}

/// What surrounds a node: its graph's values, and someone who evaluates graphs inside the node.
pub trait Scope {
    /// A value of the node's graph, if it was computed.
    fn value(&self, id: ValueId) -> Option<Value>;

    /// The outputs of a graph inside the node.
    ///
    /// # Errors
    /// What a node of it cannot do.
    fn evaluate(
        &self,
        graph: &Arc<Graph>,
        inputs: &[Option<Value>],
        captured: &[Value],
    ) -> Result<Vec<Value>> {
        interpret_valid(graph, inputs, captured)
    }
}

impl Call<'_> {
    /// Its parameters.
    pub fn attributes(&self) -> &Attributes {
        &self.node.attributes
    }

    /// The version of the operators that the model is written for.
    pub fn version(&self) -> i64 {
        self.node.version
    }

    /// How many results the node names.
    pub fn outputs(&self) -> usize {
        self.node.outputs.len()
    }

    /// An operand, if it is there.
    pub fn value(&self, index: usize) -> Option<&Value> {
        self.inputs.get(index).and_then(Option::as_ref)
    }

    /// An operand that must be a tensor.
    ///
    /// # Errors
    /// If it is missing or something else.
    pub fn tensor(&self, index: usize) -> Result<&Tensor> {
        self.value(index)
            .ok_or_else(|| Error::operands(format!("the operand {} is missing", index + 1)))?
            .tensor()
    }

    /// A tensor that may be left out.
    ///
    /// # Errors
    /// If it is something else.
    pub fn optional(&self, index: usize) -> Result<Option<&Tensor>> {
        self.value(index).map(Value::tensor).transpose()
    }

    /// The operands that are there, all of them tensors.
    ///
    /// # Errors
    /// If one is something else.
    pub fn tensors(&self) -> Result<Vec<&Tensor>> {
        self.inputs.iter().flatten().map(Value::tensor).collect()
    }
}

/// Nothing surrounds the node: for nodes without graphs inside.
#[derive(Debug, Clone, Copy)]
pub struct NoScope;

impl Scope for NoScope {
    fn value(&self, _id: ValueId) -> Option<Value> {
        None
    }
}

/// The only result.
pub(crate) fn one(tensor: Tensor) -> Vec<Value> {
    vec![Value::Tensor(tensor)]
}

/// Axes that may count from the end, each at most once.
pub(crate) fn distinct_axes(axes: &[i64], rank: usize) -> Result<Vec<usize>> {
    let mut seen = vec![false; rank];
    let mut distinct = Vec::with_capacity(axes.len().min(rank));
    for &number in axes {
        let at = axis(number, rank)?;
        match seen.get_mut(at) {
            Some(seen) if !*seen => *seen = true,
            Some(_) => return Err(Error::operands(format!("axis {number} is named twice"))),
            None => {
                return Err(Error::operands(format!("axis {number} is out of range for a scalar")));
            }
        }
        distinct.push(at);
    }
    Ok(distinct)
}

/// An axis that may count from the end.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<usize> {
    let rank_signed = rank as i64;
    if axis < -rank_signed || axis >= rank_signed.max(1) {
        return Err(Error::operands(format!("axis {axis} is out of range for rank {rank}")));
    }
    Ok(if axis < 0 { (axis + rank_signed) as usize } else { axis as usize })
}
