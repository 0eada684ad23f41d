//! From operators of ONNX to operations of devices. What is not lowered is interpreted on the host.

mod attention;
mod convolution;
mod elementwise;
mod expressions;
mod indexing;
mod normalise;
mod pooling;
mod products;
mod quantized;
mod recurrent;
mod reduce;
mod resize;
mod views;

use std::collections::HashMap;
use std::sync::OnceLock;

use polaris_core::{DType, Shape};
use polaris_onnx::{Node, ValueId};

use crate::Result;
use crate::build::Builder;

/// Lowers a node; `false`, and nothing done, if it cannot.
type Lowering = fn(&mut Builder<'_>, &Node) -> Result<bool>;

/// Every family of operators that have a lowering.
const FAMILIES: &[&[(&str, Lowering)]] = &[
    attention::LOWERINGS,
    convolution::LOWERINGS,
    elementwise::LOWERINGS,
    expressions::LOWERINGS,
    indexing::LOWERINGS,
    normalise::LOWERINGS,
    pooling::LOWERINGS,
    products::LOWERINGS,
    quantized::LOWERINGS,
    recurrent::LOWERINGS,
    reduce::LOWERINGS,
    resize::LOWERINGS,
    views::LOWERINGS,
];

/// Lowers a node if its operator has a lowering that fits.
pub fn lower(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    static TABLE: OnceLock<HashMap<&str, Lowering>> = OnceLock::new();
    let table =
        TABLE.get_or_init(|| FAMILIES.iter().flat_map(|family| family.iter().copied()).collect());
    match table.get(node.operator.as_str()) {
        Some(lowering) if node.domain.is_empty() => lowering(b, node),
        _ => Ok(false),
    }
}

/// An operand of a node, if it is there.
fn input(node: &Node, index: usize) -> Option<ValueId> {
    node.inputs.get(index).copied().flatten()
}

/// A result of a node, if it is used.
fn output(node: &Node, index: usize) -> Option<ValueId> {
    node.outputs.get(index).copied().flatten()
}

/// Whether more than the first result is wanted.
fn wants_more(node: &Node) -> bool {
    node.outputs.iter().skip(1).any(Option::is_some)
}

/// An operand and its type and shape, if it is an array.
fn array(b: &Builder<'_>, node: &Node, index: usize) -> Option<(ValueId, DType, Shape)> {
    let id = input(node, index)?;
    let (dtype, shape) = b.array_type(id)?;
    Some((id, dtype, shape))
}

/// The first result with its type and shape, if it can be an array.
fn result(b: &Builder<'_>, node: &Node) -> Option<(ValueId, DType, Shape)> {
    let id = output(node, 0)?;
    let (dtype, shape) = b.result_type(id)?;
    Some((id, dtype, shape))
}

/// Whether arrays of these shapes can be repeated to a result's. Early versions have rules of their own.
fn repeat_to<'s>(shapes: impl IntoIterator<Item = &'s Shape>, result: &Shape) -> bool {
    let fits =
        |shape: &Shape| Shape::broadcast("lower", shape, result).is_ok_and(|both| both == *result);
    shapes.into_iter().all(fits)
}

/// An axis that may count from the end.
fn axis(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis.checked_add(rank as i64)? } else { axis };
    usize::try_from(axis).ok().filter(|&axis| axis < rank)
}

/// The elements of a constant operand of integers; `None` if it is missing or not constant.
fn constant_ints(b: &Builder<'_>, node: &Node, index: usize) -> Option<Vec<i64>> {
    b.constant(input(node, index)?)?.to_i64().ok()
}

/// The only element of a constant operand.
fn constant_number(b: &Builder<'_>, node: &Node, index: usize) -> Option<f64> {
    match b.constant(input(node, index)?)?.to_f64().ok()?.as_slice() {
        [value] => Some(*value),
        _ => None,
    }
}
