//! Losses and optimisers.

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[];

/// Of the domain ai.onnx.preview.training.
pub(super) const TRAINING: &[(&str, Operator)] = &[];
