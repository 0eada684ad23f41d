//! Max and average pooling.

use polaris_core::DType;
use polaris_onnx::Node;
use polaris_ops::copy::Copy;
use polaris_ops::reduce::Reduce;
use polaris_ops::{Pool, Pooling, Reduction, Window, Windows};

use super::convolution::{is_worth_padding, padded, pads, per_axis};
use super::{Lowering, array, result, wants_more};
use crate::Result;
use crate::build::Builder;
use crate::plan::{Action, Operand, has_adjacent_channels};

pub const LOWERINGS: &[(&str, Lowering)] = &[
    ("AveragePool", average_pool),
    ("GlobalAveragePool", |b, n| global(b, n, Reduction::Mean)),
    ("GlobalMaxPool", |b, n| global(b, n, Reduction::Max)),
    ("MaxPool", max_pool),
];

fn max_pool(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    if wants_more(node) {
        return Ok(false);
    }
    pool(b, node, Pooling::Max)
}

fn average_pool(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let count_padding = node.attributes.flag("count_include_pad", false)?;
    pool(b, node, Pooling::Average { count_padding })
}

fn pool(b: &mut Builder<'_>, node: &Node, pooling: Pooling) -> Result<bool> {
    let (Some((id, dtype, shape)), Some((made, _, made_shape))) =
        (array(b, node, 0), result(b, node))
    else {
        return Ok(false);
    };
    let rank = shape.rank();
    let is_max = pooling == Pooling::Max;
    let bytes = matches!(dtype, DType::U8 | DType::I8) && is_max;
    if !(dtype.is_float() || bytes) || !(3..=4).contains(&rank) || shape.elements() == 0 {
        return Ok(false);
    }
    let axes = rank - 2;
    let (Some(kernel), Some(strides), Some(dilations)) = (
        per_axis(node, "kernel_shape", axes)?,
        per_axis(node, "strides", axes)?,
        per_axis(node, "dilations", axes)?,
    ) else {
        return Ok(false);
    };
    let Some(mut pads) = pads(node, &shape[2..], &kernel, &strides, &dilations)? else {
        return Ok(false);
    };
    // Windows without padding are those that fit, however lengths are rounded.
    let ceil = node.attributes.flag("ceil_mode", false)?
        && node.attributes.string_or("auto_pad", "NOTSET")? != "VALID";
    let dilated = dilations.iter().any(|&dilation| dilation != 1);
    if dilated && !is_max {
        return Ok(false);
    }
    let reach = |at: usize| (kernel[at].saturating_sub(1)).saturating_mul(dilations[at]) + 1;
    let wide = (0..axes).any(|at| pads.before[at] > reach(at) / 2);
    let mut operand = b.operand(id)?;
    if !pads.are_even() || wide {
        // Maxima may have their padding in front as elements that never win. Means divide by the elements
        // that count, which copies would change.
        if !is_max || ceil || !is_worth_padding(&shape, &pads) {
            return Ok(false);
        }
        let never = match dtype {
            DType::U8 => 0.0,
            DType::I8 => -128.0,
            _ => f64::NEG_INFINITY,
        };
        operand = padded(b, operand, &pads, never)?;
        pads.before.fill(0);
        pads.after.fill(0);
    }
    let windows: Vec<Window> = (0..axes)
        .map(|at| Window {
            kernel: kernel[at],
            stride: strides[at],
            padding: pads.before[at],
            dilation: dilations[at],
        })
        .collect();
    let windows = Windows::sliding(&windows)?;
    let windows = if ceil { windows.rounded_up() } else { windows };
    // Rounding up has rules of its own in either world.
    if windows.pooled_shape(operand.layout.shape()).ok() != Some(made_shape) {
        return Ok(false);
    }
    let action = Action::new(Pool { pooling, windows });
    // Other devices have maxima of numbers only, which are the same.
    let as_numbers = bytes && !b.is_on_cpu();
    if as_numbers {
        let shape = *operand.layout.shape();
        operand = b.compute_elements(Action::new(Copy), &[operand], DType::F32, shape)?;
    }
    let mut pooled = b.new_array_like(&operand, operand.dtype, made_shape);
    b.emit(action, &[operand], pooled);
    if as_numbers {
        pooled = b.compute_elements(Action::new(Copy), &[pooled], dtype, made_shape)?;
    }
    b.set(Some(made), pooled);
    Ok(true)
}

/// If an image is NHWC and all other axes of an image are reduced, the same as an array with the channels last: loops
/// over it go along memory.
pub fn spatial_in_memory_order(
    operand: Operand,
    axes: Vec<usize>,
) -> Result<(Operand, Vec<usize>)> {
    let rank = operand.layout.shape().rank();
    let spatial = axes.iter().copied().eq(2..rank);
    if !spatial || !has_adjacent_channels(&operand.layout) {
        return Ok((operand, axes));
    }
    let order: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
    let layout = operand.layout.permute(&order)?;
    Ok((Operand { layout, ..operand }, (1..rank - 1).collect()))
}

/// A reduction of all but the first two axes.
fn global(b: &mut Builder<'_>, node: &Node, reduction: Reduction) -> Result<bool> {
    let (Some((id, dtype, shape)), Some((made, _, made_shape))) =
        (array(b, node, 0), result(b, node))
    else {
        return Ok(false);
    };
    // A largest element of none is the interpreter's affair.
    if !dtype.is_float() || shape.rank() < 3 || shape.elements() == 0 {
        return Ok(false);
    }
    let axes: Vec<usize> = (2..shape.rank()).collect();
    let reduced = shape.reduce("pool", &axes, false)?;
    let (operand, axes) = spatial_in_memory_order(b.operand(id)?, axes)?;
    let axes = operand.layout.shape().axis_mask("pool", &axes)?;
    let action = Action::new(Reduce { reduction, axes });
    let operand = b.compute(action, &[operand], dtype, reduced);
    let operand = b.reshaped(operand, made_shape)?;
    b.set(Some(made), operand);
    Ok(true)
}
