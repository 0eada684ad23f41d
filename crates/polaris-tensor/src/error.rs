//! What can go wrong with tensors and their gradients.

use polaris_core::{DType, ErrorKind, Shape};

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation refused its arrays, or the device failed.
    #[error(transparent)]
    Operation(#[from] polaris_ops::Error),
    /// Gradients were asked of a tensor that remembers nothing.
    #[error(
        "backward: this tensor has no history: nothing it was computed from requires a gradient, \
         or it was computed under `no_grad` or is itself a gradient (double backward is not \
         supported); call `requires_grad` on the inputs first"
    )]
    NoHistory,
    /// The history was used up by an earlier call.
    #[error(
        "backward: the history of `{op}` was given up by an earlier call; use \
         `backward_retaining` for the first of them, or compute the result again"
    )]
    HistorySpent {
        /// The operation.
        op: &'static str,
    },
    /// `backward` without a gradient needs a single value to begin with.
    #[error(
        "backward: a tensor of shape {shape} has no single value to take the gradient of; reduce \
         it (`sum`, `mean`) or give the gradient to `backward_with`"
    )]
    NotAScalar {
        /// Its shape.
        shape: Shape,
    },
    /// A gradient of another shape or type than what it belongs to.
    #[error(
        "the gradient that `{op}` gave is {found_dtype} of shape {found}, but its input is \
         {expected_dtype} of shape {expected}"
    )]
    WrongGradient {
        /// The operation.
        op: &'static str,
        /// The input's shape.
        expected: Shape,
        /// The input's type.
        expected_dtype: DType,
        /// The gradient's shape.
        found: Shape,
        /// The gradient's type.
        found_dtype: DType,
    },
    /// A function gave more or fewer gradients than it has inputs.
    #[error("`{op}` has {inputs} inputs, but its backward gave {gradients} gradients")]
    WrongGradientCount {
        /// The operation.
        op: &'static str,
        /// How many inputs it has.
        inputs: usize,
        /// How many gradients came.
        gradients: usize,
    },
    /// A tensor was changed in place between the moment it was saved and the backward pass.
    #[error(
        "backward: a tensor that `{op}` needs was changed in place since; make the change after \
         the backward pass, or compute with a copy"
    )]
    ChangedInPlace {
        /// The operation that saved it.
        op: &'static str,
    },
    /// A type that has no gradient.
    #[error("{dtype} tensors have no gradient; convert to a floating-point type first")]
    NotDifferentiable {
        /// The type.
        dtype: DType,
    },
    /// A parameter outside its domain.
    #[error("{op}: {what}")]
    InvalidParameter {
        /// The operation.
        op: &'static str,
        /// What is wrong and what to do.
        what: String,
    },
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Operation(error) => error.kind(),
            Self::NotAScalar { .. } | Self::WrongGradient { .. } => ErrorKind::Shape,
            Self::NotDifferentiable { .. } => ErrorKind::DType,
            Self::NoHistory
            | Self::HistorySpent { .. }
            | Self::WrongGradientCount { .. }
            | Self::ChangedInPlace { .. }
            | Self::InvalidParameter { .. } => ErrorKind::InvalidArgument,
        }
    }
}

impl From<polaris_core::Error> for Error {
    fn from(error: polaris_core::Error) -> Self {
        Self::Operation(error.into())
    }
}

impl From<polaris_runtime::Error> for Error {
    fn from(error: polaris_runtime::Error) -> Self {
        Self::Operation(error.into())
    }
}
