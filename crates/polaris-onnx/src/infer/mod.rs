//! Type and shape inference, with symbolic dimensions.
//!
//! A shape that is inferred as numbers is what the operator makes, for memory is reserved by it. What
//! cannot be known stays open. One file for each family of operators; `FAMILIES` lists them.

mod arithmetic;
mod attend;
mod control;
mod dims;
mod elementwise;
mod generate;
mod graph;
mod image;
mod indexing;
mod join;
mod known;
mod learned;
mod linear;
mod quantize;
mod recurrent;
mod reduce;
mod reshape;
mod sequence;
mod shape;
mod signal;
mod slice;
mod text;
mod window;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::OnceLock;

pub use graph::infer_graph;

use crate::{Dim, ElementType, Node, Result, Tensor, Type};
use known::Known;

/// What is known of a value.
#[derive(Debug, Clone, Default)]
pub struct Fact {
    /// Its type; dimensions may be numbers, names or unknown.
    pub ty: Option<Type>,
    /// Its elements, if it is a constant.
    pub value: Option<Tensor>,
    /// For a vector (or scalar) of integers that is only partly known, such as a shape: its elements as
    /// dimensions. A negative number is a name that says it, such as `-1`.
    pub dims: Option<Vec<Dim>>,
}

impl Fact {
    /// A tensor. Without the type of its elements nothing can be said of it.
    pub fn tensor(element: Option<ElementType>, shape: Option<Vec<Dim>>) -> Self {
        Self { ty: element.map(|element| Type::Tensor(element, shape)), ..Self::default() }
    }

    /// A value of a type.
    pub fn of(ty: Type) -> Self {
        Self { ty: Some(ty), ..Self::default() }
    }

    /// A constant.
    pub fn constant(value: Tensor) -> Self {
        let ty = Some(crate::Value::Tensor(value.clone()).ty());
        Self { ty, value: Some(value), dims: None }
    }
}

/// What follows for the results of an operator.
type Rule = fn(&Known<'_>) -> Result<Vec<Fact>>;

/// The rules of a family, by the operator's name.
type Family = &'static [(&'static str, Rule)];

/// Every family with its domain.
const FAMILIES: &[(&str, Family)] = &[
    ("", attend::RULES),
    ("", control::RULES),
    ("", elementwise::RULES),
    ("", generate::RULES),
    ("", image::RULES),
    ("", indexing::RULES),
    ("", join::RULES),
    ("", linear::RULES),
    ("", quantize::RULES),
    ("", recurrent::RULES),
    ("", reduce::RULES),
    ("", reshape::RULES),
    ("", sequence::RULES),
    ("", shape::RULES),
    ("", signal::RULES),
    ("", slice::RULES),
    ("", text::RULES),
    ("", window::RULES),
    ("ai.onnx.ml", learned::RULES),
    ("ai.onnx.preview", attend::PREVIEW),
    ("ai.onnx.preview.training", learned::TRAINING),
];

fn find(domain: &str, name: &str) -> Option<Rule> {
    static TABLE: OnceLock<HashMap<(&str, &str), Rule>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let all = FAMILIES.iter().flat_map(|&(domain, family)| {
            family.iter().map(move |&(name, rule)| ((domain, name), rule))
        });
        all.collect()
    });
    table.get(&(domain, name)).copied()
}

/// What is known of a node's results, one fact for each of `node.outputs` (default where nothing is
/// known).
///
/// # Errors
/// If the operands cannot go together.
pub fn infer_node(node: &Node, inputs: &[Option<Fact>]) -> Result<Vec<Fact>> {
    infer(&Known { node, inputs, outer: &|_| None, depth: 0 })
}

/// The results of a node, with what is known of the values around it.
fn infer(known: &Known<'_>) -> Result<Vec<Fact>> {
    let node = known.node;
    let mut facts = match find(&node.domain, &node.operator) {
        Some(rule) => rule(known).map_err(|error| error.at(node))?,
        None => Vec::new(),
    };
    facts.resize_with(node.outputs.len(), Fact::default);
    Ok(facts)
}
