//! The graph of a model: values, and nodes that compute them.

use std::fmt;

use crate::{Attributes, Type, Value};

/// A value of one graph, by its place in [`Graph::values`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// Its place as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is known of a value.
#[derive(Debug, Clone)]
pub struct ValueSlot {
    /// Its name, unique in the graph.
    pub name: String,
    /// The type that the file declares.
    pub ty: Option<Type>,
    /// Its elements, if it is a constant.
    pub constant: Option<Value>,
}

/// A value of the graph outside that a graph inside a node refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capture {
    /// In the graph that the node is part of.
    pub outer: ValueId,
    /// In this graph.
    pub inner: ValueId,
}

/// An operator with its operands.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name, or one made from its place; with those of the functions it came from.
    pub path: String,
    /// Where the operator is defined; empty for ONNX' own.
    pub domain: String,
    /// The operator.
    pub operator: String,
    /// The version of the domain's operators that the model is written for.
    pub version: i64,
    /// Its parameters.
    pub attributes: Attributes,
    /// Operands; `None` where an optional one is left out.
    pub inputs: Vec<Option<ValueId>>,
    /// Results; `None` where it is unused.
    pub outputs: Vec<Option<ValueId>>,
}

impl Node {
    /// Its name in messages.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The operator with its domain, if that is not ONNX' own.
    pub fn operator_name(&self) -> String {
        match self.domain.as_str() {
            "" => self.operator.clone(),
            domain => format!("{domain}.{}", self.operator),
        }
    }

    /// Everything it needs of its graph: operands, and what graphs inside it refer to.
    pub fn needs(&self) -> impl Iterator<Item = ValueId> + '_ {
        let captured = self.attributes.graphs().flat_map(|graph| &graph.captures);
        self.inputs.iter().flatten().copied().chain(captured.map(|capture| capture.outer))
    }
}

/// Nodes in an order in which they can be computed.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// All values.
    pub values: Vec<ValueSlot>,
    /// What is computed, each node after those that it needs.
    pub nodes: Vec<Node>,
    /// What is given.
    pub inputs: Vec<ValueId>,
    /// What is wanted.
    pub outputs: Vec<ValueId>,
    /// Values of the graph outside that it refers to.
    pub captures: Vec<Capture>,
}

impl Graph {
    /// What is known of a value.
    pub fn value(&self, id: ValueId) -> &ValueSlot {
        &self.values[id.index()]
    }

    /// The inputs that must be given: those that no constant stands for.
    pub fn required_inputs(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.inputs.iter().copied().filter(|&id| self.value(id).constant.is_none())
    }

    /// Adds a value.
    pub fn add_value(
        &mut self,
        name: String,
        ty: Option<Type>,
        constant: Option<Value>,
    ) -> ValueId {
        let id = ValueId(u32::try_from(self.values.len()).expect("a graph should have few values"));
        self.values.push(ValueSlot { name, ty, constant });
        id
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |id: &ValueId| format!("%{}", self.value(*id).name);
        let list = |ids: &[Option<ValueId>]| {
            let names: Vec<String> =
                ids.iter().map(|id| id.as_ref().map_or("_".to_owned(), name)).collect();
            names.join(", ")
        };
        for id in &self.inputs {
            let ty = self.value(*id).ty.as_ref().map_or("?".to_owned(), Type::to_string);
            writeln!(f, "input {}: {ty}", name(id))?;
        }
        for node in &self.nodes {
            let (made, operator) = (list(&node.outputs), node.operator_name());
            writeln!(f, "{made} = {operator}({})", list(&node.inputs))?;
        }
        for id in &self.outputs {
            writeln!(f, "output {}", name(id))?;
        }
        Ok(())
    }
}
