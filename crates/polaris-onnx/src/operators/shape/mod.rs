//! Elements moved, none computed.

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[];
