//! A node in the making.

use super::{GraphBuilder, Operand};
use crate::{Attribute, Node, ValueId};

/// A node that is not in its graph yet: [`output`](Self::output) or [`outputs`](Self::outputs) puts it there.
#[must_use = "`output` or `outputs` adds the node to its graph"]
#[derive(Debug)]
pub struct NodeBuilder<'g> {
    builder: &'g mut GraphBuilder,
    node: Node,
}

impl<'g> NodeBuilder<'g> {
    pub(super) fn new(
        builder: &'g mut GraphBuilder,
        operator: &str,
        inputs: impl IntoIterator<Item: Operand>,
    ) -> Self {
        let node = Node {
            path: format!("{operator}_{}", builder.graph.nodes.len()),
            domain: String::new(),
            operator: operator.to_owned(),
            version: builder.version(""),
            attributes: Default::default(),
            inputs: inputs.into_iter().map(Operand::operand).collect(),
            outputs: Vec::new(),
        };
        Self { builder, node }
    }

    /// Sets an attribute: `attribute("axis", 1)`, `attribute("perm", [0, 2, 1])`.
    pub fn attribute(mut self, name: &str, value: impl Into<Attribute>) -> Self {
        if let Err(error) = self.node.attributes.push(name, value.into()) {
            self.builder.fail(error.at(&self.node));
        }
        self
    }

    /// Sets several attributes.
    pub fn attributes<'a, V: Into<Attribute>>(
        self,
        list: impl IntoIterator<Item = (&'a str, V)>,
    ) -> Self {
        list.into_iter().fold(self, |node, (name, value)| node.attribute(name, value))
    }

    /// Takes the operator from another domain than ONNX' own, in the version of
    /// [`GraphBuilder::opset_of`].
    pub fn domain(mut self, domain: &str) -> Self {
        domain.clone_into(&mut self.node.domain);
        self.node.version = self.builder.version(domain);
        self
    }

    /// Takes the operator from another version of the standard than the graph's. Such graphs run; they can be
    /// saved if one version means the same for all nodes.
    pub fn version(mut self, version: i64) -> Self {
        self.node.version = version;
        self
    }

    /// Names the node, and its results after it; otherwise the operator and a number are the name.
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.node.path);
        self
    }

    /// Adds the node, which has one result.
    pub fn output(self) -> ValueId {
        let [output] = self.outputs();
        output
    }

    /// Adds the node, whose number of results is known: `let [y, indices] = ...`.
    pub fn outputs<const N: usize>(mut self) -> [ValueId; N] {
        let mut number = 0;
        let outputs = [(); N].map(|()| {
            number += 1;
            self.result(number - 1)
        });
        self.builder.graph.nodes.push(self.node);
        outputs
    }

    /// Adds the node with as many results as the caller counts.
    pub fn output_list(mut self, count: usize) -> Vec<ValueId> {
        let outputs = (0..count).map(|number| self.result(number)).collect();
        self.builder.graph.nodes.push(self.node);
        outputs
    }

    fn result(&mut self, number: usize) -> ValueId {
        let name = match number {
            0 => self.node.path.clone(),
            number => format!("{}_{number}", self.node.path),
        };
        let id = self.builder.generated(name, None, None);
        self.node.outputs.push(Some(id));
        id
    }
}
