//! Turns convolutions and matmuls between DequantizeLinear and QuantizeLinear into quantised operators, if these
//! support the scales and zero points; likewise operators that only move elements.

use polaris_onnx::{ElementType, Graph, Node, Tensor, ValueId};

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
    let widened = widen(graph, place);
    let view = View::new(graph, place);
    let mut edits = Edits::new(graph);
    for (at, node) in view.nodes().filter(|(_, node)| is(node, "QuantizeLinear")) {
        if let Some(made) = whole(&view, &mut edits, node) {
            edits.replace(at, made);
        }
    }
    widened + edits.apply(graph)
}

/// Integers of four bits as bytes, which quantised operators take, where they are weights of quantised images or rows.
fn widen(graph: &mut Graph, place: Place) -> usize {
    let view = View::new(graph, place);
    let mut edits = Edits::new(graph);
    for (at, node) in view.nodes().filter(|(_, node)| is(node, "DequantizeLinear")) {
        if let Some(made) = widened(&view, &mut edits, node) {
            edits.replace(at, vec![made]);
        }
    }
    edits.apply(graph)
}

fn widened(view: &View<'_>, edits: &mut Edits, node: &Node) -> Option<Node> {
    let (_, user) = view.sole_user(only_result(node)?)?;
    let is_linear = ["Conv", "Gemm", "MatMul"].iter().any(|operator| is(user, operator));
    view.made_by(operand(user, 0).filter(|_| is_linear)?, "DequantizeLinear")?;
    node.attributes.int_or("block_size", 0).ok().filter(|&size| size == 0)?;
    let mut made = node.clone();
    for index in [0, 2] {
        let Some(id) = operand(node, index) else { continue };
        let tensor = view.constant(id)?;
        let element = match tensor.element() {
            ElementType::I4 => ElementType::I8,
            ElementType::U4 => ElementType::U8,
            _ => return None,
        };
        let integers = tensor.to_integers().ok()?;
        let bytes = Tensor::from_integers(element, tensor.shape(), &integers).ok()?;
        made.inputs[index] = Some(edits.constant(&node.path, bytes));
    }
    Some(made)
}

/// The operators in the place of a quantisation and what lies before it.
fn whole(view: &View<'_>, edits: &mut Edits, node: &Node) -> Option<Vec<Node>> {
    let result = only_result(node)?;
    let y = quantised(view, node, operand(node, 0)?, view.element(result)?)?;
    let (_, mut before) = view.maker(y.integers).filter(|_| view.is_private(y.integers))?;
    only_result(before)?;
    if y.is_single() && is_cut_off(view, before, &y) {
        let id = operand(before, 0).filter(|&id| view.is_private(id))?;
        (_, before) = view.maker(id)?;
        only_result(before)?;
    }
    if is(before, "Concat") {
        return joined(view, edits, node, before, &y);
    }
    let x = dequantised(view, operand(before, 0)?)?;
    if !before.domain.is_empty() || !x.is_single() || !y.is_single() {
        return None;
    }
    if MOVING.contains(&before.operator.as_str()) {
        return moved(before, &x, &y, result).map(|made| vec![made]);
    }
    let linear = before;
    let w = dequantised(view, operand(linear, 1)?)?;
    let parts = Parts { x, w, y };
    match linear.operator.as_str() {
        "Conv" if parts.w.is_single() || parts.w.is_along(view, 0) => {
            let bias = bias(view, operand(linear, 2), &parts.x, &parts.w)?;
            let mut made = parts.node(edits, linear, "QLinearConv", bias, result)?;
            made.attributes = linear.attributes.clone();
            Some(vec![made])
        }
        "MatMul" if parts.w.is_single() || parts.w.is_last_of_two(view) => {
            Some(vec![parts.node(edits, linear, "QLinearMatMul", None, result)?])
        }
        "Gemm" => gemm(view, edits, linear, parts, result),
        _ => None,
    }
}

/// Operators that give back some of their operand's elements, and take bytes as well as numbers. The
/// largest number is the largest byte.
pub const MOVING: &[&str] = &[
    "DepthToSpace",
    "Flatten",
    "MaxPool",
    "Reshape",
    "Slice",
    "SpaceToDepth",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
];

/// Such an operator on bytes, if the same bytes stand for the same numbers before and after it.
fn moved(node: &Node, x: &Quantised<'_>, y: &Quantised<'_>, result: ValueId) -> Option<Node> {
    if !x.means_the_same(y) {
        return None;
    }
    let mut made = node.clone();
    made.inputs[0] = Some(x.integers);
    made.outputs = vec![Some(result)];
    // Maxima of bytes are there since then; nothing else has changed since version 8.
    if made.operator == "MaxPool" {
        if !(8..=22).contains(&made.version) {
            return None;
        }
        made.version = made.version.max(12);
    }
    Some(made)
}

/// A concatenation of bytes, of operands that all are. Those whose bytes stand for other numbers than after it are quantised
/// before it.
fn joined(
    view: &View<'_>,
    edits: &mut Edits,
    quantise: &Node,
    node: &Node,
    y: &Quantised<'_>,
) -> Option<Vec<Node>> {
    if !y.is_single() {
        return None;
    }
    let parts = node.inputs.iter().map(|&input| dequantised(view, input?));
    let parts = parts.collect::<Option<Vec<Quantised<'_>>>>()?;
    let (mut made, mut nodes) = (node.clone(), Vec::new());
    for (input, x) in made.inputs.iter_mut().zip(parts) {
        if x.is_single() && x.means_the_same(y) {
            *input = Some(x.integers);
            continue;
        }
        let bytes = edits.value(&quantise.path);
        let mut again = quantise.clone();
        again.inputs[0] = *input;
        again.outputs = vec![Some(bytes)];
        nodes.push(again);
        *input = Some(bytes);
    }
    made.outputs = quantise.outputs.clone();
    nodes.push(made);
    Some(nodes)
}

/// Whether a node changes only what becomes the lowest or the highest byte with or without it.
fn is_cut_off(view: &View<'_>, node: &Node, y: &Quantised<'_>) -> bool {
    if is(node, "Relu") {
        return y.zero_is_lowest();
    }
    // Before version 11 its ends are attributes.
    if !is(node, "Clip") || node.version < 11 {
        return false;
    }
    let (lowest, highest) = match y.element {
        ElementType::U8 => (0.0, 255.0),
        _ => (-128.0, 127.0),
    };
    let Some(zero) = y.zero_point() else { return false };
    let byte = |end: f64| (end as f32 / y.scale[0] as f32).round_ties_even() + zero as f32;
    let end = |index: usize| match operand(node, index) {
        None => Some(None),
        Some(id) => view.number(id).map(Some),
    };
    let (Some(low), Some(high)) = (end(1), end(2)) else { return false };
    low.is_none_or(|low| byte(low) <= lowest) && high.is_none_or(|high| byte(high) >= highest)
}

/// What a linear operator of integers is made of.
struct Parts<'g> {
    x: Quantised<'g>,
    w: Quantised<'g>,
    y: Quantised<'g>,
}

impl Parts<'_> {
    fn node(
        &self,
        edits: &mut Edits,
        linear: &Node,
        operator: &str,
        bias: Option<ValueId>,
        result: ValueId,
    ) -> Option<Node> {
        let mut inputs = Vec::with_capacity(9);
        for (part, integers) in [(&self.x, true), (&self.w, true), (&self.y, false)] {
            inputs.extend(integers.then_some(Some(part.integers)));
            inputs.push(Some(part.scale_id));
            inputs.push(Some(part.zero_or_new(edits, &linear.path)?));
        }
        inputs.extend(bias.map(Some));
        Some(instead(linear, operator, 10, &inputs, result))
    }
}

/// A product of matrices with a bias is a convolution whose kernel has one element, of images with one.
fn gemm(
    view: &View<'_>,
    edits: &mut Edits,
    linear: &Node,
    mut parts: Parts<'_>,
    result: ValueId,
) -> Option<Vec<Node>> {
    let number = |name: &str| linear.attributes.float_or(name, 1.0).ok();
    let flag = |name: &str| linear.attributes.flag(name, false).ok();
    let turned = flag("transB")?;
    if number("alpha")? != 1.0 || flag("transA")? {
        return None;
    }
    let added = operand(linear, 2);
    if added.is_none() && !turned && (parts.w.is_single() || parts.w.is_last_of_two(view)) {
        return Some(vec![parts.node(edits, linear, "QLinearMatMul", None, result)?]);
    }
    let weight = view.constant(parts.w.integers).filter(|weight| weight.rank() == 2)?;
    let along = if turned { 0 } else { 1 };
    let fits = (parts.w.is_single() || parts.w.is_along(view, along)) && number("beta")? == 1.0;
    let bias = bias(view, added.filter(|_| fits), &parts.x, &parts.w)?;
    let (rows, columns) = (weight.shape()[0], weight.shape()[1]);
    let channels = if turned { rows } else { columns };
    let length = bias.map_or(Some(channels), |id| view.constant(id).map(Tensor::elements))?;
    if !fits || length != channels || weight.elements() > MOST_TURNED {
        return None;
    }
    let kernel = match turned {
        true => weight.reshaped(&[rows, columns, 1]).ok()?,
        false => {
            let values = weight.to_f64().ok()?;
            let turned: Vec<f64> = (0..columns)
                .flat_map(|column| (0..rows).map(move |row| row * columns + column))
                .map(|at| values[at])
                .collect();
            Tensor::from_f64(weight.element(), &[columns, rows, 1], &turned).ok()?
        }
    };
    let path = &linear.path;
    // A zero stands for the same length as before.
    let to_images = edits.constant(path, Tensor::new(&[3], vec![0i64, 0, 1]).ok()?);
    let to_rows = edits.constant(path, Tensor::new(&[2], vec![0i64, -1]).ok()?);
    let (images, made) = (edits.value(path), edits.value(path));
    let reshape = |x: ValueId, shape: ValueId, y: ValueId| {
        instead(linear, "Reshape", 13, &[Some(x), Some(shape)], y)
    };
    let first = reshape(parts.x.integers, to_images, images);
    parts.x.integers = images;
    parts.w.integers = edits.constant(path, kernel);
    let conv = parts.node(edits, linear, "QLinearConv", bias, made)?;
    Some(vec![first, conv, reshape(made, to_rows, result)])
}

/// Elements of a weight that is written again, at most.
const MOST_TURNED: usize = 1 << 26;

/// The first element of a tensor.
fn first(tensor: &Tensor) -> Option<f64> {
    tensor.to_f64().ok()?.first().copied()
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
    // Floats divide by any other scale, and have rules of their own for what comes of it.
    if !scale.iter().all(|&scale| scale.is_finite() && scale > 0.0) {
        return None;
    }
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

    /// The byte that stands for zero, if it is one for all.
    fn zero_point(&self) -> Option<f64> {
        self.zero.map_or(Some(0.0), first)
    }

    /// Whether the same bytes stand for the same numbers.
    fn means_the_same(&self, other: &Self) -> bool {
        let zeros = self.zero_point().zip(other.zero_point());
        let same = zeros.is_some_and(|(own, other)| own == other);
        self.element == other.element && self.scale == other.scale && same
    }

    /// Whether the lowest byte stands for zero.
    fn zero_is_lowest(&self) -> bool {
        let zero = self.zero_point();
        match self.element {
            ElementType::U8 => zero == Some(0.0),
            _ => zero == Some(-128.0),
        }
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

/// The bias of a convolution or product, in units of the product of both scales: `Some(None)` if there is none, `None`
/// if it is something else.
fn bias(
    view: &View<'_>,
    added: Option<ValueId>,
    x: &Quantised<'_>,
    w: &Quantised<'_>,
) -> Option<Option<ValueId>> {
    let Some(id) = added else { return Some(None) };
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

#[cfg(test)]
mod tests;
