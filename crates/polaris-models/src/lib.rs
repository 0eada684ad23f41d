//! Models together with what surrounds them: their files, their tokenizer, the batches they are given, and what is
//! made of their outputs.
//!
//! [`embed`] turns text into vectors with encoders of the BERT family, from ONNX or from safetensors; [`bert`]
//! writes the graph of such an encoder from its weights. [`classify`] is for classifiers of images, and [`inputs`]
//! makes tensors for any model.

#![forbid(unsafe_code)]

pub mod bert;
pub mod classify;
pub mod embed;
mod error;
pub mod inputs;

pub use error::{Error, Result};
