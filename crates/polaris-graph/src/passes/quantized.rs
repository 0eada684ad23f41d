//! Convolutions and matrix products between DequantizeLinear and QuantizeLinear, as operators that work on
//! the integers themselves. Only where scales and zero points are those that such operators have.

use polaris_onnx::{Attribute, Attributes, ElementType, Graph, Node, Tensor, ValueId};

use super::Place;
use super::edits::{Edits, instead};
use super::matching::{View, is, only_result, operand};

/// A quantised operand: the integers, their scale and their zero point.
struct Quantised<'g> {
    integers: ValueId,
    element: ElementType,
    scale_id: ValueId,
    scale: Vec<f64>,
    zero_id: Option<ValueId>,
    zero: Option<&'g Tensor>,
    /// The axis of scales that are several.
    axis: i64,
}

pub fn run(graph: &mut Graph, place: Place) -> usize {
    let view = View::new(graph, place);
    let mut edits = Edits::new(graph);
    for (at, node) in view.nodes().filter(|(_, node)| is(node, "QuantizeLinear")) {
        if let Some(made) = whole(&view, &mut edits, node) {
            edits.replace(at, vec![made]);
        }
    }
    edits.apply(graph)
}

/// The operator in the place of a quantisation and what lies before it.
fn whole(view: &View<'_>, edits: &mut Edits, node: &Node) -> Option<Node> {
    let result = only_result(node)?;
    let y = quantised(view, node, operand(node, 0)?, view.element(result)?)?;
    let (_, linear) = view.maker(y.integers).filter(|_| view.is_private(y.integers))?;
    only_result(linear)?;
    let x = dequantised(view, operand(linear, 0)?)?;
    let w = dequantised(view, operand(linear, 1)?)?;
    if x.scale.len() != 1 || y.scale.len() != 1 {
        return None;
    }
    let (operator, bias) = match linear.operator.as_str() {
        _ if !linear.domain.is_empty() => return None,
        "Conv" if w.is_single() || w.is_along(view, 0) => {
            ("QLinearConv", bias(view, linear, &x, &w)?)
        }
        "MatMul" if w.is_single() || w.is_last_of_two(view) => ("QLinearMatMul", None),
        "Gemm" if is_plain(&linear.attributes) && operand(linear, 2).is_none() && w.is_single() => {
            ("QLinearMatMul", None)
        }
        _ => return None,
    };
    let mut inputs = Vec::with_capacity(9);
    for (part, integers) in [(&x, true), (&w, true), (&y, false)] {
        inputs.extend(integers.then_some(Some(part.integers)));
        inputs.push(Some(part.scale_id));
        inputs.push(Some(part.zero_or_new(edits, &linear.path)?));
    }
    inputs.extend(bias.map(Some));
    let mut made = instead(linear, operator, 10, &inputs, result);
    if operator == "QLinearConv" {
        made.attributes = linear.attributes.clone();
    }
    Some(made)
}

/// What a node says of the quantisation of a value; only bytes, and no blocks.
fn quantised<'g>(
    view: &View<'g>,
    node: &Node,
    integers: ValueId,
    element: ElementType,
) -> Option<Quantised<'g>> {
    let attributes = &node.attributes;
    let scale_id = operand(node, 1)?;
    let scale = view.constant(scale_id)?;
    let zero_id = operand(node, 2);
    let zero = match zero_id {
        Some(id) => Some(view.constant(id)?),
        None => None,
    };
    let named = |name: &str| attributes.int_or(name, 0).ok().filter(|&value| value == 0);
    named("block_size")?;
    named("precision")?;
    let own_type = zero.is_none_or(|zero| zero.element() == element);
    let fits = matches!(element, ElementType::U8 | ElementType::I8)
        && scale.element() == ElementType::F32
        && scale.rank() <= 1
        && own_type
        && zero.is_none_or(|zero| zero.elements() == scale.elements());
    let axis = attributes.int_or("axis", 1).ok()?;
    let scale = scale.to_f64().ok().filter(|_| fits)?;
    Some(Quantised { integers, element, scale_id, scale, zero_id, zero, axis })
}

fn dequantised<'g>(view: &View<'g>, id: ValueId) -> Option<Quantised<'g>> {
    let node = view.made_by(id, "DequantizeLinear")?;
    node.attributes.int_or("output_dtype", 0).ok().filter(|&code| code == 0)?;
    let integers = operand(node, 0)?;
    quantised(view, node, integers, view.element(integers)?)
}

impl Quantised<'_> {
    fn is_single(&self) -> bool {
        self.scale.len() == 1
    }

    /// Whether scales are those of an axis.
    fn is_along(&self, view: &View<'_>, axis: i64) -> bool {
        let rank = view.rank(self.integers).map_or(0, |rank| rank as i64);
        self.axis == axis || self.axis == axis - rank
    }

    fn is_last_of_two(&self, view: &View<'_>) -> bool {
        view.rank(self.integers) == Some(2) && self.is_along(view, 1)
    }

    /// The zero point, which operators on integers cannot leave out.
    fn zero_or_new(&self, edits: &mut Edits, name: &str) -> Option<ValueId> {
        if let (Some(id), Some(_)) = (self.zero_id, self.zero) {
            return Some(id);
        }
        let shape: &[usize] = if self.is_single() { &[] } else { &[self.scale.len()] };
        Some(edits.constant(name, Tensor::zeros(self.element, shape).ok()?))
    }
}

/// The bias of a convolution, in units of the product of both scales: `Some(None)` if there is none, `None`
/// if it is something else.
fn bias(
    view: &View<'_>,
    conv: &Node,
    x: &Quantised<'_>,
    w: &Quantised<'_>,
) -> Option<Option<ValueId>> {
    let Some(id) = operand(conv, 2) else { return Some(None) };
    let node = view.made_by(id, "DequantizeLinear")?;
    let (integers, scale) = (operand(node, 0)?, view.constant(operand(node, 1)?)?);
    let zero = match operand(node, 2) {
        Some(id) => view.constant(id)?.to_f64().ok()?.iter().all(|&zero| zero == 0.0),
        None => true,
    };
    let scales = scale.to_f64().ok()?;
    let count = scales.len().max(w.scale.len());
    let of = |list: &[f64], at: usize| {
        if list.len() == 1 { Some(list[0]) } else { list.get(at).copied() }
    };
    let same = (0..count).all(|at| {
        let (Some(own), Some(factor)) = (of(&scales, at), of(&w.scale, at)) else { return false };
        own as f32 == x.scale[0] as f32 * factor as f32
    });
    let fits = zero && same && view.element(integers) == Some(ElementType::I32);
    fits.then_some(Some(integers))
}

/// Whether a product has no parameter that changes it.
fn is_plain(attributes: &Attributes) -> bool {
    attributes.iter().all(|(name, value)| match (name, value) {
        ("alpha", Attribute::Float(value)) => *value == 1.0,
        ("transA" | "transB", Attribute::Int(value)) => *value == 0,
        ("beta", _) => true,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::dead;
    use super::super::testing::{Draft, count};
    use super::*;

    fn both(graph: &mut Graph, place: Place) -> usize {
        let found = run(graph, place);
        dead::run(graph, place);
        found
    }

    fn bytes(element: ElementType, shape: &[usize]) -> Tensor {
        let elements: usize = shape.iter().product();
        let values: Vec<f64> = (0..elements).map(|at| (at * 37 % 101) as f64).collect();
        Tensor::from_f64(element, shape, &values).unwrap()
    }

    fn scales(draft: &mut Draft, values: &[f32]) -> ValueId {
        match values {
            [only] => draft.number(*only),
            list => draft.constant(Tensor::new(&[list.len()], list.to_vec()).unwrap()),
        }
    }

    /// An operator between conversions, with a bias of this scale.
    fn between(operator: &str, weight: &[usize], of_w: &[f32], of_bias: Option<&[f32]>) -> Draft {
        let mut draft = Draft::new();
        let dims: &[&str] = if operator == "Conv" { &["n", "2", "5", "5"] } else { &["n", "4"] };
        let x = draft.typed_input("x", ElementType::U8, dims);
        let (of_x, of_y) = (draft.number(0.02), draft.number(0.3));
        let x_zero = draft.constant(Tensor::scalar(7u8));
        let y_zero = draft.constant(Tensor::scalar(30u8));
        let x = draft.node("DequantizeLinear", &[x, of_x, x_zero]);
        let w = draft.constant(bytes(ElementType::I8, weight));
        let scale = scales(&mut draft, of_w);
        let axis = [("axis", Attribute::Int(if operator == "Conv" { 0 } else { 1 }))];
        let w = draft.any_node("DequantizeLinear", 13, &[w, scale], &axis);
        let mut inputs = vec![x, w];
        if let Some(values) = of_bias {
            let numbers = draft.constant(bytes(ElementType::I32, &[weight[0]]));
            let scale = scales(&mut draft, values);
            let axis = [("axis", Attribute::Int(0))];
            inputs.push(draft.any_node("DequantizeLinear", 13, &[numbers, scale], &axis));
        }
        let y = draft.node(operator, &inputs);
        let y = draft.node("QuantizeLinear", &[y, of_y, y_zero]);
        draft.output_as(y, "y");
        draft
    }

    #[test]
    fn convolutions_and_products_of_integers_are_found() {
        let image = [("x", bytes(ElementType::U8, &[2, 2, 5, 5]))];
        let rows = [("x", bytes(ElementType::U8, &[3, 4]))];
        let each = [0.01, 0.02, 0.03];
        let of_bias = each.map(|scale| scale * 0.02f32);
        for (draft, inputs, operator) in [
            (between("Conv", &[3, 2, 3, 3], &[0.01], None), &image, "QLinearConv"),
            (between("Conv", &[3, 2, 3, 3], &each, Some(&of_bias)), &image, "QLinearConv"),
            (between("MatMul", &[4, 3], &each, None), &rows, "QLinearMatMul"),
            (between("Gemm", &[4, 3], &[0.01], None), &rows, "QLinearMatMul"),
        ] {
            // Ties may be rounded otherwise: one step of 255.
            let graph = draft.check(both, inputs, 1.01 / 30.0);
            assert_eq!((graph.nodes.len(), count(&graph, operator)), (1, 1), "{graph}");
        }
    }

    #[test]
    fn a_bias_of_another_scale_stays() {
        between("Conv", &[3, 2, 3, 3], &[0.01], Some(&[0.5])).check_unchanged(run);
    }
}
