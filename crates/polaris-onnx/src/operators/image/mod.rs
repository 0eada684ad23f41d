//! Images: resizing, sampling, regions, decoding.

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[];
