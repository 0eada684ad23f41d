//! Operators that a model defines itself.

use std::collections::HashMap;

use prost::Message;

use crate::messages::{Function, Node};
use crate::{Error, Result};

/// Functions inside functions, at most.
const DEEPEST: usize = 32;
/// Nodes of functions that are written out, at most: calls multiply.
const MOST_NODES: usize = 1 << 16;

/// Bytes of functions that are written out, at most: constants are read again for each call.
const MOST_BYTES: usize = 1 << 27;

/// The functions of a model.
pub struct Functions<'m> {
    by_name: HashMap<(String, String, String), &'m Function>,
    depth: usize,
    nodes: usize,
    bytes: usize,
}

impl<'m> Functions<'m> {
    pub fn new(list: &'m [Function]) -> Result<Self> {
        let mut by_name = HashMap::new();
        for function in list {
            let domain = if function.domain == "ai.onnx" { "" } else { &function.domain };
            let key = (domain.to_owned(), function.name.clone(), function.overload.clone());
            if by_name.insert(key, function).is_some() {
                return Err(Error::format(format!(
                    "two functions have the name `{}`",
                    function.name
                )));
            }
        }
        Ok(Self { by_name, depth: 0, nodes: 0, bytes: 0 })
    }

    pub fn find(&self, domain: &str, operator: &str, overload: &str) -> Option<&'m Function> {
        if self.by_name.is_empty() {
            return None;
        }
        let key = (domain.to_owned(), operator.to_owned(), overload.to_owned());
        self.by_name.get(&key).copied()
    }

    /// Counts a function that is written out; refuses what would never end.
    pub fn enter(&mut self, function: &Function) -> Result<()> {
        self.depth += 1;
        self.nodes += function.node.iter().map(nodes_in).sum::<usize>();
        if self.depth > DEEPEST {
            let name = &function.name;
            return Err(Error::format(format!(
                "functions call one another too deeply, at `{name}`"
            )));
        }
        self.bytes = self.bytes.saturating_add(function.encoded_len());
        if self.bytes > MOST_BYTES {
            let why = format!("its functions would take more than {MOST_BYTES} bytes");
            return Err(Error::format(why));
        }
        if self.nodes > MOST_NODES {
            return Err(Error::format(format!("its functions have more than {MOST_NODES} nodes")));
        }
        Ok(())
    }

    pub fn leave(&mut self) {
        self.depth -= 1;
    }
}

/// A node and those of graphs inside it.
fn nodes_in(node: &Node) -> usize {
    let graphs = node.attribute.iter().filter_map(|attribute| attribute.g.as_deref());
    1 + graphs.flat_map(|graph| &graph.node).map(nodes_in).sum::<usize>()
}
