//! Convolutions along one or two axes.

use polaris_core::{DType, Layout, MAX_RANK, Shape};
use polaris_onnx::{Node, ValueId};
use polaris_ops::conv::{ConvolutionInputGradient, FusedConvolution};
use polaris_ops::matmul::{Bias, MatMul};
use polaris_ops::pad::Remap;
use polaris_ops::{Convolution, PadMode};

use super::{Lowering, array, input, result};
use crate::Result;
use crate::build::Builder;
use crate::plan::{Action, Operand, has_adjacent_channels, with_adjacent_channels};

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

/// Whether a padded copy is not much larger than the image: windows far apart may lie in padding alone.
pub fn is_worth_padding(shape: &Shape, pads: &Pads) -> bool {
    let lengths = pads.before.iter().zip(&pads.after).zip(&shape[2..]);
    lengths.into_iter().all(|((&before, &after), &length)| {
        before.saturating_add(after) <= length.saturating_mul(4).saturating_add(64)
    })
}

/// An array with its spatial axes padded by a value.
pub fn padded(b: &mut Builder<'_>, x: Operand, pads: &Pads, value: f64) -> Result<Operand> {
    let mut dims = x.layout.shape().to_vec();
    let mut widths = [(0, 0); MAX_RANK];
    for (at, (&before, &after)) in pads.before.iter().zip(&pads.after).enumerate() {
        widths[2 + at] = (before, after);
        dims[2 + at] += before + after;
    }
    let action = Action::new(Remap::Pad { widths, mode: PadMode::Constant(value) });
    Ok(b.compute(action, &[x], x.dtype, Shape::new(&dims)?))
}

/// What both kinds of convolution have in common.
struct Sliding {
    image: ValueId,
    weight: ValueId,
    bias: Option<ValueId>,
    dtype: DType,
    shape: Shape,
    taps: Shape,
    strides: Vec<usize>,
    dilations: Vec<usize>,
    pads: Pads,
    groups: usize,
    made: ValueId,
    made_shape: Shape,
}

impl Sliding {
    /// Reads operands and attributes; `None` if devices cannot do it.
    fn of(b: &Builder<'_>, node: &Node) -> Result<Option<Self>> {
        let (
            Some((image, dtype, shape)),
            Some((weight, other, taps)),
            Some((made, made_dtype, made_shape)),
        ) = (array(b, node, 0), array(b, node, 1), result(b, node))
        else {
            return Ok(None);
        };
        let bias = input(node, 2);
        let one_type = other == dtype
            && made_dtype == dtype
            && bias.is_none_or(|id| b.array_type(id).is_some_and(|(found, _)| found == dtype));
        let (rank, axes) = (shape.rank(), shape.rank().saturating_sub(2));
        if !dtype.is_float() || !one_type || !(3..=4).contains(&rank) || taps.rank() != rank {
            return Ok(None);
        }
        let (Some(strides), Some(dilations)) =
            (per_axis(node, "strides", axes)?, per_axis(node, "dilations", axes)?)
        else {
            return Ok(None);
        };
        let pads = pads(node, &shape[2..], &taps[2..], &strides, &dilations)?;
        let (Some(pads), Ok(groups)) = (pads, usize::try_from(node.attributes.int_or("group", 1)?))
        else {
            return Ok(None);
        };
        Ok(Some(Self {
            image,
            weight,
            bias,
            dtype,
            shape,
            taps,
            strides,
            dilations,
            pads,
            groups,
            made,
            made_shape,
        }))
    }

    fn problem(&self, padding: [usize; 2]) -> Convolution {
        let (stride, dilation) = (pair(&self.strides, 1), pair(&self.dilations, 1));
        Convolution { stride, padding, dilation, groups: self.groups }
    }

    /// The instruction with a prepared weight, which writes NHWC; `false` if there is no such form.
    fn emit_prepared(
        &self,
        b: &mut Builder<'_>,
        problem: Convolution,
        image: Operand,
    ) -> Result<bool> {
        // Kernels of one element: positions by channels times the weight.
        let is_product = problem.groups == 1
            && problem.stride == [1, 1]
            && problem.padding == [0, 0]
            && has_adjacent_channels(&image.layout);
        let matrix = if is_product { b.prepared_matrix(self.weight, true)? } else { None };
        let layout = with_adjacent_channels(&self.made_shape);
        let output = |b: &mut Builder<'_>| b.new_array(self.dtype, self.made_shape);
        let output = if let Some(matrix) = matrix {
            let [channels, made] = [self.shape[1], self.made_shape[1]];
            let positions = self.shape.elements() / channels.max(1);
            let flat = |operand: Operand, channels: usize| -> Result<Operand> {
                let layout = Layout::contiguous(Shape::new(&[positions, channels])?);
                Ok(Operand { layout, ..operand })
            };
            let mut product = MatMul::default();
            product.epilogue.bias = self.bias.map(|_| Bias::PerColumn);
            let operands = self.with_bias(b, [flat(image, channels)?, matrix])?;
            let output = output(b);
            b.emit(Action::new(product), &operands, flat(output, made)?);
            output
        } else if let Some(weight) = b.prepared_weight(self.weight, problem.groups)? {
            let operands = self.with_bias(b, [image, weight])?;
            let output = output(b);
            let op = FusedConvolution::plain(problem, self.bias.is_some());
            b.emit(Action::new(op), &operands, Operand { layout, ..output });
            output
        } else {
            return Ok(false);
        };
        b.set(Some(self.made), Operand { layout, ..output });
        Ok(true)
    }

    /// Two operands and the bias after them.
    fn with_bias(&self, b: &mut Builder<'_>, first: [Operand; 2]) -> Result<Vec<Operand>> {
        let bias = self.bias.map(|id| b.operand(id)).transpose()?;
        Ok(first.into_iter().chain(bias).collect())
    }

    /// The instruction, for an image that may have been padded.
    fn emit(&self, b: &mut Builder<'_>, action: Action, image: Operand) -> Result<()> {
        let weight = b.operand(self.weight)?;
        let operands = self.with_bias(b, [image, weight])?;
        let operand = b.compute(action, &operands, self.dtype, self.made_shape);
        b.set(Some(self.made), operand);
        Ok(())
    }
}

fn conv(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let Some(sliding) = Sliding::of(b, node)? else { return Ok(false) };
    // SAME over an axis of length 0 has no window, where padding alone would have one.
    if sliding.made_shape.elements() == 0 {
        return Ok(false);
    }
    if !sliding.pads.are_even() && !is_worth_padding(&sliding.shape, &sliding.pads) {
        return Ok(false);
    }
    let mut image = b.operand(sliding.image)?;
    let padding = if sliding.pads.are_even() {
        pair(&sliding.pads.before, 0)
    } else {
        image = padded(b, image, &sliding.pads, 0.0)?;
        [0, 0]
    };
    let problem = sliding.problem(padding);
    if sliding.dtype == DType::F32 && sliding.emit_prepared(b, problem, image)? {
        return Ok(true);
    }
    sliding.emit(b, Action::new(problem), image)?;
    Ok(true)
}

fn conv_transpose(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let plain = matches!(node.attributes.string_or("auto_pad", "NOTSET")?, "NOTSET" | "VALID")
        && node.attributes.ints("output_shape")?.is_none();
    let sliding = Sliding::of(b, node)?.filter(|sliding| plain && sliding.pads.are_even());
    let Some(sliding) = sliding else { return Ok(false) };
    // A gap beyond the last tap that is as long as a stride has no counterpart on devices.
    for (at, &stride) in sliding.strides.iter().enumerate() {
        let reach = sliding.dilations[at].saturating_mul(sliding.taps[2 + at].saturating_sub(1));
        let start = sliding.shape[2 + at].saturating_sub(1).saturating_mul(stride);
        let least = start.saturating_add(reach).saturating_add(1);
        let whole =
            sliding.made_shape[2 + at].saturating_add(sliding.pads.before[at].saturating_mul(2));
        if whole < least || whole - least >= stride {
            return Ok(false);
        }
    }
    let problem = sliding.problem(pair(&sliding.pads.before, 0));
    let image = b.operand(sliding.image)?;
    sliding.emit(b, Action::new(ConvolutionInputGradient { problem }), image)?;
    Ok(true)
}
