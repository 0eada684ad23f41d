//! Sequences and optionals.

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[];
