//! Convolution along one or two axes, and its gradients with respect to the input and the weight.
//!
//! Layouts are PyTorch's: images are `[N, C, H, W]` or `[N, C, L]`, the weight is
//! `[Cout, Cin / groups, kh, kw]` or `[Cout, Cin / groups, k]`. The result is the same run after run:
//! the order of every sum depends on sizes alone.

mod axis;
pub(crate) mod cpu;
mod fused;
mod geometry;
mod opencl;
mod opencl_launch;
mod opencl_program;
mod opencl_quantized;
mod operations;
#[cfg(test)]
mod packed_tests;
mod problem;
mod product;
mod quantized;
#[cfg(test)]
mod quantized_tests;
mod reference;
mod suite;
#[cfg(test)]
mod tests;

pub use fused::FusedConvolution;
pub use opencl::Kernel;
pub use operations::{ConvolutionInputGradient, ConvolutionWeightGradient};
pub use problem::Convolution;
pub use quantized::QuantizedConvolution;
pub(crate) use suite::FAMILY;

use polaris_core::Shape;
use polaris_runtime::opencl::ProgramSource;

use crate::operation::run;
use crate::{Array, Result};

/// Every program configuration that stands for others.
fn shipped_programs() -> Vec<ProgramSource> {
    let mut programs = opencl_program::shipped_programs();
    programs.extend(opencl_quantized::shipped_programs());
    programs
}

/// Slides the weight over the images: the sum over taps and channels of weight times element, plus
/// the bias of the output channel, an array of `Cout` elements. Beyond the border lie as many zeros
/// as the padding says. Half precisions are computed in `f32`. What an infinite or NaN weight makes
/// of the zeros of the padding is not defined.
///
/// # Errors
/// If shapes or types do not fit together, the kernel is larger than the padded image, or there is
/// no room for the result.
pub fn convolution(
    x: &Array,
    weight: &Array,
    bias: Option<&Array>,
    problem: &Convolution,
) -> Result<Array> {
    let shape = problem.output_shape(x.shape(), weight.shape())?;
    let output = Array::empty(x.device(), x.dtype(), shape)?;
    match bias {
        Some(bias) => run(problem, &[x, weight, bias], &output)?,
        None => run(problem, &[x, weight], &output)?,
    }
    Ok(output)
}

/// The gradient of [`convolution`] with respect to its input, which had this shape, where `g` is the
/// gradient with respect to its result.
///
/// # Errors
/// If shapes or types do not fit together, or there is no room for the result.
pub fn convolution_input_gradient(
    g: &Array,
    weight: &Array,
    input_shape: &Shape,
    problem: &Convolution,
) -> Result<Array> {
    let output = Array::empty(g.device(), g.dtype(), *input_shape)?;
    run(&ConvolutionInputGradient { problem: *problem }, &[g, weight], &output)?;
    Ok(output)
}

/// The gradient of [`convolution`] with respect to its weight, which had this shape, where `g` is the
/// gradient with respect to its result.
///
/// # Errors
/// If shapes or types do not fit together, or there is no room for the result.
pub fn convolution_weight_gradient(
    x: &Array,
    g: &Array,
    weight_shape: &Shape,
    problem: &Convolution,
) -> Result<Array> {
    let output = Array::empty(x.device(), x.dtype(), *weight_shape)?;
    run(&ConvolutionWeightGradient { problem: *problem }, &[x, g], &output)?;
    Ok(output)
}

/// The transpose of a convolution, plus a bias: every element is spread over the taps of the weight,
/// `[Cin, Cout / groups, kh, kw]`, at the strides of the problem. A convolution takes images of
/// several lengths to the same one; `output_padding` elements more than the least are made, which
/// must be fewer than the stride.
///
/// # Errors
/// As for [`convolution`], or if the output padding is not smaller than the stride.
pub fn transposed_convolution(
    x: &Array,
    weight: &Array,
    bias: Option<&Array>,
    output_padding: [usize; 2],
    problem: &Convolution,
) -> Result<Array> {
    let shape = problem.transposed_shape(x.shape(), weight.shape(), output_padding)?;
    let output = Array::empty(x.device(), x.dtype(), shape)?;
    let op = ConvolutionInputGradient { problem: *problem };
    match bias {
        Some(bias) => run(&op, &[x, weight, bias], &output)?,
        None => run(&op, &[x, weight], &output)?,
    }
    Ok(output)
}
