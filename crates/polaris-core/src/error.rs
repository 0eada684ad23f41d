//! Errors of shapes, layouts and data types.

use crate::{DType, ErrorKind, Shape};

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What can be wrong with a shape, a layout or a data type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two shapes cannot be combined.
    #[error("{op}: shapes {lhs} and {rhs} do not match; {hint}")]
    ShapeMismatch {
        /// The operation.
        op: &'static str,
        /// The first shape.
        lhs: Shape,
        /// The second shape.
        rhs: Shape,
        /// What is accepted.
        hint: &'static str,
    },
    /// Two data types cannot be combined.
    #[error("{op}: data types {lhs} and {rhs} differ; cast one of them first")]
    DTypeMismatch {
        /// The operation.
        op: &'static str,
        /// The first data type.
        lhs: DType,
        /// The second data type.
        rhs: DType,
    },
    /// The operation does not support this data type.
    #[error("{op} does not support {dtype}; {hint}")]
    UnsupportedDType {
        /// The operation.
        op: &'static str,
        /// The unsupported data type.
        dtype: DType,
        /// What to do instead.
        hint: &'static str,
    },
    /// A rank above the largest one.
    #[error("a shape of rank {rank} is not supported; the largest rank is {}", crate::MAX_RANK)]
    RankTooLarge {
        /// The requested rank.
        rank: usize,
    },
    /// The number of elements or bytes does not fit the address space.
    #[error("{what} overflows the address space; use smaller dimensions")]
    TooLarge {
        /// A description of the shape or layout.
        what: String,
    },
    /// An axis that the shape does not have.
    #[error("{op}: axis {axis} is out of range for a shape of rank {rank}")]
    AxisOutOfRange {
        /// The operation.
        op: &'static str,
        /// The requested axis; negative ones count from the back.
        axis: isize,
        /// The rank of the shape.
        rank: usize,
    },
    /// An axis that is named twice.
    #[error("{op}: axis {axis} is named twice; name each axis once")]
    AxisRepeated {
        /// The operation.
        op: &'static str,
        /// The axis in question.
        axis: usize,
    },
    /// A range that lies outside its dimension.
    #[error(
        "slice {start}..{end} with step {step} lies outside axis {axis} of length {length}; \
         the start must not exceed the end, the end not the length, and the step must be at least 1"
    )]
    SliceOutOfRange {
        /// The axis that is sliced.
        axis: usize,
        /// The first index.
        start: usize,
        /// One past the last index.
        end: usize,
        /// The step between indices.
        step: usize,
        /// The length of the axis.
        length: usize,
    },
    /// A layout that reaches beyond the memory it describes.
    #[error(
        "{op}: the layout reaches element {reaches}, but the buffer holds {holds}; use a smaller layout or a larger buffer"
    )]
    OutOfBounds {
        /// The operation.
        op: &'static str,
        /// One past the last element the layout touches.
        reaches: usize,
        /// The number of elements in the buffer.
        holds: usize,
    },
    /// An output layout that maps several indices to one element.
    #[error("{op}: the output layout {layout} writes some elements twice; use a dense output")]
    OverlappingOutput {
        /// The operation.
        op: &'static str,
        /// A description of the layout.
        layout: String,
    },
    /// A text that names no data type.
    #[error("`{name}` is not a data type; expected f32, f64, f16, bf16, i8, u8, i32, i64 or bool")]
    UnknownDType {
        /// The text that was given.
        name: String,
    },
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::ShapeMismatch { .. }
            | Self::RankTooLarge { .. }
            | Self::AxisOutOfRange { .. }
            | Self::AxisRepeated { .. } => ErrorKind::Shape,
            Self::DTypeMismatch { .. } | Self::UnsupportedDType { .. } => ErrorKind::DType,
            Self::TooLarge { .. } => ErrorKind::OutOfMemory,
            Self::SliceOutOfRange { .. }
            | Self::OutOfBounds { .. }
            | Self::OverlappingOutput { .. }
            | Self::UnknownDType { .. } => ErrorKind::InvalidArgument,
        }
    }

    /// Two shapes that should be the same.
    pub fn unequal_shapes(op: &'static str, lhs: Shape, rhs: Shape) -> Self {
        Self::ShapeMismatch { op, lhs, rhs, hint: "give both the same shape" }
    }

    /// Two shapes that NumPy's rule does not broadcast.
    pub fn no_broadcast(op: &'static str, lhs: Shape, rhs: Shape) -> Self {
        Self::ShapeMismatch { op, lhs, rhs, hint: "make each pair of dimensions equal or 1" }
    }

    /// Two matrices, or batches of them, whose inner dimensions differ.
    pub fn no_product(op: &'static str, lhs: Shape, rhs: Shape) -> Self {
        let hint = "the last dimension of the first must equal the second-to-last of the second";
        Self::ShapeMismatch { op, lhs, rhs, hint }
    }
}
