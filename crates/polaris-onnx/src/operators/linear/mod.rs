//! Matrix products, of integers too, and determinants.

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[];
