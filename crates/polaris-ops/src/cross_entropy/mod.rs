//! Cross-entropy of rows of logits and the indices of their classes, and its gradient, without materialising the
//! probabilities.
//!
//! The loss of a row is `-log(softmax(logits))` at the target, times the target's weight. Label
//! smoothing gives a part of the target's share to all classes alike, each with its own weight:
//!
//! ```text
//! loss = (1 - smoothing) * weight[target] * -log p[target]
//!        + smoothing / classes * sum over c of weight[c] * -log p[c]
//! ```
//!
//! Losses are not reduced here. Their sum, or a mean, is up to the caller: the mean that goes with
//! weights divides the sum by the weights of the targets, `sum of weight[target]` over the rows that
//! are not ignored, and not by the number of rows.
//!
//! Half precisions are computed in `f32`, and so are their losses. A row with a NaN or a positive
//! infinity, or of nothing but negative infinities, has the loss NaN.

mod cpu;
mod opencl;
mod operations;
mod reference;
mod suite;
#[cfg(test)]
mod tests;

pub use opencl::Kernel;
pub(crate) use opencl::shipped_programs;
pub use operations::{CrossEntropy, CrossEntropyGradient};
pub(crate) use suite::FAMILY;

use polaris_core::Shape;

use crate::operation::run;
use crate::operation::sum_dtype;
use crate::{Array, Result};

/// What a loss is made of.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CrossEntropyOptions {
    /// The part of a target's share that all classes get alike, from 0 to 1.
    pub smoothing: f64,
    /// A target whose row has no loss and no gradient.
    pub ignore_index: Option<i64>,
}

/// The loss of each row of `logits`, `[rows, classes]`, with respect to `targets`, `[rows]` of `i32`
/// or `i64`. Weights, one for each class, and losses are `f64` for `f64` and `f32` otherwise.
///
/// On devices other than the CPU, targets are read back to be checked, which waits for what was
/// enqueued before.
///
/// # Errors
/// `TargetOutOfRange` if a target is not a class and not ignored; if shapes or types do not fit, the
/// smoothing is not a share, or there is no room for the result.
pub fn cross_entropy(
    logits: &Array,
    targets: &Array,
    weights: Option<&Array>,
    options: CrossEntropyOptions,
) -> Result<Array> {
    let op = CrossEntropy { options, has_weights: weights.is_some() };
    let rows = logits.shape().first().copied().unwrap_or(1);
    let output = Array::empty(logits.device(), sum_dtype(logits.dtype()), Shape::new(&[rows])?)?;
    let inputs: Vec<&Array> =
        [Some(logits), Some(targets), weights].into_iter().flatten().collect();
    run(&op, &inputs, &output)?;
    Ok(output)
}

/// The gradient of [`cross_entropy`] with respect to the logits, from the gradient `g` of the losses:
/// for one without weights and smoothing, `(softmax(logits) - one at the target) * g`.
///
/// # Errors
/// As for [`cross_entropy`].
pub fn cross_entropy_gradient(
    logits: &Array,
    targets: &Array,
    g: &Array,
    weights: Option<&Array>,
    options: CrossEntropyOptions,
) -> Result<Array> {
    let op = CrossEntropyGradient { options, has_weights: weights.is_some() };
    let output = Array::empty(logits.device(), logits.dtype(), *logits.shape())?;
    let inputs: Vec<&Array> =
        [Some(logits), Some(targets), Some(g), weights].into_iter().flatten().collect();
    run(&op, &inputs, &output)?;
    Ok(output)
}
