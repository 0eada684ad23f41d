//! Attention and positions.

mod flex;
mod heads;
mod linear;
mod mask;
mod rotary;
mod scaled;

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[
    ("Attention", scaled::attention),
    ("LinearAttention", linear::linear_attention),
    ("RotaryEmbedding", rotary::rotary_embedding),
];

/// Of the domain ai.onnx.preview.
pub(super) const PREVIEW: &[(&str, Operator)] = &[("FlexAttention", flex::flex_attention)];
