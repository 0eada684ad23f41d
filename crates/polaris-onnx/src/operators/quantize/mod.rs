//! Between numbers and their quantised forms.

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[];
