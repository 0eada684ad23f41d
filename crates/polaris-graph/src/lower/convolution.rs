//! Convolutions along one or two axes.

use polaris_core::{MAX_RANK, Shape};
use polaris_onnx::Node;
use polaris_ops::conv::ConvolutionInputGradient;
use polaris_ops::pad::Remap;
use polaris_ops::{Convolution, PadMode};

use super::{Lowering, array, input, result};
use crate::Result;
use crate::plan::{Action, Builder, Operand};

pub const LOWERINGS: &[(&str, Lowering)] = &[("Conv", conv), ("ConvTranspose", conv_transpose)];

/// Elements before and after each spatial axis.
pub struct Pads {
    pub before: Vec<usize>,
    pub after: Vec<usize>,
}

impl Pads {
    /// Whether both ends of each axis have the same.
    pub fn are_even(&self) -> bool {
        self.before == self.after
    }
}

/// Numbers of an attribute for each spatial axis.
pub fn per_axis(node: &Node, name: &str, axes: usize) -> Result<Option<Vec<usize>>> {
    let Some(list) = node.attributes.ints(name)? else { return Ok(Some(vec![1; axes])) };
    let list: Option<Vec<usize>> = list.iter().map(|&value| usize::try_from(value).ok()).collect();
    Ok(list.filter(|list| list.len() == axes))
}

/// The padding that the attributes ask for; `None` if it is negative or makes no sense.
pub fn pads(
    node: &Node,
    lengths: &[usize],
    kernel: &[usize],
    strides: &[usize],
    dilations: &[usize],
) -> Result<Option<Pads>> {
    let axes = lengths.len();
    let auto = node.attributes.string_or("auto_pad", "NOTSET")?;
    if matches!(auto, "SAME_UPPER" | "SAME_LOWER") {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for at in 0..axes {
            if strides[at] == 0 || kernel[at] == 0 {
                return Ok(None);
            }
            let windows = lengths[at].div_ceil(strides[at]);
            let reach = (kernel[at] - 1).saturating_mul(dilations[at]).saturating_add(1);
            let span = windows.saturating_sub(1).saturating_mul(strides[at]).saturating_add(reach);
            let total = span.saturating_sub(lengths[at]);
            let (small, large) = (total / 2, total - total / 2);
            let upper = auto == "SAME_UPPER";
            before.push(if upper { small } else { large });
            after.push(if upper { large } else { small });
        }
        return Ok(Some(Pads { before, after }));
    }
    let list = match node.attributes.ints("pads")? {
        Some(list) if auto != "VALID" => list.to_vec(),
        _ => vec![0; 2 * axes],
    };
    let list: Option<Vec<usize>> = list.iter().map(|&value| usize::try_from(value).ok()).collect();
    let list = list.filter(|list| list.len() == 2 * axes);
    Ok(list.map(|list| Pads { before: list[..axes].to_vec(), after: list[axes..].to_vec() }))
}

/// Two numbers for the two axes of a problem; images of one axis have columns only.
pub fn pair(list: &[usize], neutral: usize) -> [usize; 2] {
    match list {
        [only] => [neutral, *only],
        [first, second] => [*first, *second],
        _ => [neutral; 2],
    }
}

/// An array with its spatial axes padded by a value.
pub fn padded(b: &mut Builder<'_>, x: Operand, pads: &Pads, value: f64) -> Result<Operand> {
    let mut dims = x.layout.shape().to_vec();
    let mut widths = [(0, 0); MAX_RANK];
    for (at, (&before, &after)) in pads.before.iter().zip(&pads.after).enumerate() {
        widths[2 + at] = (before, after);
        dims[2 + at] += before + after;
    }
    let action = Action::Remap(Remap::Pad { widths, mode: PadMode::Constant(value) });
    Ok(b.compute(action, &[x], x.dtype, Shape::new(&dims)?))
}

fn conv(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some((image, dtype, shape)), Some((weight, other, taps))) =
        (array(b, node, 0), array(b, node, 1))
    else {
        return Ok(false);
    };
    let Some((made, made_dtype, made_shape)) = result(b, node) else { return Ok(false) };
    let rank = shape.rank();
    if !dtype.is_float() || other != dtype || made_dtype != dtype || !(3..=4).contains(&rank) {
        return Ok(false);
    }
    let axes = rank - 2;
    let (Some(strides), Some(dilations)) =
        (per_axis(node, "strides", axes)?, per_axis(node, "dilations", axes)?)
    else {
        return Ok(false);
    };
    let Some(pads) = pads(node, &shape[2..], &taps[2..], &strides, &dilations)? else {
        return Ok(false);
    };
    let Ok(groups) = usize::try_from(node.attributes.int_or("group", 1)?) else { return Ok(false) };
    let bias = input(node, 2);
    if bias.is_some_and(|id| b.array_type(id).is_none_or(|(found, _)| found != dtype)) {
        return Ok(false);
    }
    let mut x = b.operand(image)?;
    let padding = if pads.are_even() {
        pair(&pads.before, 0)
    } else {
        x = padded(b, x, &pads, 0.0)?;
        [0, 0]
    };
    let problem =
        Convolution { stride: pair(&strides, 1), padding, dilation: pair(&dilations, 1), groups };
    let mut operands = vec![x, b.operand(weight)?];
    if let Some(id) = bias {
        operands.push(b.operand(id)?);
    }
    let operand = b.compute(Action::Convolution(problem), &operands, dtype, made_shape);
    b.set(Some(made), operand);
    Ok(true)
}

fn conv_transpose(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some((image, dtype, shape)), Some((weight, other, taps))) =
        (array(b, node, 0), array(b, node, 1))
    else {
        return Ok(false);
    };
    let Some((made, made_dtype, made_shape)) = result(b, node) else { return Ok(false) };
    let rank = shape.rank();
    if !dtype.is_float() || other != dtype || made_dtype != dtype || !(3..=4).contains(&rank) {
        return Ok(false);
    }
    let axes = rank - 2;
    let (Some(strides), Some(dilations)) =
        (per_axis(node, "strides", axes)?, per_axis(node, "dilations", axes)?)
    else {
        return Ok(false);
    };
    let Ok(groups) = usize::try_from(node.attributes.int_or("group", 1)?) else { return Ok(false) };
    let plain = matches!(node.attributes.string_or("auto_pad", "NOTSET")?, "NOTSET" | "VALID")
        && node.attributes.ints("output_shape")?.is_none();
    let Some(pads) = pads(node, &shape[2..], &taps[2..], &strides, &dilations)?
        .filter(|pads| plain && pads.are_even())
    else {
        return Ok(false);
    };
    // A gap beyond the last tap that is as long as a stride has no counterpart on devices.
    for at in 0..axes {
        let least = (shape[2 + at].saturating_sub(1)).saturating_mul(strides[at])
            + dilations[at].saturating_mul(taps[2 + at].saturating_sub(1))
            + 1;
        let whole = made_shape[2 + at] + 2 * pads.before[at];
        if whole < least || whole - least >= strides[at] {
            return Ok(false);
        }
    }
    let bias = input(node, 2);
    if bias.is_some_and(|id| b.array_type(id).is_none_or(|(found, _)| found != dtype)) {
        return Ok(false);
    }
    let problem = Convolution {
        stride: pair(&strides, 1),
        padding: pair(&pads.before, 0),
        dilation: pair(&dilations, 1),
        groups,
    };
    let mut operands = vec![b.operand(image)?, b.operand(weight)?];
    if let Some(id) = bias {
        operands.push(b.operand(id)?);
    }
    let action = Action::TransposedConvolution(ConvolutionInputGradient { problem });
    let operand = b.compute(action, &operands, dtype, made_shape);
    b.set(Some(made), operand);
    Ok(true)
}
