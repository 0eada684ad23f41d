//! Models together with what surrounds them: their files, their tokenizer, the batches they are given, and what is
//! made of their outputs.
//!
//! [`embed`] turns text into vectors with encoders of the BERT family, from ONNX or from safetensors; [`bert`]
//! writes the graph of such an encoder from its weights.

#![forbid(unsafe_code)]

pub mod bert;
pub mod embed;
mod error;

pub use error::{Error, Result};
