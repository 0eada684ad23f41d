//! A transformer that predicts the next token.

use polaris_tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::Ends;
use crate::export::{Value, Writer};
use crate::layers::{Dropout, Embedding, LayerNorm, Linear, TransformerBlock, TransformerShape};
use crate::{Error, Init, Layer, Module, Parts, Pass, Result};

/// A transformer that predicts the next token, from all tokens before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gpt {
    /// Blocks.
    pub layers: usize,
    /// Elements of a token.
    pub width: usize,
    /// Heads of attention.
    pub heads: usize,
    /// The probability that an element is left out in training.
    pub dropout: f64,
}

impl Default for Gpt {
    fn default() -> Self {
        Self { layers: 4, width: 128, heads: 4, dropout: 0.0 }
    }
}

/// How far embeddings spread at first.
const SPREAD: f64 = 0.02;

impl Gpt {
    pub(super) fn build(&self, ends: &Ends, init: &mut Init) -> Result<Built> {
        let &[context] = &ends.input[..] else {
            let what = format!("a gpt reads rows of tokens, not examples of {:?}", ends.input);
            return Err(Error::invalid(what));
        };
        if context == 0 || self.width == 0 {
            return Err(Error::invalid("a gpt needs a context and a width of at least 1"));
        }
        let shape = TransformerShape {
            width: self.width,
            heads: self.heads,
            hidden: 4 * self.width,
            causal: true,
            dropout: self.dropout,
        };
        let tokens = Embedding::new(ends.outputs, self.width, SPREAD, init)?;
        let positions = Embedding::new(context, self.width, SPREAD, init)?;
        let block = |index| Ok((format!("blocks.{index}"), TransformerBlock::new(&shape, init)?));
        let blocks = (0..self.layers).map(block).collect::<Result<Vec<_>>>()?;
        Ok(Built {
            tokens,
            positions,
            dropout: Dropout::new(self.dropout)?,
            blocks,
            norm: LayerNorm::new(self.width, init)?,
            head: Linear::new(self.width, ends.outputs, false, init)?,
            context,
        })
    }
}

/// The model: from `[batch, tokens]` to the logits of each next token.
#[derive(Debug)]
pub(super) struct Built {
    tokens: Embedding,
    positions: Embedding,
    dropout: Dropout,
    /// With their names.
    blocks: Vec<(String, TransformerBlock)>,
    norm: LayerNorm,
    head: Linear,
    context: usize,
}

impl Layer for Built {
    fn visit(&self, parts: &mut Parts) {
        parts.layer("token_embedding", &self.tokens);
        parts.layer("position_embedding", &self.positions);
        for (name, block) in &self.blocks {
            parts.layer(name, block);
        }
        parts.layer("norm", &self.norm);
        parts.layer("head", &self.head);
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
        let positions = self.positions.weight().value(pass)?.narrow(0, 0..tokens)?;
        let mut x = self.dropout.forward(&embedded.add(&positions)?, pass)?;
        for (name, block) in &self.blocks {
            x = pass.apply(name, block, &x)?;
        }
        let x = pass.apply("norm", &self.norm, &x)?;
        pass.apply("head", &self.head, &x)
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let embedded = graph.layer("token_embedding", &self.tokens, x)?;
        let positions = graph.parameter("position_embedding.weight", self.positions.weight())?;
        let begin = graph.integers(&[0]);
        let axis = [("start", 1.into()), ("end", 2.into())];
        let end = graph.node("Shape", &[x.name()], &axis);
        let positions = graph.node("Slice", &[&positions, &begin, &end], &[]);
        let mut x = embedded.like(graph.node("Add", &[embedded.name(), &positions], &[]));
        for (name, block) in &self.blocks {
            x = graph.layer(name, block, &x)?;
        }
        let x = graph.layer("norm", &self.norm, &x)?;
        graph.layer("head", &self.head, &x)
    }
}
