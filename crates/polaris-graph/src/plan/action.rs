//! What an instruction computes on a device.

use std::sync::Arc;

use polaris_ops::batch_norm::BatchNorm;
use polaris_ops::conv::{
    ByteConvolution, ConvolutionInputGradient, FusedConvolution, PackedConvolution,
};
use polaris_ops::copy::Copy;
use polaris_ops::elementwise::Elementwise;
use polaris_ops::fill::Fill;
use polaris_ops::matmul::PackedMatrix;
use polaris_ops::pad::Remap;
use polaris_ops::reduce::Reduce;
use polaris_ops::scan::CumSum;
use polaris_ops::sort::ArgSort;
use polaris_ops::{
    Array, Attention, Convolution, Expression, Lookup, MatMul, Norm, Pool, Requantize, Scatter,
    Softmax,
};

/// An operation with its parameters.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "each is the operation of its name")]
pub enum Action {
    ArgSort(ArgSort),
    Attention(Attention),
    BatchNorm(BatchNorm),
    /// Of bytes on the CPU, with a weight that was made ready when the plan was.
    ByteConvolution(Arc<ByteConvolution>),
    Convolution(Convolution),
    /// Between layouts and types.
    Copy(Copy),
    CumSum(CumSum),
    Elementwise(Elementwise),
    Fill(Fill),
    Fused(Expression),
    FusedConvolution(FusedConvolution),
    Lookup(Lookup),
    MatMul(MatMul),
    Norm(Norm),
    /// On the CPU, with a weight that was made ready when the plan was.
    PackedConvolution(FusedConvolution, Arc<PackedConvolution>),
    /// The same for the second factor of a product.
    PackedMatMul(MatMul, Arc<PackedMatrix>),
    Pool(Pool),
    Reduce(Reduce),
    /// Padding and flips.
    Remap(Remap),
    /// Between numbers and bytes on the CPU.
    Requantize(Requantize),
    Scatter(Scatter),
    Softmax(Softmax),
    TransposedConvolution(ConvolutionInputGradient),
}

/// Does the same with the operation of every kind, but for those that only the CPU has.
macro_rules! with_operation {
    ($action:expr, $op:ident => $body:expr, packed => $packed:expr) => {
        match $action {
            Action::ArgSort($op) => $body,
            Action::Attention($op) => $body,
            Action::BatchNorm($op) => $body,
            Action::Convolution($op) => $body,
            Action::Copy($op) => $body,
            Action::CumSum($op) => $body,
            Action::Elementwise($op) => $body,
            Action::Fill($op) => $body,
            Action::Fused($op) => $body,
            Action::FusedConvolution($op) => $body,
            Action::Lookup($op) => $body,
            Action::MatMul($op) => $body,
            Action::Norm($op) => $body,
            Action::Pool($op) => $body,
            Action::Reduce($op) => $body,
            Action::Remap($op) => $body,
            Action::Scatter($op) => $body,
            Action::Softmax($op) => $body,
            Action::TransposedConvolution($op) => $body,
            Action::ByteConvolution(_)
            | Action::PackedConvolution(..)
            | Action::PackedMatMul(..)
            | Action::Requantize(_) => $packed,
        }
    };
}

impl Action {
    /// Its name in a plan.
    pub fn name(&self) -> &'static str {
        use polaris_ops::Operation;
        let packed = || match self {
            Self::ByteConvolution(_) => "byte_convolution",
            Self::PackedConvolution(..) => "packed_convolution",
            Self::Requantize(op) => op.name(),
            _ => "packed_matmul",
        };
        with_operation!(self, op => op.name(), packed => packed())
    }

    /// What is computed, but for the elements of what was packed.
    pub fn parameters(&self) -> String {
        match self {
            Self::ByteConvolution(weight) => format!("{:?} {}", weight.problem(), weight.shape()),
            Self::PackedConvolution(op, weight) => format!("{op:?} {}", weight.shape()),
            Self::PackedMatMul(op, matrix) => format!("{op:?} {}", matrix.shape()),
            other => format!("{other:?}"),
        }
    }

    /// Computes.
    ///
    /// # Errors
    /// If the arrays do not fit together, or the device fails.
    pub fn run(&self, inputs: &[&Array], output: &Array) -> polaris_ops::Result<()> {
        match self {
            Self::ByteConvolution(weight) => weight.run(inputs, output),
            Self::PackedConvolution(op, weight) => weight.run(op, inputs, output),
            Self::PackedMatMul(op, matrix) => op.run_packed(inputs, matrix, output),
            Self::Requantize(op) => op.run(inputs, output),
            other => with_operation!(
                other,
                op => polaris_ops::run(op, inputs, output),
                packed => unreachable!("packed operations should have run above")
            ),
        }
    }

    /// Whether an OpenCL device has a kernel for it that is not quarantined. A device without one would send the arrays to the
    /// CPU and back.
    pub fn has_kernel(&self, inputs: &[&Array], output: &Array) -> bool {
        output.elements() == 0
            || with_operation!(
                self,
                op => polaris_ops::has_trusted_kernel(op, inputs, output),
                packed => false
            )
    }

    /// Whether the result may lie where an operand of the same layout lies.
    pub fn works_in_place(&self) -> bool {
        matches!(
            self,
            Self::Elementwise(_)
                | Self::Fused(_)
                | Self::BatchNorm(_)
                | Self::Requantize(_)
                | Self::Softmax(_)
        )
    }
}
