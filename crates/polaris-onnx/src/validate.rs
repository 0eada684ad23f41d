//! Validation of a graph: the invariants that everything else relies on, checked once.

use std::collections::HashSet;

use crate::{Error, Graph, Node, Result, ValueId};

/// What a value of a graph is while nodes are walked in their order.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Unknown,
    Known,
}

impl Graph {
    /// Checks that the graph and the subgraphs can be computed: every value that is referred
    /// to exists, each is made once and before it is needed, each output is made, and names are unique
    /// (values without a name are allowed).
    ///
    /// # Errors
    /// `Format` with the node and the value in question.
    pub fn validate(&self) -> Result<()> {
        self.validate_places()?;
        self.validate_names()
    }

    /// [`Self::validate`] without the names, which nothing is found by once a graph is made.
    pub(crate) fn validate_places(&self) -> Result<()> {
        let mut states = vec![State::Unknown; self.values.len()];
        for (slot, state) in self.values.iter().zip(&mut states) {
            if slot.constant.is_some() {
                *state = State::Known;
            }
        }
        let mut given = HashSet::new();
        for &id in &self.inputs {
            self.check_exists(id, "an input of the graph")?;
            if !given.insert(id) {
                return Err(self.twice(id, "is an input twice"));
            }
            states[id.index()] = State::Known;
        }
        for capture in &self.captures {
            self.check_exists(capture.inner, "a captured value")?;
            if states[capture.inner.index()] == State::Known {
                return Err(self.twice(capture.inner, "is captured, but made in the graph too"));
            }
            states[capture.inner.index()] = State::Known;
        }
        for node in &self.nodes {
            self.validate_node(node, &mut states)?;
        }
        for &id in &self.outputs {
            self.check_exists(id, "an output of the graph")?;
            if states[id.index()] == State::Unknown {
                let name = &self.value(id).name;
                return Err(Error::format(format!("no node writes the output `{name}`")));
            }
        }
        Ok(())
    }

    fn validate_node(&self, node: &Node, states: &mut [State]) -> Result<()> {
        for id in node.needs() {
            self.check_exists(id, &format!("an operand of node `{}`", node.path))?;
            if states[id.index()] == State::Unknown {
                return Err(Error::format(format!(
                    "node `{}` needs `{}`, which nothing before it makes; put each node after those \
                     that it needs",
                    node.path,
                    self.value(id).name
                )));
            }
        }
        for graph in node.attributes.graphs() {
            graph.validate_places().map_err(|error| error.at(node))?;
        }
        for &id in node.outputs.iter().flatten() {
            self.check_exists(id, &format!("a result of node `{}`", node.path))?;
            if states[id.index()] == State::Known {
                return Err(self.twice(id, &format!("is made again by node `{}`", node.path)));
            }
            states[id.index()] = State::Known;
        }
        Ok(())
    }

    fn validate_names(&self) -> Result<()> {
        let mut names = HashSet::new();
        for slot in &self.values {
            if !slot.name.is_empty() && !names.insert(slot.name.as_str()) {
                return Err(Error::format(format!(
                    "two values have the name `{}`; name each value once",
                    slot.name
                )));
            }
        }
        for node in &self.nodes {
            for graph in node.attributes.graphs() {
                graph.validate_names().map_err(|error| error.at(node))?;
            }
        }
        Ok(())
    }

    fn check_exists(&self, id: ValueId, what: &str) -> Result<()> {
        if id.index() < self.values.len() {
            return Ok(());
        }
        Err(Error::format(format!(
            "{what} is the value {}, but the graph has {} values, counted from 0",
            id.0,
            self.values.len()
        )))
    }

    fn twice(&self, id: ValueId, how: &str) -> Error {
        let name = &self.value(id).name;
        Error::format(format!("the value `{name}` {how}; make each value once"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Attribute, Attributes, Capture};

    fn node(inputs: &[u32], outputs: &[u32]) -> Node {
        let ids = |list: &[u32]| list.iter().map(|&id| Some(ValueId(id))).collect();
        Node {
            path: format!("n{}", outputs[0]),
            domain: String::new(),
            operator: "Identity".to_owned(),
            version: 16,
            attributes: Attributes::default(),
            inputs: ids(inputs),
            outputs: ids(outputs),
        }
    }

    /// x -> Identity -> y -> Identity -> z.
    fn chain() -> Graph {
        let mut graph = Graph::default();
        for name in ["x", "y", "z"] {
            graph.add_value(name.to_owned(), None, None);
        }
        graph.inputs = vec![ValueId(0)];
        graph.outputs = vec![ValueId(2)];
        graph.nodes = vec![node(&[0], &[1]), node(&[1], &[2])];
        graph
    }

    fn refusal(change: impl FnOnce(&mut Graph)) -> String {
        let mut graph = chain();
        change(&mut graph);
        graph.validate().unwrap_err().to_string()
    }

    #[test]
    fn graphs_that_can_be_computed_are_accepted() {
        chain().validate().unwrap();
        let mut graph = chain();
        graph.outputs = vec![ValueId(2), ValueId(0), ValueId(2)];
        graph.nodes[0].inputs.push(None);
        graph.validate().unwrap();
        Graph::default().validate().unwrap();
    }

    #[test]
    fn values_that_do_not_exist() {
        let missing = ValueId(7);
        for found in [
            refusal(|graph| graph.inputs.push(missing)),
            refusal(|graph| graph.outputs.push(missing)),
            refusal(|graph| graph.nodes[0].inputs[0] = Some(missing)),
            refusal(|graph| graph.nodes[1].outputs.push(Some(missing))),
            refusal(|graph| graph.captures.push(Capture { outer: ValueId(0), inner: missing })),
        ] {
            assert!(found.contains("the value 7, but the graph has 3 values"), "{found}");
        }
    }

    #[test]
    fn the_interpreter_refuses_what_is_no_graph() {
        let mut graph = chain();
        graph.nodes[0].inputs[0] = Some(ValueId(7));
        let x = crate::Tensor::scalar(1f32).into();
        let found = crate::interpret(&graph, &[Some(x)], &[]).unwrap_err().to_string();
        assert!(found.contains("the value 7"), "{found}");
    }

    #[test]
    fn values_made_twice_or_never() {
        let found = refusal(|graph| graph.nodes.push(node(&[0], &[1])));
        assert!(found.contains("`y` is made again by node `n1`"), "{found}");
        let found = refusal(|graph| graph.inputs.push(ValueId(0)));
        assert!(found.contains("`x` is an input twice"), "{found}");
        let found = refusal(|graph| graph.nodes[0].outputs = vec![Some(ValueId(0))]);
        assert!(found.contains("`x` is made again"), "{found}");
        let found = refusal(|graph| graph.nodes.truncate(1));
        assert!(found.contains("no node writes the output `z`"), "{found}");
        let found = refusal(|graph| graph.nodes.reverse());
        assert!(found.contains("node `n2` needs `y`, which nothing before it makes"), "{found}");
        let found = refusal(|graph| graph.nodes[0].inputs[0] = Some(ValueId(2)));
        assert!(found.contains("node `n1` needs `z`"), "{found}");
    }

    #[test]
    fn names_that_are_not_unique() {
        let found = refusal(|graph| graph.values[1].name = "x".to_owned());
        assert!(found.contains("two values have the name `x`"), "{found}");
        let mut graph = chain();
        graph.values[0].name.clear();
        graph.values[1].name.clear();
        graph.validate().unwrap();
    }

    #[test]
    fn graphs_inside_nodes() {
        let with_inner = |inner: Graph| {
            refusal(|graph| {
                let attribute = Attribute::Graph(Arc::new(inner));
                graph.nodes[1].attributes.push("body", attribute).unwrap();
            })
        };
        let capture = |outer: u32| Capture { outer: ValueId(outer), inner: ValueId(0) };
        let inner = Graph { inputs: Vec::new(), captures: vec![capture(9)], ..chain() };
        let found = with_inner(inner.clone());
        assert!(found.contains("an operand of node `n2` is the value 9"), "{found}");
        let found = with_inner(Graph { captures: vec![capture(2)], ..inner.clone() });
        assert!(found.contains("node `n2` needs `z`"), "{found}");
        let found = with_inner(Graph { outputs: vec![ValueId(5)], ..chain() });
        assert!(found.contains("node `n2` (Identity)") && found.contains("the value 5"), "{found}");
    }
}
