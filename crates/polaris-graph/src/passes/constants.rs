//! Constant folding: computes once what depends on constants and declared shapes only.

use std::collections::HashSet;

use polaris_onnx::infer::Fact;
use polaris_onnx::operators::{NoScope, RANDOM};
use polaris_onnx::{Graph, Node, Type, Value, ValueId, interpret_node};

use super::Place;
use super::matching::{View, is};

/// Results of up to this many elements are computed ahead, whatever the operator.
pub const FOLDED_ELEMENTS: usize = 1 << 14;

/// Elements of operands that are looked at for a result of that size, at most: the interpreter takes its
/// time.
const MOST_OPERANDS: usize = 1 << 18;

/// Larger results are computed ahead for operators that take a step for each element and would do so in
/// every run.
const LINEAR: &[&str] =
    &["Add", "Cast", "CastLike", "Concat", "Div", "Mul", "Neg", "Pow", "Reciprocal", "Sqrt", "Sub"];

/// Elements of such results, at most, of one node and of all: they take memory in addition to the file's.
const MOST_LINEAR: usize = 1 << 24;
const MOST_IN_ALL: usize = 1 << 26;

/// These share their operand's elements, of which there may be any number.
const SHARING: &[&str] = &["Constant", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"];

/// Whether a node gives the same results for the same operands. Dropout does not in training.
pub fn is_determined(node: &Node) -> bool {
    node.attributes.graphs().next().is_none()
        && !RANDOM.contains(&node.operator.as_str())
        && node.operator != "Dropout"
}

pub fn run(graph: &mut Graph, place: Place) -> usize {
    let facts = View::new(graph, place).facts().to_vec();
    let given: HashSet<ValueId> = graph.inputs.iter().copied().collect();
    let (mut folded, mut left) = (0, MOST_IN_ALL);
    for node in std::mem::take(&mut graph.nodes) {
        match results(&node, graph, &facts, &given, &mut left) {
            Some(values) => {
                for (id, value) in values {
                    graph.values[id.index()].constant = Some(value);
                }
                folded += 1;
            }
            None => graph.nodes.push(node),
        }
    }
    folded
}

/// The results of a node, if they can be known and are not too large.
fn results(
    node: &Node,
    graph: &Graph,
    facts: &[Fact],
    given: &HashSet<ValueId>,
    left: &mut usize,
) -> Option<Vec<(ValueId, Value)>> {
    // Weights stay narrow, and the operator stays there for those who look for it.
    if !is_determined(node) || is(node, "DequantizeLinear") {
        return None;
    }
    let wanted: Vec<ValueId> = node.outputs.iter().flatten().copied().collect();
    let inferred: Option<Vec<(ValueId, Value)>> =
        wanted.iter().map(|id| Some((*id, facts[id.index()].value.clone()?.into()))).collect();
    if let Some(values) = inferred.filter(|list| !list.is_empty()) {
        return Some(values);
    }
    let constant = |id: ValueId| match given.contains(&id) {
        true => None,
        false => graph.value(id).constant.clone(),
    };
    let operands: Vec<Option<Value>> =
        node.inputs.iter().map(|id| id.map(constant)).map(all_or_absent).collect::<Option<_>>()?;
    let size = size_if_cheap(node, &operands, &wanted, facts).filter(|size| size <= left)?;
    *left -= size;
    let made = interpret_node(node, &operands, &NoScope).ok()?;
    let pairs = node.outputs.iter().zip(made);
    Some(pairs.filter_map(|(id, value)| Some(((*id)?, value))).collect())
}

/// An operand that is left out is no obstacle, one that is not constant is.
fn all_or_absent(operand: Option<Option<Value>>) -> Option<Option<Value>> {
    match operand {
        None => Some(None),
        Some(None) => None,
        Some(constant) => Some(constant),
    }
}

/// How many elements computing ahead adds to the memory that is taken, if it costs little time.
fn size_if_cheap(
    node: &Node,
    operands: &[Option<Value>],
    wanted: &[ValueId],
    facts: &[Fact],
) -> Option<usize> {
    let own = node.domain.is_empty();
    if own && SHARING.contains(&node.operator.as_str()) {
        return Some(0);
    }
    let given: usize = operands.iter().flatten().map(elements).sum();
    let made = wanted.iter().try_fold(0usize, |sum, id| {
        let (_, shape) = facts[id.index()].ty.as_ref().and_then(Type::known_tensor)?;
        sum.checked_add(product(&shape)?)
    });
    made.filter(|&made| {
        let linear = own && LINEAR.contains(&node.operator.as_str());
        made <= FOLDED_ELEMENTS && given <= MOST_OPERANDS
            // What becomes larger by repetition is repeated where it is used.
            || linear && made <= MOST_LINEAR && made <= given
    })
}

fn elements(value: &Value) -> usize {
    value.tensor().map_or(0, polaris_onnx::Tensor::elements)
}

fn product(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |count, &length| count.checked_mul(length))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_pass, floats};
    use super::*;
    use polaris_onnx::{
        ElementType::{self, F32},
        GraphBuilder, Tensor,
    };

    #[test]
    fn chains_of_constants_and_shapes_become_constants() {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", F32, ["batch", "8"]);
        let two = draft.number(2.0);
        let root = draft.node("Sqrt", [two]);
        let shape = draft.node("Shape", [x]);
        let one = draft.scalar(1i64);
        let length = draft.node("Gather", [shape, one]);
        let length = draft.node_with("Cast", [length], [("to", ElementType::F32)]);
        let scaled = draft.node("Mul", [x, root]);
        let result = draft.node("Div", [scaled, length]);
        draft.output(result);
        let graph = check_pass(draft, run, &[("x", floats(&[3, 8]))], 1e-6);
        assert_eq!(graph.nodes.len(), 3, "{graph}");
    }

    #[test]
    fn what_is_random_or_large_or_may_be_given_stays() {
        let mut draft = GraphBuilder::new("test");
        let given = draft.input_with_default("given", floats(&[4]));
        let doubled = draft.node("Add", [given, given]);
        let shape = draft.integers(&[1000, 1000]);
        let large = draft.node("ConstantOfShape", [shape]);
        let random = draft.node("RandomNormalLike", [shape]);
        for id in [doubled, large, random] {
            draft.output(id);
        }
        let mut graph = draft.finish().unwrap();
        assert_eq!(run(&mut graph, Place::Model), 0, "{graph}");
    }

    #[test]
    fn what_cannot_be_computed_stays() {
        let mut draft = GraphBuilder::new("test");
        let (a, b) = (draft.constant(floats(&[4])), draft.constant(floats(&[4])));
        let sum = draft.node("Add", [a, b]);
        draft.output(sum);
        let mut graph = draft.finish().unwrap();
        // No builder makes this, but a file may.
        graph.values[a.index()].constant = Some(floats(&[3]).into());
        assert_eq!(run(&mut graph, Place::Model), 0);
    }

    #[test]
    fn large_weights_are_cast_once() {
        let mut draft = GraphBuilder::new("test");
        let narrow = Tensor::from_f64(ElementType::F16, &[300, 300], &vec![0.5; 90_000]).unwrap();
        let weight = draft.constant(narrow);
        let wide = draft.node_with("Cast", [weight], [("to", ElementType::F32)]);
        draft.output(wide);
        let graph = check_pass(draft, run, &[], 0.0);
        assert!(graph.nodes.is_empty());
    }
}
