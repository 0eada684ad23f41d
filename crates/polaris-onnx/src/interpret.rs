//! Evaluates a graph node by node on the host.

use crate::limits::check_cancelled;
use crate::operators::{self, Call, Scope};
use crate::{Error, Graph, Node, Result, Value, ValueId};

/// The outputs of a graph, given its inputs and what it captures, both in their order. An input that a
/// constant stands for may be left out.
///
/// # Errors
/// If the graph is none, or what a node cannot do, with its name.
pub fn interpret(
    graph: &Graph,
    inputs: &[Option<Value>],
    captured: &[Value],
) -> Result<Vec<Value>> {
    graph.validate_places()?;
    interpret_valid(graph, inputs, captured)
}

/// As [`interpret`], of a graph inside a node of one that was validated.
pub(crate) fn interpret_valid(
    graph: &Graph,
    inputs: &[Option<Value>],
    captured: &[Value],
) -> Result<Vec<Value>> {
    let mut uses = vec![0usize; graph.values.len()];
    for id in graph.nodes.iter().flat_map(Node::needs).chain(graph.outputs.iter().copied()) {
        uses[id.index()] += 1;
    }
    let mut values: Vec<Option<Value>> =
        graph.values.iter().map(|slot| slot.constant.clone()).collect();
    for (&id, input) in graph.inputs.iter().zip(inputs) {
        if let Some(input) = input {
            values[id.index()] = Some(input.clone());
        }
    }
    for (capture, value) in graph.captures.iter().zip(captured) {
        values[capture.inner.index()] = Some(value.clone());
    }
    let missing =
        |id: ValueId| Error::input(format!("the input `{}` is missing", graph.value(id).name));
    for node in &graph.nodes {
        check_cancelled()?;
        let mut operands = Vec::with_capacity(node.inputs.len());
        for input in &node.inputs {
            operands.push(match *input {
                Some(id) => Some(values[id.index()].clone().ok_or_else(|| missing(id))?),
                None => None,
            });
        }
        let results = interpret_node(node, &operands, &Values(&values))?;
        drop(operands);
        for (output, value) in node.outputs.iter().zip(results) {
            if let Some(id) = output.filter(|id| uses[id.index()] > 0) {
                values[id.index()] = Some(value);
            }
        }
        for id in node.needs() {
            uses[id.index()] -= 1;
            if uses[id.index()] == 0 {
                values[id.index()] = None;
            }
        }
    }
    graph.outputs.iter().map(|&id| values[id.index()].clone().ok_or_else(|| missing(id))).collect()
}

/// The values of a graph that have been computed.
struct Values<'a>(&'a [Option<Value>]);

impl Scope for Values<'_> {
    fn value(&self, id: ValueId) -> Option<Value> {
        self.0[id.index()].clone()
    }
}

/// The results of one node.
///
/// # Errors
/// If no operator has the name, or it cannot work with the operands.
pub fn interpret_node(
    node: &Node,
    inputs: &[Option<Value>],
    scope: &dyn Scope,
) -> Result<Vec<Value>> {
    let operator = operators::find(&node.domain, &node.operator).ok_or_else(|| {
        Error::unsupported(format!("the operator {}", node.operator_name())).at(node)
    })?;
    let results = operator(&Call { node, inputs, scope }).map_err(|error| error.at(node))?;
    if results.len() < node.outputs.len() {
        let what = format!("the output {} of {}", results.len() + 1, node.operator);
        return Err(Error::unsupported(what).at(node));
    }
    Ok(results)
}
