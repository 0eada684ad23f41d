//! Elements found or placed by index.

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[];
