//! Models that a configuration describes.

mod cnn;
mod gpt;
mod mlp;

pub use cnn::Cnn;
pub use gpt::Gpt;
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
        })
    }
}
