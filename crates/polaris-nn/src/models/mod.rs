//! Models that a configuration describes.

mod cnn;
mod gpt;
mod llama;
mod mlp;

pub use cnn::Cnn;
pub use gpt::Gpt;
pub use llama::Llama;
pub use mlp::Mlp;

use serde::{Deserialize, Serialize};

use crate::{Error, Init, Module, Result};

/// A model, as a configuration describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Model {
    /// Linear layers with an activation between.
    Mlp(Mlp),
    /// Convolutions, pooling and linear layers.
    Cnn(Cnn),
    /// A transformer that predicts the next token.
    Gpt(Gpt),
    /// A decoder of LLaMA's structure.
    Llama(Llama),
}

/// What a model gets and gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends {
    /// The dimensions of an example; a number of tokens for text.
    pub input: Vec<usize>,
    /// Classes, numbers, or words of the vocabulary.
    pub outputs: usize,
}

impl Model {
    /// Whether its examples are rows of tokens.
    pub fn reads_tokens(&self) -> bool {
        matches!(self, Self::Gpt(_) | Self::Llama(_))
    }

    /// Parameters that the model has at least, if they can be counted at all.
    pub fn least_parameters(&self, ends: &Ends) -> Option<usize> {
        let product = |numbers: &[usize]| {
            numbers.iter().try_fold(1usize, |product, &number| product.checked_mul(number))
        };
        let chain = |first: usize, widths: &[usize]| {
            let mut total = 0usize;
            let mut before = first;
            for &width in widths.iter().chain([&ends.outputs]) {
                total = total.checked_add(product(&[before, width])?)?;
                before = width;
            }
            Some(total)
        };
        match self {
            Self::Mlp(mlp) => chain(product(&ends.input)?, &mlp.hidden),
            Self::Cnn(cnn) => {
                let mut total = chain(0, &cnn.hidden)?;
                let mut before = *ends.input.first()?;
                for &channels in &cnn.channels {
                    let weight = product(&[before, channels, cnn.kernel, cnn.kernel])?;
                    total = total.checked_add(weight)?;
                    before = channels;
                }
                // Sizes of images are computed with while it is built.
                product(&[product(&ends.input)?, before])?;
                cnn.padding.checked_mul(2)?;
                Some(total)
            }
            Self::Gpt(gpt) => {
                let blocks = product(&[12, gpt.layers, gpt.width, gpt.width])?;
                let tables = ends.outputs.checked_mul(2)?.checked_add(*ends.input.first()?)?;
                blocks.checked_add(product(&[tables, gpt.width])?)?.checked_add(gpt.layers)
            }
            Self::Llama(llama) => {
                // Queries, outputs and the feed-forward part; tied tables are there once.
                let hidden = llama.feed_forward.checked_mul(3)?;
                let rows = llama.width.checked_mul(2)?.checked_add(hidden)?;
                let blocks = product(&[llama.layers, llama.width, rows])?;
                let table = product(&[ends.outputs, llama.width])?;
                blocks.checked_add(table)?.checked_add(llama.layers)
            }
        }
    }

    /// The model between its ends, with parameters that begin as PyTorch's.
    ///
    /// # Errors
    /// If the sizes do not fit, or there is no room.
    pub fn build(&self, ends: &Ends, init: &mut Init) -> Result<Box<dyn Module>> {
        if ends.outputs == 0 {
            return Err(Error::invalid("a model needs at least one output; are there classes?"));
        }
        Ok(match self {
            Self::Mlp(mlp) => Box::new(mlp.build(ends, init)?),
            Self::Cnn(cnn) => Box::new(cnn.build(ends, init)?),
            Self::Gpt(gpt) => Box::new(gpt.build(ends, init)?),
            Self::Llama(llama) => Box::new(llama.build(ends, init)?),
        })
    }
}
