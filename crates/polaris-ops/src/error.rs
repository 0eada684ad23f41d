//! The errors of operations.

use polaris_core::ErrorKind;

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of an operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A shape, layout or data type is wrong.
    #[error(transparent)]
    Core(#[from] polaris_core::Error),
    /// The device, its memory or its driver failed.
    #[error(transparent)]
    Runtime(#[from] polaris_runtime::Error),
    /// A function was given the wrong number of arrays.
    #[error("{op} takes {expected} arrays, {found} were given")]
    WrongArity {
        /// The operation.
        op: &'static str,
        /// How many it takes.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// The output shares memory with an input in a way that would change the input while it is
    /// still needed.
    #[error("{op}: the output overlaps an input; use a separate output")]
    AliasedOutput {
        /// The operation.
        op: &'static str,
    },
    /// A reduction of zero elements that has no identity element.
    #[error("{op} of zero elements is undefined; reduce an axis that is not empty")]
    EmptyReduction {
        /// The operation.
        op: &'static str,
    },
    /// A target that is not a class index.
    #[error(
        "{op}: the target of row {row} is {value}, but there are {classes} classes, counted from 0; correct \
         it, or set it as the ignored index"
    )]
    TargetOutOfRange {
        /// The operation.
        op: &'static str,
        /// The first row with such a target.
        row: usize,
        /// The target.
        value: i64,
        /// How many classes there are.
        classes: usize,
    },
    /// An index that its axis does not have.
    #[error(
        "{op}: index {index} at position {position} is out of range for axis {axis} of length {length}; \
         indices count from 0"
    )]
    IndexOutOfRange {
        /// The operation.
        op: &'static str,
        /// The index.
        index: i64,
        /// Its place in the array of indices, in row-major order.
        position: usize,
        /// The axis that is indexed.
        axis: usize,
        /// The length of that axis.
        length: usize,
    },
    /// An array in a format that the operation does not read.
    #[error(
        "{op} takes dense arrays, but was given a weight in the format {format}; expand it first"
    )]
    UnsupportedFormat {
        /// The operation.
        op: &'static str,
        /// The format.
        format: crate::format::Format,
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
            Self::Core(error) => error.kind(),
            Self::Runtime(error) => error.kind(),
            Self::EmptyReduction { .. } => ErrorKind::Shape,
            Self::WrongArity { .. }
            | Self::AliasedOutput { .. }
            | Self::TargetOutOfRange { .. }
            | Self::IndexOutOfRange { .. }
            | Self::InvalidParameter { .. } => ErrorKind::InvalidArgument,
            Self::UnsupportedFormat { .. } => ErrorKind::Unsupported,
        }
    }
}
