//! Attention and positions.

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[];

/// Of the domain ai.onnx.preview.
pub(super) const PREVIEW: &[(&str, Operator)] = &[];
