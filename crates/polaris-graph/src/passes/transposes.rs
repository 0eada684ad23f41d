//! Merges consecutive transpositions, and removes inverse pairs around elementwise functions.

use polaris_onnx::{Attribute, Graph, Node, ValueId};

use super::Place;
use super::edits::{Edits, instead, with};
use super::matching::{View, is, only_result, operand, pair};

/// Elementwise functions with one operand of which the result has the shape.
const ELEMENTWISE: &[&str] = &[
    "Abs",
    "Cast",
    "Ceil",
    "Clip",
    "Cos",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Log",
    "Mish",
    "Neg",
    "Not",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Sign",
    "Sin",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Swish",
    "Tanh",
];

/// Those with two, of which one may be a number.
const OF_TWO: &[&str] = &["Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"];

/// Nodes between two transpositions that are looked at, at most.
const LONGEST: usize = 16;

pub fn run(graph: &mut Graph, place: Place) -> usize {
    let view = View::new(graph, place);
    let mut edits = Edits::new(graph);
    for (at, node) in view.nodes().filter(|(_, node)| is(node, "Transpose")) {
        if merged(&view, &mut edits, at, node).is_none() {
            cancelled(&view, &mut edits, at, node);
        }
    }
    edits.apply(graph)
}

/// The operand of a transposition and its order of axes.
fn turned(view: &View<'_>, node: &Node) -> Option<(ValueId, Vec<usize>)> {
    let x = operand(node, 0)?;
    let order: Vec<usize> = match node.attributes.ints("perm").ok()? {
        Some(list) => list.iter().map(|&axis| usize::try_from(axis).ok()).collect::<Option<_>>()?,
        None => (0..view.rank(x)?).rev().collect(),
    };
    let is_order = (0..order.len()).all(|axis| order.contains(&axis));
    is_order.then_some((x, order))
}

/// The order of two transpositions, one after the other.
fn composed(first: &[usize], second: &[usize]) -> Option<Vec<usize>> {
    if first.len() != second.len() {
        return None;
    }
    Some(second.iter().map(|&axis| first[axis]).collect())
}

/// A transposition of a transposition. That inside may have other users, which keep it.
fn merged(view: &View<'_>, edits: &mut Edits, at: usize, node: &Node) -> Option<()> {
    let (middle, second) = turned(view, node)?;
    let (x, first) = turned(view, view.made_by(middle, "Transpose")?)?;
    let order = composed(&first, &second)?;
    let perm = Attribute::Ints(order.iter().map(|&axis| axis as i64).collect());
    let made = instead(node, "Transpose", 13, &[Some(x)], only_result(node)?);
    edits.replace(at, vec![with(made, "perm", perm)]);
    Some(())
}

/// A transposition, elementwise functions that nobody else sees, and a transposition back. The functions are written
/// again, since what they make has other shapes.
fn cancelled(view: &View<'_>, edits: &mut Edits, at: usize, node: &Node) -> Option<()> {
    let (last, second) = turned(view, node)?;
    let mut chain: Vec<(&Node, usize)> = Vec::new();
    let mut value = last;
    let (x, first) = loop {
        let (_, maker) = view.maker(value).filter(|_| view.is_private(value))?;
        if is(maker, "Transpose") {
            break turned(view, maker)?;
        }
        let place = passed_through(view, maker)?;
        chain.push((maker, place));
        value = operand(maker, place).filter(|_| chain.len() <= LONGEST)?;
    };
    let back = composed(&first, &second)?;
    if chain.is_empty() || !back.iter().copied().eq(0..back.len()) {
        return None;
    }
    let mut nodes = Vec::with_capacity(chain.len());
    let mut value = x;
    for (at, (old, place)) in chain.iter().rev().enumerate() {
        let made = match at + 1 == chain.len() {
            true => only_result(node)?,
            false => edits.value(&old.path),
        };
        let mut new = (*old).clone();
        new.inputs[*place] = Some(value);
        new.outputs = vec![Some(made)];
        nodes.push(new);
        value = made;
    }
    edits.replace(at, nodes);
    Some(())
}

/// The operand whose shape the result has, if that is all that matters.
fn passed_through(view: &View<'_>, node: &Node) -> Option<usize> {
    only_result(node)?;
    let own = |list: &[&str]| node.domain.is_empty() && list.contains(&node.operator.as_str());
    if own(ELEMENTWISE) {
        return Some(0);
    }
    let [a, b] = pair(node).filter(|_| own(OF_TWO) && node.version >= 7)?;
    match (view.factor(a, b), view.factor(b, a)) {
        (None, Some(_)) => Some(0),
        (Some(_), None) => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{and_dead, check_pass, check_unchanged, count, floats};
    use super::*;
    use polaris_onnx::{ElementType::F32, GraphBuilder};

    fn turn(draft: &mut GraphBuilder, x: ValueId, order: &[i64]) -> ValueId {
        draft.node_with("Transpose", [x], [("perm", order)])
    }

    #[test]
    fn two_become_one_or_none() {
        for (second, nodes) in [([2, 0, 1], 0), ([1, 2, 0], 1)] {
            let mut draft = GraphBuilder::new("test");
            let x = draft.input("x", F32, ["2", "3", "4"]);
            let y = turn(&mut draft, x, &[1, 2, 0]);
            let y = turn(&mut draft, y, &second);
            let y = draft.node("Exp", [y]);
            draft.output(y);
            let graph = check_pass(draft, and_dead(run), &[("x", floats(&[2, 3, 4]))], 0.0);
            assert_eq!(count(&graph, "Transpose"), nodes, "{graph}");
        }
    }

    #[test]
    fn those_around_functions_of_elements_cancel() {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", F32, ["n", "3", "4", "5"]);
        let two = draft.number(2.0);
        let y = turn(&mut draft, x, &[0, 2, 3, 1]);
        let y = draft.node("Relu", [y]);
        let y = draft.node("Sub", [two, y]);
        let y = draft.node("Exp", [y]);
        let y = turn(&mut draft, y, &[0, 3, 1, 2]);
        draft.output_as(y, "y");
        let graph = check_pass(draft, and_dead(run), &[("x", floats(&[2, 3, 4, 5]))], 0.0);
        assert_eq!((graph.nodes.len(), count(&graph, "Transpose")), (3, 0), "{graph}");
    }

    #[test]
    fn what_others_see_or_has_a_shape_of_its_own_stays() {
        for shown in [true, false] {
            let mut draft = GraphBuilder::new("test");
            let x = draft.input("x", F32, ["2", "3"]);
            let y = turn(&mut draft, x, &[1, 0]);
            let row = draft.constant(floats(&[2]));
            let y = if shown { draft.node("Exp", [y]) } else { draft.node("Add", [y, row]) };
            if shown {
                draft.output(y);
            }
            let y = turn(&mut draft, y, &[1, 0]);
            draft.output(y);
            check_unchanged(draft, run);
        }
    }
}
