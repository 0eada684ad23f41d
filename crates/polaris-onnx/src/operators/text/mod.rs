//! Strings.

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[];
