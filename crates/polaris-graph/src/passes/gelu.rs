//! Fuses GELU, which exporters of early opsets decompose: `0.5 x (1 + erf(x / sqrt 2))`, or its tanh approximation.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

use polaris_onnx::{Attribute, Graph, Node, ValueId};

use super::Place;
use super::edits::{Edits, instead, with};
use super::matching::{View, close, either, only_result, operand};
use super::products::{Product, added_to};

/// The factor of the cube in the approximation.
const CUBE: f64 = 0.044_715;

pub fn run(graph: &mut Graph, place: Place) -> usize {
    let view = View::new(graph, place);
    let mut edits = Edits::new(graph);
    for (at, node) in view.nodes() {
        if let (Some((x, form)), Some(result)) = (gelu(&view, node), only_result(node)) {
            let made = instead(node, "Gelu", 20, &[Some(x)], result);
            let form = Attribute::String(form.as_bytes().to_vec());
            edits.replace(at, vec![with(made, "approximate", form)]);
        }
    }
    edits.apply(graph)
}

/// The operand of a GELU that ends in this node, and its form.
fn gelu(view: &View<'_>, node: &Node) -> Option<(ValueId, &'static str)> {
    let product = Product::of(view, node).filter(|product| close(product.number, 0.5))?;
    let &[a, b] = product.factors.as_slice() else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(x, gate)| {
        let curve = added_to(view, gate, 1.0).filter(|_| view.is_private(gate))?;
        let form = form(view, curve, x).filter(|_| view.is_private(curve))?;
        view.is_float(x).then_some((x, form))
    })
}

/// Which curve of a value another value is.
fn form(view: &View<'_>, curve: ValueId, x: ValueId) -> Option<&'static str> {
    if let Some(erf) = view.made_by(curve, "Erf") {
        let inside = Product::of_value(view, operand(erf, 0)?);
        return inside.is(FRAC_1_SQRT_2, &[x]).then_some("none");
    }
    let inside = operand(view.made_by(curve, "Tanh")?, 0)?;
    let product = Product::of_value(view, inside);
    let steep = close(product.number, FRAC_2_PI.sqrt());
    let cubic = match product.factors.as_slice() {
        [sum] => is_cubic_sum(view, *sum, x),
        [a, b] => *a == x && is_square_sum(view, *b, x) || *b == x && is_square_sum(view, *a, x),
        _ => false,
    };
    (steep && cubic).then_some("tanh")
}

/// `x + 0.044715 x³`
fn is_cubic_sum(view: &View<'_>, sum: ValueId, x: ValueId) -> bool {
    let Some(node) = view.made_by(sum, "Add").filter(|_| view.is_private(sum)) else {
        return false;
    };
    either(node).any(|[own, cube]| own == x && is_power(view, cube, &[x, x, x]))
}

/// `1 + 0.044715 x²`
fn is_square_sum(view: &View<'_>, sum: ValueId, x: ValueId) -> bool {
    let square = added_to(view, sum, 1.0).filter(|_| view.is_private(sum));
    square.is_some_and(|square| is_power(view, square, &[x, x]))
}

fn is_power(view: &View<'_>, id: ValueId, factors: &[ValueId]) -> bool {
    Product::of_value(view, id).is(CUBE, factors)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{and_dead, check_pass, check_unchanged, count, floats};
    use super::*;
    use polaris_onnx::{ElementType::F32, GraphBuilder};

    /// In one of the orders that exporters use.
    fn with_erf(draft: &mut GraphBuilder, x: ValueId, order: usize) -> ValueId {
        let (half, one) = (draft.number(0.5), draft.number(1.0));
        let inside = if order.is_multiple_of(2) {
            let root = draft.number(std::f32::consts::SQRT_2);
            draft.node("Div", [x, root])
        } else {
            let root = draft.number(std::f32::consts::FRAC_1_SQRT_2);
            draft.node("Mul", [root, x])
        };
        let erf = draft.node("Erf", [inside]);
        let gate = draft.node("Add", if order < 2 { [erf, one] } else { [one, erf] });
        match order {
            0 => {
                let product = draft.node("Mul", [x, gate]);
                draft.node("Mul", [product, half])
            }
            1 => {
                let halved = draft.node("Mul", [half, x]);
                draft.node("Mul", [gate, halved])
            }
            _ => {
                let gate = draft.node("Mul", [gate, half]);
                draft.node("Mul", [x, gate])
            }
        }
    }

    #[test]
    fn every_order_is_found() {
        for order in 0..4 {
            let mut draft = GraphBuilder::new("test");
            let x = draft.input("x", F32, ["n", "5"]);
            let made = with_erf(&mut draft, x, order);
            draft.output_as(made, "y");
            let graph = check_pass(draft, and_dead(run), &[("x", floats(&[7, 5]))], 1e-6);
            assert_eq!(graph.nodes.len(), 1, "{order}: {graph}");
            assert_eq!(count(&graph, "Gelu"), 1);
        }
    }

    #[test]
    fn the_approximation_is_found() {
        for fast in [false, true] {
            let mut draft = GraphBuilder::new("test");
            let x = draft.input("x", F32, ["n", "5"]);
            let [cube, steep, one, half] =
                [0.044_715, 0.797_884_6, 1.0, 0.5].map(|number| draft.number(number));
            let square = draft.node("Mul", [x, x]);
            let inside = if fast {
                let square = draft.node("Mul", [cube, square]);
                let sum = draft.node("Add", [one, square]);
                let inside = draft.node("Mul", [x, steep]);
                draft.node("Mul", [inside, sum])
            } else {
                let power = draft.node("Mul", [x, square]);
                let power = draft.node("Mul", [cube, power]);
                let sum = draft.node("Add", [x, power]);
                draft.node("Mul", [steep, sum])
            };
            let tanh = draft.node("Tanh", [inside]);
            let gate = draft.node("Add", [one, tanh]);
            let made = draft.node("Mul", [x, gate]);
            let made = draft.node("Mul", [half, made]);
            draft.output(made);
            let graph = check_pass(draft, and_dead(run), &[("x", floats(&[7, 5]))], 1e-6);
            assert_eq!(graph.nodes.len(), 1, "{graph}");
        }
    }

    #[test]
    fn other_formulas_and_values_that_others_need_stay() {
        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", F32, ["5"]);
        let (third, one, root) =
            (draft.number(0.3), draft.number(1.0), draft.number(std::f32::consts::SQRT_2));
        let inside = draft.node("Div", [x, root]);
        let erf = draft.node("Erf", [inside]);
        let gate = draft.node("Add", [erf, one]);
        let made = draft.node("Mul", [x, gate]);
        let made = draft.node("Mul", [made, third]);
        draft.output(made);
        check_unchanged(draft, run);

        let mut draft = GraphBuilder::new("test");
        let x = draft.input("x", F32, ["5"]);
        let made = with_erf(&mut draft, x, 0);
        draft.output(made);
        let gate = ValueId(made.0 - 2);
        draft.output(gate);
        check_unchanged(draft, run);
    }
}
