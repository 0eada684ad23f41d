//! Dead-code elimination: nodes whose results are unused, and identities.

use std::collections::HashSet;

use polaris_onnx::{Graph, Node, ValueId};

use super::Place;
use super::edits::merge;
use super::matching::{View, is, only_result, operand, same_shape};

/// Operators whose number of results, or their places, say something.
const EVERY_RESULT: &[&str] = &["If", "Loop", "Scan", "Split"];

/// With a single operand these give it back.
const OF_MANY: &[&str] = &["Concat", "Max", "Mean", "Min", "Sum"];

pub fn run(graph: &mut Graph, place: Place) -> usize {
    let view = View::new(graph, place);
    let idle: Vec<(ValueId, ValueId)> =
        view.nodes().filter_map(|(_, node)| given_back(&view, node)).collect();
    merge(graph, &idle);
    remove_unwanted(graph)
}

/// The result of a node and the operand that it gives back as it is.
fn given_back(view: &View<'_>, node: &Node) -> Option<(ValueId, ValueId)> {
    let (result, x) = (only_result(node)?, operand(node, 0)?);
    let same = node.domain.is_empty()
        && match node.operator.as_str() {
            "Identity" => true,
            "Dropout" => !may_train(view, node),
            "Cast" => {
                let to = node.attributes.int("to").ok().flatten();
                view.element(x).is_some_and(|element| Some(i64::from(element.code())) == to)
            }
            "CastLike" => {
                let like = operand(node, 1).and_then(|like| view.element(like));
                like.is_some() && like == view.element(x)
            }
            "Transpose" => is_no_permutation(view, node, x),
            "Expand" | "Flatten" | "Reshape" => view
                .shape(x)
                .zip(view.shape(result))
                .is_some_and(|(before, after)| same_shape(before, after)),
            name => OF_MANY.contains(&name) && node.inputs.len() == 1,
        };
    same.then_some((result, x))
}

/// Before version 12 a node cannot say that it is in training.
fn may_train(view: &View<'_>, node: &Node) -> bool {
    match operand(node, 2) {
        Some(flag) if node.version >= 12 => view.number(flag) != Some(0.0),
        _ => false,
    }
}

fn is_no_permutation(view: &View<'_>, node: &Node, x: ValueId) -> bool {
    match node.attributes.ints("perm") {
        Ok(Some(order)) => order.iter().enumerate().all(|(at, &axis)| axis == at as i64),
        Ok(None) => view.rank(x).is_some_and(|rank| rank < 2),
        Err(_) => false,
    }
}

/// Removes nodes whose results are unused, results that nobody wants of others, and what is then needed no more:
/// values of the graph outside, and constants, which take memory.
fn remove_unwanted(graph: &mut Graph) -> usize {
    let mut wanted: HashSet<ValueId> = graph.outputs.iter().copied().collect();
    let mut kept = Vec::with_capacity(graph.nodes.len());
    let before = graph.nodes.len();
    for mut node in std::mem::take(&mut graph.nodes).into_iter().rev() {
        if !node.outputs.iter().flatten().any(|id| wanted.contains(id)) {
            continue;
        }
        if !EVERY_RESULT.iter().any(|operator| is(&node, operator)) {
            for output in &mut node.outputs {
                *output = output.filter(|id| wanted.contains(id));
            }
        }
        wanted.extend(node.needs());
        kept.push(node);
    }
    kept.reverse();
    graph.nodes = kept;
    graph.captures.retain(|capture| wanted.contains(&capture.inner));
    let given: HashSet<ValueId> = graph.inputs.iter().copied().collect();
    for (at, slot) in graph.values.iter_mut().enumerate() {
        let id = ValueId(at as u32);
        if !wanted.contains(&id) && !given.contains(&id) {
            slot.constant = None;
        }
    }
    before - graph.nodes.len()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_pass, floats};
    use super::*;
    use polaris_onnx::{
        ElementType::{self, F32},
        GraphBuilder, Type,
    };

    #[test]
    fn what_changes_nothing_goes_and_results_keep_their_names() {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", F32, ["n", "4"]);
        let a = draft.node("Identity", [x]);
        let b = draft.node_with("Cast", [a], [("to", ElementType::F32)]);
        let order = draft.node_with("Transpose", [b], [("perm", [0, 1])]);
        let shape = draft.node("Shape", [x]);
        let reshaped = draft.node("Reshape", [order, shape]);
        let kept = draft.node("Dropout", [reshaped]);
        let root = draft.node("Exp", [kept]);
        let unused = draft.node("Neg", [root]);
        let last = draft.node("Identity", [root]);
        draft.output_as(last, "y");
        let _ = unused;
        let graph = check_pass(draft, run, &[("x", floats(&[2, 4]))], 0.0);
        assert_eq!(graph.nodes.len(), 1, "{graph}");
        assert_eq!(graph.value(graph.outputs[0]).name, "y");
    }

    #[test]
    fn inputs_as_results_and_results_of_results_stay_right() {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", F32, ["3"]);
        let same = draft.node("Identity", [x]);
        let again = draft.node("Identity", [x]);
        let root = draft.node("Exp", [same]);
        let twin = draft.node("Identity", [root]);
        for (id, name) in [(same, "a"), (again, "b"), (root, "c"), (twin, "d")] {
            draft.output_as(id, name);
        }
        let graph = check_pass(draft, run, &[("x", floats(&[3]))], 0.0);
        let names: Vec<&str> =
            graph.outputs.iter().map(|&id| graph.value(id).name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
    }

    #[test]
    fn training_stays() {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", F32, ["3"]);
        let truth = Type::Tensor(ElementType::Bool, Some(Vec::new()));
        let (ratio, training) = (draft.number(0.5), draft.input_of("training", truth));
        let dropped = draft.node("Dropout", [x, ratio, training]);
        draft.output(dropped);
        let mut graph = draft.finish().unwrap();
        run(&mut graph, Place::Model);
        assert_eq!(graph.nodes.len(), 1);
    }
}
