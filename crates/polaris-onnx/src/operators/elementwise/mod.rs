//! Functions of single elements.

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[];
