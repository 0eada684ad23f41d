//! A block of a transformer, normalised before each of its two parts.

use polaris_tensor::Tensor;

use super::{Activation, Dropout, LayerNorm, Linear, MultiheadAttention};
use crate::export::{Value, Writer};
use crate::{Init, Layer, Module, Parts, Pass, Result};

/// The sizes of a transformer's block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TransformerShape {
    /// Elements of a token.
    pub width: usize,
    /// Heads that the width is cut into.
    pub heads: usize,
    /// Elements between the two linear layers.
    pub hidden: usize,
    /// Whether tokens see only those before them.
    pub causal: bool,
    /// The probability that an element of either part is left out in training.
    pub dropout: f64,
}

/// `x + attention(norm1(x))`, then `x + linear2(gelu(linear1(norm2(x))))`: the parameters have the names
/// of PyTorch's `nn.TransformerEncoderLayer` with `norm_first`.
#[derive(Debug)]
pub struct TransformerBlock {
    norm1: LayerNorm,
    attention: MultiheadAttention,
    norm2: LayerNorm,
    linear1: Linear,
    linear2: Linear,
    dropout: Dropout,
}

impl TransformerBlock {
    /// A block as PyTorch begins it.
    ///
    /// # Errors
    /// If the sizes do not fit, or there is no room.
    pub fn new(shape: &TransformerShape, init: &mut Init) -> Result<Self> {
        let TransformerShape { width, heads, hidden, causal, dropout } = *shape;
        Ok(Self {
            norm1: LayerNorm::new(width, init)?,
            attention: MultiheadAttention::new(width, heads, causal, init)?,
            norm2: LayerNorm::new(width, init)?,
            linear1: Linear::new(width, hidden, true, init)?,
            linear2: Linear::new(hidden, width, true, init)?,
            dropout: Dropout::new(dropout)?,
        })
    }
}

impl Layer for TransformerBlock {
    fn visit(&self, parts: &mut Parts) {
        parts.layer("self_attn", &self.attention);
        parts.layer("linear1", &self.linear1);
        parts.layer("linear2", &self.linear2);
        parts.layer("norm1", &self.norm1);
        parts.layer("norm2", &self.norm2);
    }
}

impl Module for TransformerBlock {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let x = pass.cast(x)?;
        let seen = pass.apply("norm1", &self.norm1, &x)?;
        let seen = pass.apply("self_attn", &self.attention, &seen)?;
        let x = x.add(&self.dropout.forward(&seen, pass)?)?;
        let seen = pass.apply("norm2", &self.norm2, &x)?;
        let seen = pass.apply("linear1", &self.linear1, &seen)?;
        let seen = Activation::Gelu.forward(&seen, pass)?;
        let seen = pass.apply("linear2", &self.linear2, &seen)?;
        Ok(x.add(&self.dropout.forward(&seen, pass)?)?)
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let seen = graph.layer("norm1", &self.norm1, x)?;
        let seen = graph.layer("self_attn", &self.attention, &seen)?;
        let x = x.like(graph.node("Add", &[x.name(), seen.name()], &[]));
        let seen = graph.layer("norm2", &self.norm2, &x)?;
        let seen = graph.layer("linear1", &self.linear1, &seen)?;
        let seen = graph.layer("gelu", &Activation::Gelu, &seen)?;
        let seen = graph.layer("linear2", &self.linear2, &seen)?;
        Ok(x.like(graph.node("Add", &[x.name(), seen.name()], &[])))
    }
}
