//! Elements found or placed by index.

mod find;
mod gather;
mod scatter;
mod sort;

pub(super) use gather::take;

use super::Operator;
use crate::{Error, Result};

pub(super) const OPERATORS: &[(&str, Operator)] = &[
    ("Compress", find::compress),
    ("Gather", gather::gather),
    ("GatherElements", gather::gather_elements),
    ("GatherND", gather::gather_nd),
    ("NonZero", find::non_zero),
    ("OneHot", find::one_hot),
    ("Scatter", scatter::scatter_elements),
    ("ScatterElements", scatter::scatter_elements),
    ("ScatterND", scatter::scatter_nd),
    ("TensorScatter", scatter::tensor_scatter),
    ("TopK", sort::top_k),
    ("Unique", sort::unique),
];

/// An index that may count from the end.
pub(super) fn index(value: i64, length: usize) -> Result<usize> {
    let from_start =
        if value < 0 { value.checked_add_unsigned(length as u64) } else { Some(value) };
    from_start
        .and_then(|value| usize::try_from(value).ok())
        .filter(|&value| value < length)
        .ok_or_else(|| Error::operands(format!("the index {value} is not in a length of {length}")))
}
