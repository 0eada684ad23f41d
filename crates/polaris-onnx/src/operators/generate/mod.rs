//! Tensors made from little: constants, ranges, random numbers.

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[];
