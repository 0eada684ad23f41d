//! AI and scientific compute on the GPU you already own: the public face of Polaris.
//!
//! ```
//! use polaris::ops::{Array, Reduction, Unary, elementwise, reduce};
//! use polaris::{Runtime, RuntimeOptions};
//!
//! // The CPU is always there; OpenCL devices are where drivers are.
//! let runtime = Runtime::discover(&RuntimeOptions::default())?;
//! for device in runtime.devices() {
//!     let x = Array::from_slice(device, &[2, 3], &[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0])?;
//!     let squares = elementwise::unary(Unary::Square, &x)?;
//!     let sums = reduce::reduce(Reduction::Sum, &squares, &[1])?;
//!     assert_eq!(sums.to_vec::<f32>()?, [5.0, 50.0]);
//! }
//! # Ok::<(), polaris::ops::Error>(())
//! ```

#![forbid(unsafe_code)]

pub use polaris_core::{
    Bool, CancellationToken, DType, Element, Layout, MAX_RANK, Progress, Shape, bf16, f16,
    printable, printable_lines,
};
pub use polaris_data as data;
pub use polaris_files as files;
pub use polaris_graph as graph;
pub use polaris_models as models;
pub use polaris_nn as nn;
pub use polaris_onnx as onnx;
pub use polaris_ops as ops;
pub use polaris_runtime as runtime;
pub use polaris_runtime::{
    Buffer, Device, DeviceExt, DeviceId, DeviceName, DeviceRef, MemoryLimit, Runtime,
    RuntimeOptions,
};
pub use polaris_tensor as tensor;

/// The examples of the page on tensors.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tensors.md")]
pub struct Tensors;

/// The examples of the page on training.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/training.md")]
pub struct Training;

/// The examples of the page on ONNX models.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/onnx.md")]
pub struct Onnx;

/// The examples of the page on text to vectors.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
pub struct Embedding;

/// The examples of the README, which are tested as they stand there.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
