//! Group and instance normalisation: layer normalisation of groups of channels, with a weight and a
//! bias for each channel.

use polaris_core::{Layout, Shape};

use super::channel_axis;
use crate::elementwise::{self, Elementwise};
use crate::norm::{layer_norm, layer_norm_gradient};
use crate::operation::run;
use crate::reduce::{Reduction, reduce};
use crate::{Array, Binary, Error, Function, Result, Ternary, copy};

/// `(x - mean) / sqrt(variance + epsilon) * weight + bias`, where mean and variance are those of a
/// sample's group of neighbouring channels, and weight and bias have an element for each channel.
///
/// # Errors
/// If x is not `[N, C, ...]` of a floating-point type, the channels cannot be shared out evenly, or
/// shapes or types do not fit.
pub fn group_norm(
    x: &Array,
    groups: usize,
    weight: Option<&Array>,
    bias: Option<&Array>,
    epsilon: f64,
) -> Result<Array> {
    let op = "group_norm";
    let rows = in_groups(op, x, groups)?;
    let y = layer_norm(&rows, None, None, epsilon)?;
    let y = dense_view(&y, *x.shape())?;
    let weight = weight.map(|weight| over_channels(op, weight, x)).transpose()?;
    let bias = bias.map(|bias| over_channels(op, bias, x)).transpose()?;
    let function: Function = match (&weight, &bias) {
        (Some(_), Some(_)) => Ternary::MulAdd.into(),
        (Some(_), None) => Binary::Mul.into(),
        (None, Some(_)) => Binary::Add.into(),
        (None, None) => return Ok(y),
    };
    let inputs: Vec<&Array> =
        [Some(&y), weight.as_ref(), bias.as_ref()].into_iter().flatten().collect();
    run(&Elementwise { function }, &inputs, &y)?;
    Ok(y)
}

/// [`group_norm`] with a group for each channel.
///
/// # Errors
/// As for [`group_norm`].
pub fn instance_norm(
    x: &Array,
    weight: Option<&Array>,
    bias: Option<&Array>,
    epsilon: f64,
) -> Result<Array> {
    group_norm(x, channel_axis("instance_norm", x.shape())?, weight, bias, epsilon)
}

/// The gradient of [`group_norm`] with respect to x, from the gradient `g` of its result; of
/// [`instance_norm`], with a group for each channel.
///
/// # Errors
/// As for [`group_norm`].
pub fn group_norm_gradient(
    x: &Array,
    g: &Array,
    groups: usize,
    weight: Option<&Array>,
    epsilon: f64,
) -> Result<Array> {
    let op = "group_norm_gradient";
    let rows = in_groups(op, x, groups)?;
    let inner = match weight {
        Some(weight) => elementwise::binary(Binary::Mul, g, &over_channels(op, weight, x)?)?,
        None => g.clone(),
    };
    let inner = in_groups(op, &inner, groups)?;
    let dx = layer_norm_gradient(&rows, &inner, None, epsilon)?;
    dense_view(&dx, *x.shape())
}

/// The gradients of [`group_norm`] with respect to weight and bias: for each channel the sum of `g`
/// times the normalised x, and the sum of `g`.
///
/// # Errors
/// As for [`group_norm`].
pub fn group_norm_weight_gradient(
    x: &Array,
    g: &Array,
    groups: usize,
    epsilon: f64,
) -> Result<(Array, Array)> {
    let y = group_norm(x, groups, None, None, epsilon)?;
    run(&Elementwise { function: Binary::Mul.into() }, &[&y, g], &y)?;
    let others: Vec<usize> = (0..x.shape().rank()).filter(|&axis| axis != 1).collect();
    Ok((reduce(Reduction::Sum, &y, &others)?, reduce(Reduction::Sum, g, &others)?))
}

/// A dense array's elements in another shape.
fn dense_view(array: &Array, shape: Shape) -> Result<Array> {
    let dense = Layout::contiguous(shape);
    let layout = Layout::new(shape, dense.strides(), array.layout().offset())?;
    Array::new(array.buffer().clone(), layout)
}

/// A row for each group of each sample; copied, where x is not dense.
fn in_groups(op: &'static str, x: &Array, groups: usize) -> Result<Array> {
    let channels = channel_axis(op, x.shape())?;
    if groups == 0 || !channels.is_multiple_of(groups) {
        let what = format!("{channels} channels cannot be split into {groups} equal groups");
        return Err(Error::InvalidParameter { op, what });
    }
    let dense = if x.layout().is_contiguous() { x.clone() } else { copy::contiguous(x)? };
    let inner: usize = x.shape()[2..].iter().product();
    dense_view(&dense, Shape::new(&[x.shape()[0], groups, channels / groups * inner])?)
}

/// An array of one number for each channel, so that it broadcasts to x.
fn over_channels(op: &'static str, array: &Array, x: &Array) -> Result<Array> {
    let expected = Shape::new(&x.shape()[1..2])?;
    if *array.shape() != expected {
        let lhs = *array.shape();
        return Err(polaris_core::Error::unequal_shapes(op, lhs, expected).into());
    }
    let mut dims = vec![1; x.shape().rank() - 1];
    let mut strides = vec![0; dims.len()];
    (dims[0], strides[0]) = (expected[0], array.layout().strides()[0]);
    let layout = Layout::new(Shape::new(&dims)?, &strides, array.layout().offset())?;
    Array::new(array.buffer().clone(), layout)
}
