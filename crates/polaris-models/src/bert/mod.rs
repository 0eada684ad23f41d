//! Encoders of the BERT family as graphs of ONNX, from their configuration and weights.
//!
//! The graph is the plain pattern that exporters write, in standard operators: whatever a session does for models
//! from files it does for these too.

mod graph;
mod weights;

use std::path::Path;

use polaris_onnx::Model;
use serde::Deserialize;

pub use weights::Weights;

use crate::error::LARGEST_JSON;
use crate::{Error, Result};

/// What `config.json` says of an encoder.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Config {
    /// The kind of model: `bert`, `roberta`, `xlm-roberta` or `camembert`.
    pub model_type: String,
    /// Numbers of a token's vector.
    pub hidden_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Heads of attention in each.
    pub num_attention_heads: usize,
    /// Numbers between the two products of a layer's end.
    pub intermediate_size: usize,
    /// Rows of the table of positions.
    pub max_position_embeddings: usize,
    /// What follows the first of these products.
    #[serde(default = "gelu")]
    pub hidden_act: String,
    /// What keeps a variance from being zero.
    #[serde(default = "epsilon")]
    pub layer_norm_eps: f64,
    /// How positions are told apart.
    #[serde(default = "absolute")]
    pub position_embedding_type: String,
    /// The token that fills up shorter texts.
    #[serde(default)]
    pub pad_token_id: Option<usize>,
}

fn gelu() -> String {
    "gelu".to_owned()
}

fn epsilon() -> f64 {
    1e-12
}

fn absolute() -> String {
    "absolute".to_owned()
}

/// Lengths beyond these are mistakes or malice.
const MOST: usize = 1 << 24;

impl Config {
    /// Reads a `config.json`.
    ///
    /// # Errors
    /// If it cannot be read, or describes a model of another family.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes =
            polaris_files::read(path, LARGEST_JSON).map_err(|error| Error::io(path, error))?;
        let wrong = |why: String| Error::file(path, why);
        let kind: serde_json::Value = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(format!("not a valid configuration: {error}")))?;
        let kind = kind["model_type"].as_str().unwrap_or("unknown").to_owned();
        if !["bert", "roberta", "xlm-roberta", "camembert"].contains(&kind.as_str()) {
            return Err(wrong(format!(
                "a model of type `{kind}` cannot be built from its weights, only bert, roberta, xlm-roberta \
                 and camembert; export it as ONNX and give the .onnx file"
            )));
        }
        let config: Self = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(format!("not the configuration of an encoder: {error}")))?;
        config.check().map_err(wrong)?;
        Ok(config)
    }

    fn check(&self) -> std::result::Result<(), String> {
        let (hidden, heads) = (self.hidden_size, self.num_attention_heads);
        for (name, value) in [
            ("hidden_size", hidden),
            ("num_attention_heads", heads),
            ("intermediate_size", self.intermediate_size),
            ("max_position_embeddings", self.max_position_embeddings),
        ] {
            if value == 0 || value > MOST {
                return Err(format!("{name} is {value}"));
            }
        }
        if hidden % heads != 0 {
            return Err(format!("hidden_size {hidden} is not a multiple of {heads} heads"));
        }
        if self.num_hidden_layers > 1000 {
            return Err(format!("{} layers are too many", self.num_hidden_layers));
        }
        if self.position_embedding_type != "absolute" {
            let found = &self.position_embedding_type;
            return Err(format!(
                "position embeddings of type `{found}` are not supported; expected absolute"
            ));
        }
        if self.first_position() >= self.max_position_embeddings {
            return Err("its table of positions has no row for the first token".to_owned());
        }
        graph::activation(&self.hidden_act).map(|_| ())
    }

    /// The row of the first token in the table of positions. RoBERTa and its kin keep those up to the padding's
    /// free.
    fn first_position(&self) -> usize {
        match self.model_type.as_str() {
            "bert" => 0,
            _ => self.pad_token_id.unwrap_or(1).saturating_add(1),
        }
    }

    /// The most tokens of a text.
    pub fn most_tokens(&self) -> usize {
        self.max_position_embeddings - self.first_position()
    }
}

/// The encoder as a model: `input_ids`, `attention_mask` and `token_type_ids` in, `last_hidden_state` out.
///
/// # Errors
/// If a weight is missing or has another shape than the configuration says.
pub fn model(config: &Config, weights: &Weights) -> Result<Model> {
    Ok(graph::encoder(config, weights)?.build()?)
}
