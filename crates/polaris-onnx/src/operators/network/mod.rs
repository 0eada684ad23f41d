//! Layers of networks: convolution, pooling, normalisation, recurrence.

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[];
