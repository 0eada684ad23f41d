//! A decoder of LLaMA's structure, which language model engines read as GGUF.

use std::sync::Arc;

use polaris_tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::Ends;
use crate::export::{Value, Writer};
use crate::layers::{
    Dropout, Embedding, GroupedQueryAttention, Linear, RmsNorm, Rotary, SwiGlu, head_size,
};
use crate::{Error, Init, Layer, Module, Parts, Pass, Result};

/// A decoder that predicts the next token: RMS norms, rotary positions, grouped-query attention and SwiGLU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Llama {
    /// Blocks.
    pub layers: usize,
    /// Elements of a token.
    pub width: usize,
    /// Heads of attention.
    pub heads: usize,
    /// Heads of keys and values, which several heads share.
    pub kv_heads: usize,
    /// Elements between the linear layers of a feed-forward part.
    pub feed_forward: usize,
    /// The base of the angles of positions.
    pub rope_theta: f64,
    /// Whether the output uses the table of the embedding.
    pub tied: bool,
    /// The probability that an element is left out in training.
    pub dropout: f64,
}

impl Default for Llama {
    fn default() -> Self {
        Self {
            layers: 4,
            width: 128,
            heads: 4,
            kv_heads: 2,
            feed_forward: 384,
            rope_theta: 1e4,
            tied: true,
            dropout: 0.0,
        }
    }
}

/// How far embeddings spread at first.
const SPREAD: f64 = 0.02;

impl Llama {
    /// What keeps roots of mean squares from zero.
    pub const EPSILON: f64 = 1e-5;

    pub(super) fn build(&self, ends: &Ends, init: &mut Init) -> Result<Built> {
        let &[context] = &ends.input[..] else {
            let what = format!("a llama reads rows of tokens, not examples of {:?}", ends.input);
            return Err(Error::invalid(what));
        };
        if [context, self.width, self.layers, self.feed_forward].contains(&0) {
            let what = "a llama needs a context, width, feed_forward and layers of at least 1";
            return Err(Error::invalid(what));
        }
        let size = head_size(self.width, self.heads, self.kv_heads)?;
        let rotary = Arc::new(Rotary::new(size, self.rope_theta, init)?);
        let tokens = Embedding::new(ends.outputs, self.width, SPREAD, init)?;
        let block = |index| Ok((format!("blocks.{index}"), Block::new(self, &rotary, init)?));
        let blocks = (0..self.layers).map(block).collect::<Result<Vec<_>>>()?;
        Ok(Built {
            head: match self.tied {
                true => Linear::of(tokens.weight().clone(), None),
                false => Linear::new(self.width, ends.outputs, false, init)?,
            },
            tokens,
            dropout: Dropout::new(self.dropout)?,
            blocks,
            norm: RmsNorm::new(self.width, Self::EPSILON, init)?,
            tied: self.tied,
            context,
        })
    }
}

/// `x + attention(norm1(x))`, then `x + feed_forward(norm2(x))`.
#[derive(Debug)]
struct Block {
    norm1: RmsNorm,
    attention: GroupedQueryAttention,
    norm2: RmsNorm,
    feed_forward: SwiGlu,
    dropout: Dropout,
}

impl Block {
    fn new(model: &Llama, rotary: &Arc<Rotary>, init: &mut Init) -> Result<Self> {
        let Llama { width, heads, kv_heads, feed_forward, .. } = *model;
        Ok(Self {
            norm1: RmsNorm::new(width, Llama::EPSILON, init)?,
            attention: GroupedQueryAttention::new(width, heads, kv_heads, rotary, init)?,
            norm2: RmsNorm::new(width, Llama::EPSILON, init)?,
            feed_forward: SwiGlu::new(width, feed_forward, init)?,
            dropout: Dropout::new(model.dropout)?,
        })
    }
}

impl Layer for Block {
    fn visit(&self, parts: &mut Parts) {
        parts.layer("norm1", &self.norm1);
        parts.layer("attention", &self.attention);
        parts.layer("norm2", &self.norm2);
        parts.layer("feed_forward", &self.feed_forward);
    }
}

impl Module for Block {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let x = pass.cast(x)?;
        let seen = pass.apply("norm1", &self.norm1, &x)?;
        let seen = pass.apply("attention", &self.attention, &seen)?;
        let x = x.add(&self.dropout.forward(&seen, pass)?)?;
        let seen = pass.apply("norm2", &self.norm2, &x)?;
        let seen = pass.apply("feed_forward", &self.feed_forward, &seen)?;
        Ok(x.add(&self.dropout.forward(&seen, pass)?)?)
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let seen = graph.layer("norm1", &self.norm1, x)?;
        let seen = graph.layer("attention", &self.attention, &seen)?;
        let x = x.like(graph.node("Add", &[x.name(), seen.name()], &[]));
        let seen = graph.layer("norm2", &self.norm2, &x)?;
        let seen = graph.layer("feed_forward", &self.feed_forward, &seen)?;
        Ok(x.like(graph.node("Add", &[x.name(), seen.name()], &[])))
    }
}

/// The head whose weight is the table of the embedding, which names it.
struct Tied<'a>(&'a Linear);

impl Layer for Tied<'_> {
    fn visit(&self, parts: &mut Parts) {
        self.0.visit_product(parts);
    }
}

/// The model: from `[batch, tokens]` to the logits of each next token.
#[derive(Debug)]
pub(super) struct Built {
    tokens: Embedding,
    dropout: Dropout,
    /// With their names.
    blocks: Vec<(String, Block)>,
    norm: RmsNorm,
    head: Linear,
    tied: bool,
    context: usize,
}

impl Layer for Built {
    fn visit(&self, parts: &mut Parts) {
        parts.layer("token_embedding", &self.tokens);
        for (name, block) in &self.blocks {
            parts.layer(name, block);
        }
        parts.layer("norm", &self.norm);
        match self.tied {
            true => parts.layer("head", &Tied(&self.head)),
            false => parts.layer("head", &self.head),
        }
    }
}

impl Module for Built {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let &[_, tokens] = x.dims() else {
            return Err(Error::invalid(format!("{} is no shape of [batch, tokens]", x.shape())));
        };
        if tokens > self.context {
            let what = format!("{tokens} tokens are more than the context of {}", self.context);
            return Err(Error::invalid(what));
        }
        let embedded = pass.apply("token_embedding", &self.tokens, x)?;
        let mut x = self.dropout.forward(&embedded, pass)?;
        for (name, block) in &self.blocks {
            x = pass.apply(name, block, &x)?;
        }
        let x = pass.apply("norm", &self.norm, &x)?;
        pass.apply("head", &self.head, &x)
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let mut x = graph.layer("token_embedding", &self.tokens, x)?;
        for (name, block) in &self.blocks {
            x = graph.layer(name, block, &x)?;
        }
        let x = graph.layer("norm", &self.norm, &x)?;
        graph.layer("head", &self.head, &x)
    }
}
