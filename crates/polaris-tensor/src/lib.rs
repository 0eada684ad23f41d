//! Tensors with gradients, on the CPU and on OpenCL devices.
//!
//! A [`Tensor`] is an immutable array; its methods are named as in PyTorch and return new tensors.
//! What is computed from a tensor that requires a gradient remembers how, and
//! [`backward`](Tensor::backward) leads from a result to the gradients of everything it was made of.
//!
//! ```
//! use polaris_runtime::{Runtime, RuntimeOptions};
//! use polaris_tensor::Tensor;
//!
//! let runtime = Runtime::discover(&RuntimeOptions::default())?;
//! let x = Tensor::from_slice(runtime.cpu(), &[3], &[1.0f32, 2.0, 3.0])?.requires_grad()?;
//! let loss = x.square()?.sum()?;
//! loss.backward()?;
//! let gradient = x.grad().expect("a gradient should have arrived");
//! assert_eq!(gradient.to_vec::<f32>()?, [2.0, 4.0, 6.0]);
//! # Ok::<(), polaris_tensor::Error>(())
//! ```
//!
//! Tensors of different devices or types do not mix: [`Tensor::to_device`] and
//! [`Tensor::to_dtype`] move and convert them, in sight of the reader.

#![forbid(unsafe_code)]

mod axis;
mod backward;
mod checkpoint;
mod display;
mod error;
mod function;
mod gradient_check;
mod mode;
mod node;
mod operations;
mod saved;
mod tensor;

pub use axis::Axis;
pub use backward::gradients;
pub use checkpoint::checkpoint;
pub use error::{Error, Result};
pub use function::{Context, Function, apply};
pub use gradient_check::{GradientCheck, check_gradients};
pub use mode::{is_recording, no_grad};
pub use saved::Saved;
pub use tensor::Tensor;
