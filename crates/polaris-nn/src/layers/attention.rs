//! Tokens that look at each other.

use polaris_ops::Attention;
use polaris_tensor::Tensor;

use super::Linear;
use crate::{Error, Init, Layer, Module, Parameter, Parts, Pass, Result};

/// Self-attention with several heads over `[batch, tokens, width]`. Queries, keys and values come
/// from one product; its parameters are named as PyTorch's `nn.MultiheadAttention` names them.
#[derive(Debug)]
pub struct MultiheadAttention {
    in_weight: Parameter,
    in_bias: Parameter,
    out: Linear,
    heads: usize,
    causal: bool,
}

impl MultiheadAttention {
    /// A layer as PyTorch begins it. In a causal one, tokens see only those before them.
    ///
    /// # Errors
    /// If the width cannot be cut into heads, or there is no room.
    pub fn new(width: usize, heads: usize, causal: bool, init: &mut Init) -> Result<Self> {
        if heads == 0 || !width.is_multiple_of(heads) {
            return Err(Error::invalid(format!(
                "a width of {width} cannot be cut into {heads} heads"
            )));
        }
        let in_weight = init.xavier(&[3 * width, width], width, 3 * width)?;
        let in_bias = init.constant(&[3 * width], 0.0)?;
        let out_weight = init.kaiming(&[width, width], width)?;
        let out = Linear::of(out_weight, Some(init.constant(&[width], 0.0)?));
        Ok(Self { in_weight, in_bias, out, heads, causal })
    }
}

impl Layer for MultiheadAttention {
    fn visit(&self, parts: &mut Parts) {
        parts.parameter("in_proj_weight", &self.in_weight);
        parts.parameter("in_proj_bias", &self.in_bias);
        parts.layer("out_proj", &self.out);
    }
}

impl Module for MultiheadAttention {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let (weight, bias) = (self.in_weight.value(pass)?, self.in_bias.value(pass)?);
        let all = pass.cast(x)?.linear(&weight, Some(&bias))?;
        let problem = Attention { causal: self.causal, ..Attention::default() };
        let attended = all.self_attention(self.heads, None, &problem)?;
        pass.apply("out_proj", &self.out, &attended)
    }
}
