//! Quantised operators. On the CPU, convolutions and matmuls run in int8; on other devices, the passes turn them into
//! floating point.

use polaris_core::{DType, Layout, Shape};
use polaris_onnx::{Node, Tensor, ValueId};
use polaris_ops::conv::QuantizedConvolution;
use polaris_ops::format::Role;
use polaris_ops::{Convolution, Requantize, Scale};

use super::convolution::{is_worth_padding, padded, pads, pair, per_axis};
use super::{Lowering, array, input, result};
use crate::Result;
use crate::build::Builder;
use crate::build::Usage;
use crate::plan::{Action, Operand, with_adjacent_channels};

pub const LOWERINGS: &[(&str, Lowering)] = &[
    ("DequantizeLinear", dequantize),
    ("QLinearConv", conv),
    ("QLinearMatMul", matmul),
    ("QuantizeLinear", quantize),
];

/// The only element of a constant.
fn single(tensor: &Tensor) -> Option<f64> {
    match tensor.to_f64().ok()?.as_slice() {
        [value] => Some(*value),
        _ => None,
    }
}

/// A constant operand with one element; `default` if it is left out.
fn number(b: &Builder<'_>, node: &Node, index: usize, default: f64) -> Option<f64> {
    match input(node, index) {
        None => Some(default),
        Some(id) => single(b.constant(id)?),
    }
}

/// Scale and zero point that are the same for all elements of bytes, of a quantisation or its inverse.
fn scale(b: &Builder<'_>, node: &Node, bytes: DType) -> Option<Scale> {
    let plain = |name: &str| node.attributes.int_or(name, 0).is_ok_and(|value| value == 0);
    let single_type = b.constant(input(node, 1)?)?.element() == polaris_onnx::ElementType::F32;
    let fits = matches!(bytes, DType::U8 | DType::I8)
        && single_type
        && plain("block_size")
        && plain("precision");
    let scale = number(b, node, 1, 1.0)? as f32;
    let zero = number(b, node, 2, 0.0)? as i32;
    fits.then_some(Scale { scale, zero })
}

fn quantize(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some((id, dtype, shape)), Some((made, bytes, _))) = (array(b, node, 0), result(b, node))
    else {
        return Ok(false);
    };
    let Some(to) = scale(b, node, bytes).filter(|_| dtype == DType::F32) else { return Ok(false) };
    let (op, operands) = match sum_of_bytes(b, id, to, &shape)? {
        Some(sum) => sum,
        None => (Requantize::Quantize(to), vec![b.operand(id)?]),
    };
    let operand = b.compute_elements(Action::new(op), &operands, bytes, shape)?;
    b.set(Some(made), operand);
    Ok(true)
}

/// What is quantised, if it is the sum of two dequantised arrays, or that without its negative numbers:
/// one pass over bytes instead of four over numbers.
fn sum_of_bytes(
    b: &mut Builder<'_>,
    id: ValueId,
    output: Scale,
    shape: &Shape,
) -> Result<Option<(Requantize, Vec<Operand>)>> {
    let relu = b.made_by(id, "Relu");
    let sum = relu.map_or(Some(id), |node| input(node, 0));
    let Some(sum) = sum.and_then(|id| b.made_by(id, "Add")) else { return Ok(None) };
    let mut parts = Vec::with_capacity(2);
    for index in 0..2 {
        let maker = input(sum, index).and_then(|id| b.made_by(id, "DequantizeLinear"));
        let part = maker.and_then(|node| {
            let (id, dtype, part_shape) = array(b, node, 0)?;
            let scale = scale(b, node, dtype).filter(|_| part_shape == *shape)?;
            // A constant is better summed as a number.
            b.constant(id).is_none().then_some((id, scale))
        });
        parts.extend(part);
    }
    let &[(first, a), (second, c)] = parts.as_slice() else { return Ok(None) };
    let operands = vec![b.operand(first)?, b.operand(second)?];
    let op = Requantize::Add { inputs: [a, c], output, relu: relu.is_some() };
    Ok(Some((op, operands)))
}

fn dequantize(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    if let Some(result) = node.outputs.first().copied().flatten()
        && let Some(operand) = b.in_blocks(node, result)?
    {
        b.set(Some(result), operand);
        return Ok(true);
    }
    let (Some((id, bytes, shape)), Some((made, dtype, _))) = (array(b, node, 0), result(b, node))
    else {
        return Ok(false);
    };
    let Some(from) = scale(b, node, bytes).filter(|_| dtype == DType::F32) else {
        return Ok(false);
    };
    let x = b.operand(id)?;
    let action = Action::new(Requantize::Dequantize(from));
    let operand = b.compute_elements(action, &[x], dtype, shape)?;
    b.set(Some(made), operand);
    Ok(true)
}

/// The parameters of a linear operator of bytes: its operands are x, its scale and zero point, the weight
/// with its, and those of the result.
struct Linear {
    x: (ValueId, DType, Shape),
    weight: ValueId,
    weight_shape: Shape,
    made: (ValueId, DType, Shape),
    x_zero: i32,
    weight_zeros: Vec<i32>,
    made_zero: i32,
    factors: Vec<f32>,
}

impl Linear {
    /// `None` if there is no such operator on the CPU.
    fn of(b: &Builder<'_>, node: &Node) -> Option<Self> {
        let (x, made) = (array(b, node, 0)?, result(b, node)?);
        let (weight, _, weight_shape) = array(b, node, 3)?;
        let list = |index: usize| b.constant(input(node, index)?)?.to_f64().ok();
        let zeros = |index: usize| match input(node, index) {
            None => Some(vec![0.0]),
            Some(_) => list(index),
        };
        let (x_scale, y_scale) = (number(b, node, 1, 1.0)?, number(b, node, 6, 1.0)?);
        let factor = |weight: &f64| (x_scale * weight / y_scale) as f32;
        let fits = b.is_on_cpu() && b.constant(weight).is_some();
        let linear = Self {
            x,
            weight,
            weight_shape,
            made,
            x_zero: number(b, node, 2, 0.0)? as i32,
            weight_zeros: zeros(5)?.iter().map(|&zero| zero as i32).collect(),
            made_zero: number(b, node, 7, 0.0)? as i32,
            factors: list(4)?.iter().map(factor).collect(),
        };
        fits.then_some(linear)
    }

    /// With one number for each channel of the result, or one for all.
    fn has_channels(&self, channels: usize) -> bool {
        let fits = |length: usize| length == 1 || length == channels;
        fits(self.weight_zeros.len()) && fits(self.factors.len())
    }

    /// The weight as signed bytes without their zero points, an output channel after the other; `None` if it has no
    /// such form, or sums could overflow. That of a product is turned, and has one tap.
    fn signed_weight(
        &self,
        b: &Builder<'_>,
        is_product: bool,
        bias: Option<&[i32]>,
    ) -> Result<Option<Tensor>> {
        let Some(tensor) = b.constant(self.weight).filter(|tensor| tensor.elements() > 0) else {
            return Ok(None);
        };
        let mut values: Vec<f64> = tensor.to_f64()?;
        let mut dims = tensor.shape().to_vec();
        if let (true, &[k, n]) = (is_product, tensor.shape()) {
            values = (0..n * k).map(|at| values[at % k * n + at / k]).collect();
            dims = vec![n, k, 1];
        }
        let each = values.len() / dims[0];
        let mut signed = Vec::with_capacity(values.len());
        for (channel, row) in values.chunks_exact(each).enumerate() {
            let zeros = &self.weight_zeros;
            let zero = f64::from(if zeros.len() == 1 { zeros[0] } else { zeros[channel] });
            let bias = bias.map_or(0, |bias| i64::from(bias[channel]).abs());
            let mut largest = bias;
            for value in row {
                let centred = value - zero;
                if !(-128.0..=127.0).contains(&centred) {
                    return Ok(None);
                }
                // With the zero point of images, that of its distance from it too.
                largest += 2 * 255 * (centred as i64).abs();
                signed.push(centred as i8);
            }
            if largest > i64::from(i32::MAX) {
                return Ok(None);
            }
        }
        Ok(Some(Tensor::new(&dims, signed)?))
    }

    /// Emits the convolution, if the weight has a form for it; images and results are given as views of its shapes.
    fn emit(
        &self,
        b: &mut Builder<'_>,
        problem: Convolution,
        bias: Option<&[i32]>,
        operands: impl FnOnce(&mut Builder<'_>) -> Result<[Operand; 2]>,
    ) -> Result<bool> {
        let is_product = self.weight_shape.rank() == 2;
        let role = Role::Convolution { groups: problem.groups };
        let usage = Usage { role, turned: false };
        let weight = b.prepared(self.made.0, usage, |b| self.signed_weight(b, is_product, bias))?;
        let Some(weight) = weight else { return Ok(false) };
        let channels = weight.layout.shape()[0];
        let factors = match self.factors.as_slice() {
            [one] => vec![*one; channels],
            all => all.to_vec(),
        };
        let factors = b.new_constant(&Tensor::new(&[channels], factors)?)?;
        let [image, output] = operands(b)?;
        let mut inputs = vec![image, weight, factors];
        if let Some(bias) = bias {
            inputs.push(b.new_constant(&Tensor::new(&[channels], bias.to_vec())?)?);
        }
        let (input_zero, output_zero) = (self.x_zero, self.made_zero);
        let op = QuantizedConvolution { problem, input_zero, output_zero, relu: false };
        b.emit(Action::new(op), &inputs, output);
        Ok(true)
    }
}

fn conv(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let Some(linear) = Linear::of(b, node) else { return Ok(false) };
    let (shape, taps) = (linear.x.2, linear.weight_shape);
    let (rank, axes) = (shape.rank(), shape.rank().saturating_sub(2));
    if !(3..=4).contains(&rank) || taps.rank() != rank || !linear.has_channels(taps[0]) {
        return Ok(false);
    }
    let (Some(strides), Some(dilations)) =
        (per_axis(node, "strides", axes)?, per_axis(node, "dilations", axes)?)
    else {
        return Ok(false);
    };
    let pads = pads(node, &shape[2..], &taps[2..], &strides, &dilations)?;
    let (Some(pads), Ok(groups)) = (pads, usize::try_from(node.attributes.int_or("group", 1)?))
    else {
        return Ok(false);
    };
    let bias = match input(node, 8) {
        None => None,
        Some(id) => match b.constant(id).and_then(|bias| bias.values::<i32>().ok()) {
            Some(bias) if bias.len() == taps[0] => Some(bias.to_vec()),
            _ => return Ok(false),
        },
    };
    if !pads.are_even() && !is_worth_padding(&shape, &pads) {
        return Ok(false);
    }
    let even = pads.are_even();
    let padding = if even { pair(&pads.before, 0) } else { [0, 0] };
    let (stride, dilation) = (pair(&strides, 1), pair(&dilations, 1));
    let problem = Convolution { stride, padding, dilation, groups };
    let (made, made_dtype, made_shape) = linear.made;
    let layout = with_adjacent_channels(&made_shape);
    let mut output = None;
    let is_emitted = linear.emit(b, problem, bias.as_deref(), |b| {
        let mut image = b.operand(linear.x.0)?;
        if !even {
            image = padded(b, image, &pads, f64::from(linear.x_zero))?;
        }
        let array = Operand { layout, ..b.new_array(made_dtype, made_shape) };
        output = Some(array);
        Ok([image, array])
    })?;
    if let Some(output) = output {
        b.set(Some(made), output);
    }
    Ok(is_emitted)
}

/// A product with a constant matrix is a convolution of one axis whose kernel has one element: rows are
/// its positions.
fn matmul(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let Some(linear) = Linear::of(b, node) else { return Ok(false) };
    let (made, made_dtype, made_shape) = linear.made;
    let &[k, n] = linear.weight_shape.dims() else { return Ok(false) };
    let dims = linear.x.2;
    let rows: usize = match dims.dims() {
        [rows @ .., last] if !rows.is_empty() && *last == k => rows.iter().product(),
        _ => return Ok(false),
    };
    if !linear.has_channels(n) || rows == 0 || made_shape.elements() != rows * n {
        return Ok(false);
    }
    let positions = |operand: Operand, channels: usize| -> Result<Operand> {
        let shape = Shape::new(&[1, channels, rows])?;
        let layout = Layout::new(shape, &[rows * channels, 1, channels], operand.layout.offset())?;
        Ok(Operand { layout, ..operand })
    };
    let mut output = None;
    let is_emitted = linear.emit(b, Convolution::default(), None, |b| {
        let x = b.operand(linear.x.0)?;
        let x = b.dense(x);
        let array = b.new_array(made_dtype, made_shape);
        output = Some(array);
        Ok([positions(x, k)?, positions(array, n)?])
    })?;
    if let Some(output) = output {
        b.set(Some(made), output);
    }
    Ok(is_emitted)
}
