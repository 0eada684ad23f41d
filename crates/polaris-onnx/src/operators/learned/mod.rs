//! Operators of the domain ai.onnx.ml.

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[];
