//! Errors of shapes, layouts and data types.

use crate::{DType, Shape};

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What can be wrong with a shape, a layout or a data type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two shapes cannot be combined.
    #[error("{op}: shapes {lhs} and {rhs} do not fit; {hint}")]
    ShapeMismatch {
        /// The operation that was asked for.
        op: &'static str,
        /// The first shape.
        lhs: Shape,
        /// The second shape.
        rhs: Shape,
        /// What would fit.
        hint: &'static str,
    },
    /// Two data types cannot be combined.
    #[error("{op}: data types {lhs} and {rhs} do not fit; cast one of them first")]
    DTypeMismatch {
        /// The operation that was asked for.
        op: &'static str,
        /// The first data type.
        lhs: DType,
        /// The second data type.
        rhs: DType,
    },
    /// The data type has no meaning for this operation.
    #[error("{op} is not defined for {dtype}; {hint}")]
    UnsupportedDType {
        /// The operation that was asked for.
        op: &'static str,
        /// The data type it was asked for.
        dtype: DType,
        /// What to do instead.
        hint: &'static str,
    },
    /// More dimensions than Polaris handles.
    #[error(
        "a shape of {rank} dimensions was asked for; at most {} are supported",
        crate::MAX_RANK
    )]
    RankTooLarge {
        /// The number of dimensions asked for.
        rank: usize,
    },
    /// The number of elements or bytes does not fit the address space.
    #[error("{what} overflows the address space; use smaller dimensions")]
    TooLarge {
        /// The shape or layout, in words.
        what: String,
    },
    /// An axis that the shape does not have.
    #[error("{op}: axis {axis} does not exist in a shape of {rank} dimensions")]
    AxisOutOfRange {
        /// The operation that was asked for.
        op: &'static str,
        /// The axis asked for.
        axis: usize,
        /// How many dimensions there are.
        rank: usize,
    },
    /// An axis that is named twice.
    #[error("{op}: axis {axis} is named twice; name each axis once")]
    AxisRepeated {
        /// The operation that was asked for.
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
    #[error("{op}: the layout reaches element {reaches}, the buffer holds {holds}")]
    OutOfBounds {
        /// The operation that was asked for.
        op: &'static str,
        /// One past the last element the layout touches.
        reaches: usize,
        /// How many elements there are.
        holds: usize,
    },
    /// An output layout that maps several indices to one element.
    #[error("{op}: the output layout {layout} writes some elements twice; use a dense output")]
    OverlappingOutput {
        /// The operation that was asked for.
        op: &'static str,
        /// The layout, in words.
        layout: String,
    },
    /// A text that names no data type.
    #[error("`{name}` is not a data type; known are f32, f64, f16, bf16, i8, u8, i32, i64, bool")]
    UnknownDType {
        /// What was given.
        name: String,
    },
}

impl Error {
    /// Two shapes that should be the same.
    pub fn unequal_shapes(op: &'static str, lhs: Shape, rhs: Shape) -> Self {
        Self::ShapeMismatch { op, lhs, rhs, hint: "give both the same shape" }
    }

    /// Two shapes that NumPy's rule does not broadcast.
    pub fn no_broadcast(op: &'static str, lhs: Shape, rhs: Shape) -> Self {
        Self::ShapeMismatch { op, lhs, rhs, hint: "make each pair of dimensions equal or 1" }
    }

    /// Two matrices, or batches of them, without a product.
    pub fn no_product(op: &'static str, lhs: Shape, rhs: Shape) -> Self {
        let hint = "the last dimension of the first must equal the last but one of the second";
        Self::ShapeMismatch { op, lhs, rhs, hint }
    }
}
