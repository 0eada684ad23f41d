//! Batch normalisation of `[N, C, ...]`: each channel by its own mean and variance, over all that is
//! not the channel's axis; its gradients; and group and instance normalisation.
//!
//! Half precisions are computed in `f32`; means, variances and sums of channels are `f32` for them,
//! too. The variance is the biased one, made of differences from a mean and never of a difference of
//! large sums. NaN and infinities do what the formulas make of them.

mod cpu;
mod cpu_channels;
mod cpu_loops;
mod groups;
mod opencl;
mod opencl_program;
mod operations;
mod reference;
mod suite;
#[cfg(test)]
mod tests;

pub use groups::{group_norm, group_norm_gradient, group_norm_weight_gradient, instance_norm};
pub use opencl::Kernel;
pub(crate) use opencl_program::shipped_programs;
pub use operations::{BatchNorm, BatchNormGradient, BatchNormSums, BatchStatistics};
pub(crate) use suite::FAMILY;

use polaris_core::{Collapsed, Layout, Shape};

use crate::operation::run;
use crate::operation::sum_dtype;
use crate::{Array, Error, Result};

/// The mean and the variance of each channel. Of no elements, both are NaN.
///
/// # Errors
/// If x has fewer than two axes or is not of a floating-point type, or there is no room for the
/// result.
pub fn batch_statistics(x: &Array) -> Result<(Array, Array)> {
    pair(x, &BatchStatistics, &[x])
}

/// `(x - mean) / sqrt(variance + epsilon) * weight + bias` for each channel: with the statistics of
/// [`batch_statistics`] in training, with others in evaluation. What is absent is left out.
///
/// # Errors
/// If shapes or types do not fit, `epsilon` is negative or not finite, or as for
/// [`batch_statistics`].
pub fn batch_norm(
    x: &Array,
    mean: &Array,
    variance: &Array,
    weight: Option<&Array>,
    bias: Option<&Array>,
    epsilon: f64,
) -> Result<Array> {
    let op = BatchNorm { epsilon, has_weight: weight.is_some(), has_bias: bias.is_some() };
    let inputs = [Some(x), Some(mean), Some(variance), weight, bias];
    like(x, &op, inputs)
}

/// The gradients of [`batch_norm`] with respect to weight and bias, from the gradient `g` of its
/// result: for each channel the sum of `g` times the normalised x, and the sum of `g`.
///
/// # Errors
/// As for [`batch_norm`].
pub fn batch_norm_weight_gradient(
    x: &Array,
    g: &Array,
    mean: &Array,
    variance: &Array,
    epsilon: f64,
) -> Result<(Array, Array)> {
    pair(x, &BatchNormSums { epsilon }, &[x, g, mean, variance])
}

/// The gradient of [`batch_norm`] with respect to x. `sums` are the gradients of weight and bias of
/// [`batch_norm_weight_gradient`] where the statistics were those of x itself, and absent in
/// evaluation, where they do not depend on x.
///
/// # Errors
/// As for [`batch_norm`].
pub fn batch_norm_gradient(
    x: &Array,
    g: &Array,
    mean: &Array,
    variance: &Array,
    weight: Option<&Array>,
    sums: Option<(&Array, &Array)>,
    epsilon: f64,
) -> Result<Array> {
    let op = BatchNormGradient { epsilon, has_weight: weight.is_some(), training: sums.is_some() };
    let (of_weight, of_bias) = sums.unzip();
    like(x, &op, [Some(x), Some(g), Some(mean), Some(variance), weight, of_weight, of_bias])
}

fn like<O: crate::Operation, const N: usize>(
    x: &Array,
    op: &O,
    inputs: [Option<&Array>; N],
) -> Result<Array> {
    let output = Array::empty(x.device(), x.dtype(), *x.shape())?;
    let inputs: Vec<&Array> = inputs.into_iter().flatten().collect();
    run(op, &inputs, &output)?;
    Ok(output)
}

/// Two numbers of each channel, as two arrays in one buffer.
fn pair<O: crate::Operation>(x: &Array, op: &O, inputs: &[&Array]) -> Result<(Array, Array)> {
    let channels = channel_axis(op.name(), x.shape())?;
    let output = Array::empty(x.device(), sum_dtype(x.dtype()), Shape::new(&[2, channels])?)?;
    run(op, inputs, &output)?;
    let one = Shape::new(&[channels])?;
    let row = |index: usize| -> Result<Array> {
        let offset = if output.elements() > 0 { index * channels } else { 0 };
        Array::new(output.buffer().clone(), Layout::new(one, &[1], offset)?)
    };
    Ok((row(0)?, row(1)?))
}

/// The number of channels.
fn channel_axis(op: &'static str, shape: &Shape) -> Result<usize> {
    let none = || Error::InvalidParameter {
        op,
        what: format!("an array of shape {shape} has no channels; it must be [N, C, ...]"),
    };
    shape.get(1).copied().ok_or_else(none)
}

/// Arrays of one shape, channel by channel.
struct Channels<const N: usize> {
    count: usize,
    /// The distance from one channel to the next.
    strides: [usize; N],
    /// Everything but the channels.
    rest: Collapsed<N>,
}

impl<const N: usize> Channels<N> {
    /// Of arrays that were checked to have this shape, with at least two axes.
    fn new(shape: &Shape, layouts: [&Layout; N]) -> Result<Self> {
        let without = |values: &[usize]| -> Vec<usize> {
            values.iter().enumerate().filter(|(axis, _)| *axis != 1).map(|(_, &v)| v).collect()
        };
        let outer = Shape::new(&without(shape))?;
        let mut starts = [*layouts[0]; N];
        for (start, layout) in starts.iter_mut().zip(layouts) {
            *start = Layout::new(outer, &without(layout.strides()), layout.offset())?;
        }
        Ok(Self {
            count: shape[1],
            strides: layouts.map(|layout| layout.strides()[1]),
            rest: Collapsed::new(&outer, starts.each_ref()),
        })
    }

    /// Elements of a channel.
    fn elements(&self) -> usize {
        self.rest.elements()
    }
}
