//! Common subexpressions: nodes of the same operator with the same operands, and equal constants.

use std::collections::{HashMap, HashSet};

use polaris_onnx::{Attribute, ElementType, Graph, Node, Value, ValueId};

use super::Place;
use super::constants::is_determined;
use super::edits::merge;

/// Constants of up to so many bytes are compared: axes, shapes and scalars that exporters write again and
/// again. Weights are not worth reading for it.
const COMPARED_BYTES: usize = 1 << 10;

/// The order of their operands does not matter, to the last bit.
const SYMMETRIC: &[&str] = &["Add", "And", "Equal", "Mul", "Or", "Xor"];

/// What makes two nodes the same.
#[derive(PartialEq, Eq, Hash)]
struct Signature {
    domain: String,
    operator: String,
    version: i64,
    attributes: Vec<(String, String)>,
    inputs: Vec<Option<ValueId>>,
    results: usize,
}

pub fn run(graph: &mut Graph, _: Place) -> usize {
    let constants = equal_constants(graph);
    merge(graph, &constants);
    let mut first: HashMap<Signature, Vec<Option<ValueId>>> = HashMap::new();
    let mut stands: HashMap<ValueId, ValueId> = HashMap::new();
    let mut pairs = Vec::new();
    let mut count = 0;
    for node in &graph.nodes {
        let Some(signature) = signature(node, &stands) else { continue };
        let Some(others) = first.get(&signature) else {
            first.insert(signature, node.outputs.clone());
            continue;
        };
        let own = node.outputs.iter().zip(others);
        let all: Option<Vec<(ValueId, ValueId)>> =
            own.filter_map(|(own, other)| own.map(|own| other.map(|other| (own, other)))).collect();
        if let Some(all) = all {
            stands.extend(all.iter().copied());
            pairs.extend(all);
            count += 1;
        }
    }
    // Results that keep their nodes, for their names, would be found again and again.
    if merge(graph, &pairs) > 0 { count } else { 0 }
}

/// `None` for what need not be the same, or is not worth comparing.
fn signature(node: &Node, stands: &HashMap<ValueId, ValueId>) -> Option<Signature> {
    if !is_determined(node) {
        return None;
    }
    let mut attributes = Vec::new();
    for (name, attribute) in node.attributes.iter() {
        match attribute {
            Attribute::Tensor(tensor) if tensor.elements() > 16 => return None,
            Attribute::Tensors(_) | Attribute::Graph(_) | Attribute::Type(_) => return None,
            other => attributes.push((name.to_owned(), format!("{other:?}"))),
        }
    }
    attributes.sort();
    let same = |id: ValueId| stands.get(&id).copied().unwrap_or(id);
    let mut inputs: Vec<Option<ValueId>> = node.inputs.iter().map(|id| id.map(same)).collect();
    if node.domain.is_empty() && node.version >= 7 && SYMMETRIC.contains(&node.operator.as_str()) {
        inputs.sort();
    }
    Some(Signature {
        domain: node.domain.clone(),
        operator: node.operator.clone(),
        version: node.version,
        attributes,
        inputs,
        results: node.outputs.len(),
    })
}

/// Small constants that are equal, each with the first of its kind.
fn equal_constants(graph: &Graph) -> Vec<(ValueId, ValueId)> {
    let given: HashSet<ValueId> = graph.inputs.iter().copied().collect();
    let mut first: HashMap<(ElementType, &[usize], &[u8]), ValueId> = HashMap::new();
    let mut pairs = Vec::new();
    for (at, slot) in graph.values.iter().enumerate() {
        let id = ValueId(at as u32);
        let Some(Value::Tensor(tensor)) = &slot.constant else { continue };
        let Ok(bytes) = tensor.bytes() else { continue };
        if given.contains(&id) || bytes.len() > COMPARED_BYTES {
            continue;
        }
        let same = *first.entry((tensor.element(), tensor.shape(), bytes)).or_insert(id);
        if same != id {
            pairs.push((id, same));
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_pass, floats};
    use super::*;
    use polaris_onnx::{ElementType::F32, GraphBuilder};

    #[test]
    fn twins_are_computed_once() {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", F32, ["4"]);
        let (one, other_one) = (draft.number(1.0), draft.number(1.0));
        let a = draft.node("Add", [x, one]);
        let b = draft.node("Add", [other_one, x]);
        let (a, b) = (draft.node("Exp", [a]), draft.node("Exp", [b]));
        let product = draft.node("Mul", [a, b]);
        draft.output(product);
        draft.output_as(b, "b");
        let graph = check_pass(
            draft,
            |graph, place| run(graph, place) + super::super::dead::run(graph, place),
            &[("x", floats(&[4]))],
            0.0,
        );
        assert_eq!(graph.nodes.len(), 3, "{graph}");
        assert_eq!(graph.value(graph.outputs[1]).name, "b");
    }

    #[test]
    fn random_numbers_and_other_parameters_stay() {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", F32, ["4", "4"]);
        let random = [draft.node("RandomNormalLike", [x]), draft.node("RandomNormalLike", [x])];
        let turned = [
            draft.node_with("Transpose", [x], [("perm", [0, 1])]),
            draft.node_with("Transpose", [x], [("perm", [1, 0])]),
        ];
        for id in random.into_iter().chain(turned) {
            draft.output(id);
        }
        let mut graph = draft.finish().unwrap();
        assert_eq!(run(&mut graph, Place::Model), 0);
    }

    #[test]
    fn equal_results_keep_both_names() {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", F32, ["4"]);
        let (a, b) = (draft.node("Exp", [x]), draft.node("Exp", [x]));
        draft.output_as(a, "a");
        draft.output_as(b, "b");
        let graph = check_pass(draft, run, &[("x", floats(&[4]))], 0.0);
        assert_eq!(graph.nodes.len(), 2);
    }
}
