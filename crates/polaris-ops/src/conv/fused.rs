//! A convolution of inference: with what follows it, in one pass over the result.

use super::problem::Convolution;
use crate::matmul::Activation;
use crate::operation::alias_is_harmless;
use crate::{Array, Error, Result};

/// `activation(convolution + bias + residual)`. The arrays are, in this order and as far as the
/// problem has them: x, weight, bias, residual.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FusedConvolution {
    /// The convolution.
    pub problem: Convolution,
    /// Whether a number is added to each channel.
    pub bias: bool,
    /// Whether an array of the result's shape is added before the activation.
    pub residual: bool,
    /// What becomes of each sum.
    pub activation: Activation,
}

impl FusedConvolution {
    /// A convolution with nothing after it.
    pub const fn plain(problem: Convolution, bias: bool) -> Self {
        Self { problem, bias, residual: false, activation: Activation::Identity }
    }

    /// Whether nothing but a bias follows the convolution.
    pub fn is_plain(&self) -> bool {
        !self.residual && self.activation == Activation::Identity
    }

    /// Bias and residual, from what follows the weight in the list of arrays.
    pub(super) fn rest<'a>(&self, arrays: &[&'a Array]) -> Result<[Option<&'a Array>; 2]> {
        let expected = usize::from(self.bias) + usize::from(self.residual);
        if arrays.len() != expected {
            let found = arrays.len() + 2;
            return Err(Error::WrongArity { op: "convolution", expected: expected + 2, found });
        }
        let residual = if self.residual { arrays.last().copied() } else { None };
        Ok([if self.bias { arrays.first().copied() } else { None }, residual])
    }
}

/// Whether a residual has the type and shape of the result, and may share its memory.
pub(super) fn check_residual(residual: &Array, output: &Array) -> Result<()> {
    let op = super::problem::OP;
    if residual.dtype() != output.dtype() {
        let (lhs, rhs) = (residual.dtype(), output.dtype());
        return Err(polaris_core::Error::DTypeMismatch { op, lhs, rhs }.into());
    }
    if residual.shape() != output.shape() {
        let (lhs, rhs) = (*residual.shape(), *output.shape());
        return Err(polaris_core::Error::ShapeMismatch { op, lhs, rhs }.into());
    }
    match alias_is_harmless(residual, output) {
        true => Ok(()),
        false => Err(Error::AliasedOutput { op }),
    }
}
