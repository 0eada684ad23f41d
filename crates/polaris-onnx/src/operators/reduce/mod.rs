//! Many elements to few.

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[];
