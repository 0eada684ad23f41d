//! Fourier transforms and windows.

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[];
