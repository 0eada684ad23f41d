//! Fuses activations that are a product with the value itself: Swish, HardSwish and Mish.

use polaris_onnx::{Graph, Node, ValueId};

use super::Place;
use super::edits::{Edits, instead};
use super::matching::{View, close, only_result, operand};
use super::products::{Product, added_to};

pub fn run(graph: &mut Graph, place: Place) -> usize {
    let view = View::new(graph, place);
    let mut edits = Edits::new(graph);
    for (at, node) in view.nodes() {
        if let (Some((x, operator, version)), Some(result)) = (find(&view, node), only_result(node))
        {
            edits.replace(at, vec![instead(node, operator, version, &[Some(x)], result)]);
        }
    }
    edits.apply(graph)
}

/// The operand of an activation that ends in this node, the operator and its version.
fn find(view: &View<'_>, node: &Node) -> Option<(ValueId, &'static str, i64)> {
    let product = Product::of(view, node)?;
    let &[a, b] = product.factors.as_slice() else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(x, gate)| {
        let (operator, version) = gated(view, x, gate, product.number)?;
        (view.is_private(gate) && view.is_float(x)).then_some((x, operator, version))
    })
}

/// Which activation a value makes together with a function of itself and a number.
fn gated(view: &View<'_>, x: ValueId, gate: ValueId, number: f64) -> Option<(&'static str, i64)> {
    let (_, node) = view.maker(gate).filter(|(_, node)| node.domain.is_empty())?;
    match node.operator.as_str() {
        "Sigmoid" if number == 1.0 && operand(node, 0)? == x => Some(("Swish", 24)),
        "HardSigmoid" if number == 1.0 && operand(node, 0)? == x => {
            let (slope, offset) = (node.attributes.float("alpha"), node.attributes.float("beta"));
            let slope = f64::from(slope.ok()?.unwrap_or(0.2));
            let offset = f64::from(offset.ok()?.unwrap_or(0.5));
            (close(slope, 1.0 / 6.0) && close(offset, 0.5)).then_some(("HardSwish", 14))
        }
        "Clip" if close(number, 1.0 / 6.0) && node.version >= 11 => {
            let limits = (view.number(operand(node, 1)?)?, view.number(operand(node, 2)?)?);
            let clipped = operand(node, 0)?;
            let shifted = added_to(view, clipped, 3.0) == Some(x) && view.is_private(clipped);
            (limits == (0.0, 6.0) && shifted).then_some(("HardSwish", 14))
        }
        "Tanh" if number == 1.0 => {
            let soft = operand(node, 0)?;
            let own = operand(view.made_by(soft, "Softplus")?, 0)?;
            (own == x && view.is_private(soft)).then_some(("Mish", 18))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{and_dead, check_pass, check_unchanged, count, floats};
    use super::*;
    use polaris_onnx::{ElementType::F32, GraphBuilder};

    fn check(operator: &str, write: impl Fn(&mut GraphBuilder, ValueId) -> ValueId) {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", F32, ["n", "5"]);
        let made = write(&mut draft, x);
        draft.output(made);
        let graph = check_pass(draft, and_dead(run), &[("x", floats(&[40, 5]))], 1e-6);
        assert_eq!((graph.nodes.len(), count(&graph, operator)), (1, 1), "{graph}");
    }

    #[test]
    fn activations_are_found() {
        check("Swish", |draft, x| {
            let gate = draft.node("Sigmoid", [x]);
            draft.node("Mul", [gate, x])
        });
        check("HardSwish", |draft, x| {
            let gate = draft.node_with("HardSigmoid", [x], [("alpha", 1.0 / 6.0)]);
            draft.node("Mul", [x, gate])
        });
        check("HardSwish", |draft, x| {
            let [three, zero, six] = [3.0, 0.0, 6.0].map(|number| draft.number(number));
            let shifted = draft.node("Add", [x, three]);
            let gate = draft.node("Clip", [shifted, zero, six]);
            let product = draft.node("Mul", [x, gate]);
            draft.node("Div", [product, six])
        });
        check("Mish", |draft, x| {
            let soft = draft.node("Softplus", [x]);
            let gate = draft.node("Tanh", [soft]);
            draft.node("Mul", [x, gate])
        });
    }

    #[test]
    fn gates_of_other_values_stay() {
        let mut draft = GraphBuilder::new("test");
        let (x, y) = (draft.input("x", F32, ["5"]), draft.input("y", F32, ["5"]));
        let gate = draft.node("Sigmoid", [y]);
        let made = draft.node("Mul", [x, gate]);
        draft.output(made);
        check_unchanged(draft, run);
    }
}
