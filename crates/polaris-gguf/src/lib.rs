//! GGUF, the file format of llama.cpp: metadata and tensors, many of them quantised in blocks.
//!
//! [`Gguf`] reads files of version 2 and 3 that may be hostile; tensors stay where they lie, so that a mapped file costs
//! only the pages that are read. The caller brings the bytes, since mapping a file needs unsafe code and this crate has
//! none: what was checked is then also what is read, from one open file. [`Writer`] writes files of version 3.
//! [`dequantize`] and [`quantize`] are plain Rust and give the bits of the Python package `gguf`; the formats of blocks
//! are those of `polaris-blocks`.
//!
//! ```
//! use bytes::Bytes;
//! use polaris_gguf::{Gguf, TensorType, Writer, quantize};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.gguf");
//! let weights: Vec<f32> = (0..64).map(|i| i as f32 / 64.0 - 0.5).collect();
//! let mut writer = Writer::new();
//! writer.set("general.architecture", "llama")?;
//! writer.set("llama.block_count", 1u32)?;
//! writer.set("tokenizer.ggml.tokens", &["<s>", "hello"][..])?;
//! writer.tensor("output.weight", &[2, 32], TensorType::Q8_0, quantize(TensorType::Q8_0, &weights)?)?;
//! writer.write(&path)?;
//!
//! // With `polaris_runtime::MappedFile` nothing is copied: `|path| MappedFile::open(path).map(|file| file.bytes())`.
//! let gguf = Gguf::open(&path, |path| polaris_files::read(path, 1 << 30).map(Bytes::from))?;
//! assert_eq!(gguf.metadata().require::<u32>("llama.block_count")?, 1);
//! let tensor = gguf.tensor("output.weight")?;
//! assert_eq!((tensor.ty(), tensor.shape().dims()), (TensorType::Q8_0, &[2, 32][..]));
//! let read = tensor.to_f32()?;
//! assert!(weights.iter().zip(&read).all(|(a, b)| (a - b).abs() < 0.003));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod convert;
mod cursor;
mod error;
mod file;
mod gguf;
mod metadata;
mod quantise;
mod tensor;
mod types;
mod value;
mod write;

pub use convert::{FromValue, ToMetadata};
pub use error::{Error, Result};
pub use gguf::Gguf;
pub use metadata::{Metadata, PerLayer};
pub use polaris_blocks::Block;
pub use quantise::{dequantize, quantize};
pub use tensor::Tensor;
pub use types::TensorType;
pub use value::{Array, Value, ValueType};
pub use write::Writer;
