//! Dequantises constant weights that no quantised operator reads, once instead of in every run. Those that products can
//! read in blocks stay as they are.

use polaris_onnx::operators::NoScope;
use polaris_onnx::{Graph, Node, Value, ValueId, interpret_node};

use super::Place;
use super::blocks::{Integers, summed_axis};
use super::matching::{View, is, only_result, operand};

/// Elements of one weight, and of all of them, that are computed ahead: they take memory in addition to the file's.
const MOST: usize = 1 << 25;
const MOST_IN_ALL: usize = 1 << 27;

pub fn run(graph: &mut Graph, place: Place) -> usize {
    let view = View::new(graph, place);
    let mut left = MOST_IN_ALL;
    let mut made = Vec::new();
    for (at, node) in view.nodes().filter(|(_, node)| is(node, "DequantizeLinear")) {
        let Some(result) = only_result(node) else { continue };
        // What nobody uses any more is about to be removed.
        let used = view.uses(result) > 0 || view.is_output(result);
        let constant = |index: usize| operand(node, index).and_then(|id| view.constant(id));
        let given = (0..node.inputs.len())
            .all(|index| operand(node, index).is_none() || constant(index).is_some());
        let Some(weight) = constant(0).filter(|_| used && given) else { continue };
        if weight.elements() > MOST.min(left) || stays_packed(&view, node, result) {
            continue;
        }
        let operands: Vec<Option<Value>> =
            (0..node.inputs.len()).map(|index| Some(constant(index)?.clone().into())).collect();
        if let Ok(values) = interpret_node(node, &operands, &NoScope) {
            left -= weight.elements();
            made.push((at, result, values));
        }
    }
    let count = made.len();
    for (at, result, values) in made.into_iter().rev() {
        graph.values[result.index()].constant = values.into_iter().next();
        graph.nodes.remove(at);
    }
    count
}

fn stays_packed(view: &View<'_>, node: &Node, result: ValueId) -> bool {
    let constant = |index: usize| view.constant(operand(node, index)?);
    let axis = summed_axis(result, view.users(result)).filter(|_| !view.is_output(result));
    let integers = axis.and_then(|axis| Integers::of(node, axis, constant));
    integers.is_some_and(|integers| integers.block().is_some())
}

#[cfg(test)]
mod tests {
    use polaris_onnx::{ElementType::F32, GraphBuilder, Tensor};

    use super::super::testing::{check_pass, check_unchanged, count, floats};
    use super::*;

    #[test]
    fn weights_are_dequantised_once() {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", F32, ["n", "4"]);
        let w = draft.constant(Tensor::new(&[4, 2], (0i8..8).collect::<Vec<i8>>()).unwrap());
        let scale = draft.constant(Tensor::new(&[2], vec![0.5f32, 0.25]).unwrap());
        let axis = [("axis", 1)];
        let w = draft.node_with("DequantizeLinear", [w, scale], axis);
        let y = draft.node("MatMul", [x, w]);
        draft.output(y);
        let graph = check_pass(draft, run, &[("x", floats(&[3, 4]))], 0.0);
        assert_eq!((graph.nodes.len(), count(&graph, "MatMul")), (1, 1), "{graph}");
    }

    #[test]
    fn what_nobody_uses_stays_as_it_is() {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", F32, ["n"]);
        let w = draft.constant(Tensor::new(&[2], vec![1i8, 2]).unwrap());
        let scale = draft.number(0.5);
        draft.node("DequantizeLinear", [w, scale]);
        let y = draft.node("Neg", [x]);
        draft.output(y);
        check_unchanged(draft, run);
    }
}
