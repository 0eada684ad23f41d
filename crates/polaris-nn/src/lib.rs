//! Layers, optimisers and a training loop over tensors with gradients.
//!
//! A layer is a struct of [`Parameter`]s and other layers; [`Layer::visit`] names them, as PyTorch's
//! state dict does, and [`Module::forward`] computes. Nothing is registered behind the reader's back.
//! [`train::Trainer`] trains any module, with checkpoints and a log; a loop can also be written by hand:
//!
//! ```
//! use polaris_core::DType;
//! use polaris_nn::{Init, Module, Pass, layers::Linear, optim::{Adam, Optimizer}, parameters};
//! use polaris_runtime::{Runtime, RuntimeOptions};
//! use polaris_tensor::Tensor;
//!
//! let runtime = Runtime::discover(&RuntimeOptions::default())?;
//! let layer = Linear::new(3, 1, true, &mut Init::new(runtime.cpu(), 7))?;
//! let mut optimizer = Adam::adam_w(parameters(&layer), 0.1)?;
//! let x = Tensor::randn(runtime.cpu(), &[16, 3], DType::F32, 1)?;
//! let wanted = x.sum_axes(&[1], true)?;
//! let mut losses = Vec::new();
//! for step in 0..100 {
//!     let loss = layer.forward(&x, &Pass::training(step))?.mse_loss(&wanted)?;
//!     loss.backward()?;
//!     optimizer.step()?;
//!     losses.push(loss.item()?);
//! }
//! assert!(losses[99] < 0.01 * losses[0]);
//! # Ok::<(), polaris_nn::Error>(())
//! ```

#![forbid(unsafe_code)]

mod checksum;
mod error;
pub mod export;
mod init;
pub mod layers;
pub mod models;
mod module;
pub mod optim;
mod parameter;
mod pass;
pub mod quantize;
pub mod sample;
mod scaling;
pub mod tensors_file;
pub mod train;

pub use error::{Error, Result};
pub use init::Init;
pub use module::{Layer, Module, Parts, load_state, parameters, state};
pub use parameter::{Parameter, Transform};
pub use pass::{Observer, Pass};
pub use scaling::LossScale;
