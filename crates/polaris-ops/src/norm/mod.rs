//! Layer and RMS normalisation over the last axis, and their gradients.
//!
//! A row is what the last axis runs along; every row is normalised by itself. Half precisions are
//! computed in `f32`. The variance is made of differences from the mean, never of a difference of
//! large sums, and the mean's own rounding is taken back: rows far from zero keep their accuracy.
//!
//! NaN and infinities do what the formulas make of them: a NaN in a row makes the row NaN, an
//! infinity too, but for RMS normalisation, which turns the finite elements beside it into zeros.

pub(crate) mod cpu;
mod cpu_columns;
pub(crate) mod cpu_rows;
mod opencl;
mod opencl_launch;
mod opencl_program;
mod operations;
mod reference;
mod suite;
#[cfg(test)]
mod tests;

pub use opencl::Kernel;
pub(crate) use opencl_program::shipped_programs;
pub use operations::{Norm, NormGradient, NormWeightGradient};
pub(crate) use suite::FAMILY;

use polaris_core::{Collapsed, Layout, Shape};

use crate::operation::run;
use crate::operation::sum_dtype;
use crate::{Array, Error, Result};

/// By what a row is normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NormKind {
    /// By its mean and its variance: `(x - mean) / sqrt(variance + epsilon)`. The variance is the
    /// mean square of the differences (the biased one).
    Layer,
    /// By its mean square alone: `x / sqrt(mean(x^2) + epsilon)`.
    Rms,
}

impl NormKind {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Layer, Self::Rms];
}

/// `(x - mean) / sqrt(variance + epsilon) * weight + bias` along the last axis. Weight and bias are
/// as long as that axis; what is absent is left out.
///
/// # Errors
/// If x has no axis, shapes or types do not fit, `epsilon` is negative or not finite, or there is no
/// room for the result.
pub fn layer_norm(
    x: &Array,
    weight: Option<&Array>,
    bias: Option<&Array>,
    epsilon: f64,
) -> Result<Array> {
    norm(NormKind::Layer, x, weight, bias, epsilon)
}

/// `x / sqrt(mean(x^2) + epsilon) * weight + bias` along the last axis.
///
/// # Errors
/// As for [`layer_norm`].
pub fn rms_norm(
    x: &Array,
    weight: Option<&Array>,
    bias: Option<&Array>,
    epsilon: f64,
) -> Result<Array> {
    norm(NormKind::Rms, x, weight, bias, epsilon)
}

/// The gradient of [`layer_norm`] with respect to x, from the gradient `g` of its result.
///
/// # Errors
/// As for [`layer_norm`].
pub fn layer_norm_gradient(
    x: &Array,
    g: &Array,
    weight: Option<&Array>,
    epsilon: f64,
) -> Result<Array> {
    gradient(NormKind::Layer, x, g, weight, epsilon)
}

/// The gradient of [`rms_norm`] with respect to x, from the gradient `g` of its result.
///
/// # Errors
/// As for [`layer_norm`].
pub fn rms_norm_gradient(
    x: &Array,
    g: &Array,
    weight: Option<&Array>,
    epsilon: f64,
) -> Result<Array> {
    gradient(NormKind::Rms, x, g, weight, epsilon)
}

/// The gradient of [`layer_norm`] with respect to its weight: the sum over all rows of `g` times the
/// normalised x. Of half precisions it is `f32`. The gradient with respect to the bias is the sum of
/// `g` over all rows ([`reduce`](crate::reduce::reduce())).
///
/// # Errors
/// As for [`layer_norm`].
pub fn layer_norm_weight_gradient(x: &Array, g: &Array, epsilon: f64) -> Result<Array> {
    weight_gradient(NormKind::Layer, x, g, epsilon)
}

/// The gradient of [`rms_norm`] with respect to its weight, as for [`layer_norm_weight_gradient`].
///
/// # Errors
/// As for [`layer_norm`].
pub fn rms_norm_weight_gradient(x: &Array, g: &Array, epsilon: f64) -> Result<Array> {
    weight_gradient(NormKind::Rms, x, g, epsilon)
}

fn norm(
    kind: NormKind,
    x: &Array,
    weight: Option<&Array>,
    bias: Option<&Array>,
    epsilon: f64,
) -> Result<Array> {
    let op = Norm { kind, epsilon, has_weight: weight.is_some(), has_bias: bias.is_some() };
    let output = Array::empty(x.device(), x.dtype(), *x.shape())?;
    let inputs: Vec<&Array> = [Some(x), weight, bias].into_iter().flatten().collect();
    run(&op, &inputs, &output)?;
    Ok(output)
}

fn gradient(
    kind: NormKind,
    x: &Array,
    g: &Array,
    weight: Option<&Array>,
    epsilon: f64,
) -> Result<Array> {
    let op = NormGradient { kind, epsilon, has_weight: weight.is_some() };
    let output = Array::empty(x.device(), x.dtype(), *x.shape())?;
    let inputs: Vec<&Array> = [Some(x), Some(g), weight].into_iter().flatten().collect();
    run(&op, &inputs, &output)?;
    Ok(output)
}

fn weight_gradient(kind: NormKind, x: &Array, g: &Array, epsilon: f64) -> Result<Array> {
    let op = NormWeightGradient { kind, epsilon };
    let length = last_axis(op_name(kind, Part::WeightGradient), x.shape())?;
    let output = Array::empty(x.device(), sum_dtype(x.dtype()), Shape::new(&[length])?)?;
    run(&op, &[x, g], &output)?;
    Ok(output)
}

/// Which result is wanted; the names of the operations differ by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Output,
    Gradient,
    WeightGradient,
}

fn op_name(kind: NormKind, part: Part) -> &'static str {
    match (kind, part) {
        (NormKind::Layer, Part::Output) => "layer_norm",
        (NormKind::Layer, Part::Gradient) => "layer_norm_gradient",
        (NormKind::Layer, Part::WeightGradient) => "layer_norm_weight_gradient",
        (NormKind::Rms, Part::Output) => "rms_norm",
        (NormKind::Rms, Part::Gradient) => "rms_norm_gradient",
        (NormKind::Rms, Part::WeightGradient) => "rms_norm_weight_gradient",
    }
}

/// The length of the rows.
fn last_axis(op: &'static str, shape: &Shape) -> Result<usize> {
    let none = || Error::InvalidParameter {
        op,
        what: "a single value has no last axis to normalise; give it a shape of [1]".to_owned(),
    };
    shape.last().copied().ok_or_else(none)
}

/// Arrays of one shape, as rows along the last axis.
struct Rows<const N: usize> {
    /// Where the rows begin.
    starts: Collapsed<N>,
    /// Elements of a row.
    length: usize,
    /// Each array's stride along the row.
    steps: [usize; N],
}

impl<const N: usize> Rows<N> {
    /// Of arrays that were checked to have this shape, with at least one axis.
    fn new(shape: &Shape, layouts: [&Layout; N]) -> Result<Self> {
        let last = shape.rank() - 1;
        let outer = Shape::new(&shape[..last])?;
        let mut starts = [*layouts[0]; N];
        for (start, layout) in starts.iter_mut().zip(layouts) {
            *start = Layout::new(outer, &layout.strides()[..last], layout.offset())?;
        }
        // Along a single element, nobody takes a step.
        let length = shape[last];
        let step = |layout: &Layout| if length > 1 { layout.strides()[last] } else { 1 };
        Ok(Self {
            starts: Collapsed::new(&outer, starts.each_ref()),
            length,
            steps: layouts.map(step),
        })
    }

    /// How many there are.
    fn count(&self) -> usize {
        self.starts.elements()
    }
}

/// The plain definition of layer normalisation without weight and bias, for tests of what is made of
/// it.
#[cfg(test)]
pub(crate) fn reference_rows(x: &[f64], length: usize, epsilon: f64) -> Vec<f64> {
    reference::norm(NormKind::Layer, epsilon, x, length, None, None)
}

/// Its gradient, as for [`reference_rows`].
#[cfg(test)]
pub(crate) fn reference_gradient(x: &[f64], g: &[f64], length: usize, epsilon: f64) -> Vec<f64> {
    reference::gradient(NormKind::Layer, epsilon, x, g, length, None)
}
