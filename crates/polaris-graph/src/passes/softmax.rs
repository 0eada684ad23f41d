//! Fuses softmax: `exp(x) / sum(exp(x))`, with or without the largest element subtracted.

use polaris_onnx::{Attribute, Graph, Node, ValueId};

use super::Place;
use super::edits::{Edits, instead, with};
use super::matching::{View, is, only_result, operand, pair, reduced_axes};

pub fn run(graph: &mut Graph, place: Place) -> usize {
    let view = View::new(graph, place);
    let mut edits = Edits::new(graph);
    for (at, node) in view.nodes().filter(|(_, node)| is(node, "Div")) {
        if let (Some((x, axis)), Some(result)) = (find(&view, node), only_result(node)) {
            let made = instead(node, "Softmax", 13, &[Some(x)], result);
            edits.replace(at, vec![with(made, "axis", Attribute::Int(axis))]);
        }
    }
    edits.apply(graph)
}

/// The operand and the axis of a softmax that ends in this division.
fn find(view: &View<'_>, node: &Node) -> Option<(ValueId, i64)> {
    let [above, below] = pair(node)?;
    let exponent = operand(view.made_by(above, "Exp")?, 0)?;
    let (summed, axis) = reduced(view, below, "ReduceSum")?;
    if summed != above || !view.is_used(above, 2) || !view.is_private(below) {
        return None;
    }
    let x = less_the_largest(view, exponent, axis).unwrap_or(exponent);
    view.is_float(x).then_some((x, axis))
}

/// What the largest element along an axis was subtracted from.
fn less_the_largest(view: &View<'_>, id: ValueId, axis: i64) -> Option<ValueId> {
    let node = view.made_by(id, "Sub").filter(|_| view.is_private(id))?;
    let [x, largest] = pair(node)?;
    let (of, own) = reduced(view, largest, "ReduceMax")?;
    (of == x && own == axis && view.is_private(largest)).then_some(x)
}

/// What is reduced along one axis that stays in the shape.
fn reduced(view: &View<'_>, id: ValueId, operator: &str) -> Option<(ValueId, i64)> {
    let node = view.made_by(id, operator)?;
    let kept = node.attributes.flag("keepdims", true).ok()?;
    match reduced_axes(view, node)?.as_slice() {
        [axis] if kept => Some((operand(node, 0)?, *axis)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{and_dead, check_pass, check_unchanged, count, floats};
    use super::*;
    use polaris_onnx::{ElementType::F32, GraphBuilder};

    /// Along the axes of the largest element, if it is subtracted, and of the sum.
    fn draft(largest: Option<i64>, axes: &[i64], keepdims: i64) -> GraphBuilder {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", F32, ["n", "4", "4"]);
        let mut inside = x;
        if let Some(axis) = largest {
            let most = draft.node_with("ReduceMax", [x], [("axes", [axis])]);
            inside = draft.node("Sub", [x, most]);
        }
        let above = draft.node("Exp", [inside]);
        let axes = draft.integers(axes);
        let keepdims = [("keepdims", keepdims)];
        let below = draft.node_with("ReduceSum", [above, axes], keepdims);
        let made = draft.node("Div", [above, below]);
        draft.output(made);
        draft
    }

    #[test]
    fn both_forms_are_found_along_any_axis() {
        for axis in [-1, 1] {
            for largest in [None, Some(axis)] {
                let draft = draft(largest, &[axis], 1);
                let graph = check_pass(draft, and_dead(run), &[("x", floats(&[3, 4, 4]))], 1e-6);
                assert_eq!((graph.nodes.len(), count(&graph, "Softmax")), (1, 1), "{graph}");
            }
        }
    }

    #[test]
    fn other_sums_stay() {
        check_unchanged(draft(None, &[1, 2], 1), run);
        check_unchanged(draft(None, &[1], 0), run);
        // What is subtracted is then no part of it, but does not harm either.
        let graph =
            check_pass(draft(Some(1), &[2], 1), and_dead(run), &[("x", floats(&[3, 4, 4]))], 1e-6);
        assert_eq!(count(&graph, "Sub"), 1);
    }
}
