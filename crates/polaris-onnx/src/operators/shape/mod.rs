//! Operators that move elements without computing.

mod columns;
mod forms;
pub(super) mod grid;
pub(super) mod join;
mod order;
mod pad;
mod repeat;
mod slice;

use super::{Call, Operator};
use crate::{Error, Result};

pub(super) const OPERATORS: &[(&str, Operator)] = &[
    ("CenterCropPad", pad::center_crop_pad),
    ("Col2Im", columns::col2im),
    ("Concat", join::concat),
    ("DepthToSpace", order::depth_to_space),
    ("Expand", repeat::expand),
    ("Flatten", forms::flatten),
    ("Pad", pad::pad),
    ("Reshape", forms::reshape),
    ("ReverseSequence", order::reverse_sequence),
    ("Shape", forms::shape),
    ("Size", forms::size),
    ("Slice", slice::slice),
    ("SpaceToDepth", order::space_to_depth),
    ("Split", join::split),
    ("Squeeze", forms::squeeze),
    ("Tile", repeat::tile),
    ("Transpose", order::transpose),
    ("Trilu", order::trilu),
    ("Unsqueeze", forms::unsqueeze),
];

/// Integers that old versions have as an attribute and new ones as an operand.
pub(super) fn numbers(call: &Call<'_>, name: &str, operand: usize) -> Result<Option<Vec<i64>>> {
    match call.attributes().ints(name)? {
        Some(values) => Ok(Some(values.to_vec())),
        None => call.optional(operand)?.map(|tensor| tensor.to_i64()).transpose(),
    }
}

/// A length that a user gave.
pub(super) fn length(value: i64) -> Result<usize> {
    usize::try_from(value).map_err(|_| Error::operands(format!("{value} is not a valid length")))
}
