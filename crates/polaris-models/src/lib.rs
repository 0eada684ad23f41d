//! Imported models with their surroundings: files, tokenizers, batches and postprocessing.
//!
//! [`embed`] turns text into vectors with encoders of the BERT family, from ONNX or from safetensors; [`bert`]
//! writes the graph of such an encoder from its weights. [`classify`] is for classifiers of images, [`inputs`]
//! makes tensors for any model, and [`samples`] those of a data set.

#![forbid(unsafe_code)]

#[cfg(feature = "text")]
pub mod bert;
#[cfg(feature = "image")]
pub mod classify;
#[cfg(feature = "text")]
pub mod embed;
mod error;
pub mod inputs;
pub mod samples;

pub use error::{Error, Result};
