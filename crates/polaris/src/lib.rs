//! AI and scientific compute on the GPU you already own: the public face of Polaris.
//!
//! [`Tensor`] computes, with gradients, on any [`Device`]; [`Session`] runs ONNX models; [`nn`] trains.
//!
//! ```
//! use polaris::{Device, Tensor};
//!
//! let device = Device::best()?;
//! let x = Tensor::from_slice(&device, &[2, 3], &[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0])?;
//! let sums = x.square()?.sum_axes(&[-1], false)?;
//! assert_eq!(sums.to_vec::<f32>()?, [5.0, 50.0]);
//! println!("{sums}");
//! # Ok::<(), polaris::Error>(())
//! ```
//!
//! # Features
//!
//! | Feature | Brings |
//! |---|---|
//! | `onnx` | [`Session`], [`graph`], [`onnx`] |
//! | `train` | [`nn`], [`data`] |
//! | `text` | tokenizers, [`models`]: text to vectors |
//! | `image` | images as inputs and as data sets |
//! | `llm` | [`llm`]: language models from GGUF files and folders of Hugging Face; [`optimize`]: making them smaller; [`gguf`] |
//! | `tools` | [`bench`](mod@bench), [`check`], [`tuner`] |
//!
//! All are on by default. Without any of them there are devices, tensors with gradients, and all operations.
//!
//! # Errors
//!
//! Every crate has an error of its own, and all of them become an [`Error`] with `?`. Its [`kind`](Error::kind) is
//! what a program decides by.

#![forbid(unsafe_code)]

mod device;
mod error;
#[cfg(feature = "onnx")]
mod session;

pub use device::{Device, runtime, set_runtime};
pub use error::{Cause, Error, Result};
#[cfg(feature = "onnx")]
pub use session::{Outputs, Session, SessionBuilder};

pub use polaris_core::{
    Bool, CancellationToken, DType, Element, ErrorKind, Layout, MAX_RANK, Progress, Shape, bf16,
    f16, printable, printable_lines,
};
pub use polaris_runtime::{
    Buffer, DeviceExt, DeviceId, DeviceName, DeviceRef, MemoryLimit, Mode, Runtime, RuntimeOptions,
};
pub use polaris_tensor::{Axis, Tensor, no_grad};

#[cfg(feature = "tools")]
pub use polaris_bench as bench;
pub use polaris_core as core;
#[cfg(feature = "train")]
pub use polaris_data as data;
pub use polaris_files as files;
#[cfg(feature = "llm")]
pub use polaris_gguf as gguf;
#[cfg(feature = "onnx")]
pub use polaris_graph as graph;
#[cfg(feature = "llm")]
pub use polaris_llm as llm;
#[cfg(any(feature = "text", feature = "image"))]
pub use polaris_models as models;
#[cfg(feature = "train")]
pub use polaris_nn as nn;
#[cfg(feature = "onnx")]
pub use polaris_onnx as onnx;
pub use polaris_ops as ops;
#[cfg(feature = "llm")]
pub use polaris_optimize as optimize;
pub use polaris_runtime as runtime;
pub use polaris_tensor as tensor;
#[cfg(feature = "tools")]
pub use polaris_testkit as check;
#[cfg(feature = "tools")]
pub use polaris_tuner as tuner;

/// The pages of the documentation, whose examples are tested as they stand there.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/embedding.md")]
    struct Embedding;
    #[doc = include_str!("../../../docs/library.md")]
    struct Library;
    #[doc = include_str!("../../../docs/llm.md")]
    struct LanguageModels;
    #[doc = include_str!("../../../docs/onnx.md")]
    struct Onnx;
    #[doc = include_str!("../../../docs/quantization.md")]
    struct Quantization;
    #[doc = include_str!("../../../docs/tensors.md")]
    struct Tensors;
    #[doc = include_str!("../../../docs/training.md")]
    struct Training;
}
