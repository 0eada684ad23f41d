//! Making models smaller.
//!
//! [`Recipe`] names mixtures of formats, as files are named after them. [`Plan::new`] says what becomes of each tensor of a
//! GGUF file, and [`Plan::write`] writes the file: all of it or nothing, some megabytes at a time. It returns the error of
//! each tensor. With [`Plan::gptq`] before it, the activations of a text decide how matrices are rounded.
//!
//! [`hessian`] collects second moments of inputs, [`integer`] has methods for matrices of integers, [`BlockGptq`] is GPTQ in block
//! formats, [`rotation`] and [`migration`] make activations fit for few bits.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use polaris_gguf::Gguf;
//! use polaris_optimize::{Plan, PlanOptions, Recipe};
//! use polaris_runtime::{MappedFile, Runtime, RuntimeOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let path = Path::new("model-f16.gguf");
//! let gguf = Gguf::open(path, |path| MappedFile::open(path).map(|file| file.bytes()))?;
//! let plan = Plan::new(&gguf, &PlanOptions { recipe: Recipe::Q4_K_M, ..PlanOptions::default() })?;
//! println!("{} bytes instead of {}", plan.bytes(), plan.bytes_before());
//! let runtime = Runtime::discover(&RuntimeOptions::default())?;
//! let cpu = runtime.cpu().as_cpu().expect("the CPU is one");
//! let written = plan.write(Path::new("model-q4.gguf"), cpu, &mut |_| {}, &|| false)?;
//! for tensor in &written {
//!     println!("{} {:?}", tensor.name, tensor.relative_error);
//! }
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod allocate;
mod block_gptq;
mod calibrated;
pub mod calibration;
mod descent;
mod error;
mod feedback;
mod fnv;
pub mod hessian;
mod importance;
pub mod integer;
pub mod migration;
pub mod mixed;
pub mod onnx;
mod parallel;
mod plan;
mod recipe;
pub mod rotation;
pub mod sensitivity;
pub mod speed;
mod write;

pub use block_gptq::{BlockGptq, Costs, Encoded};
pub use calibrated::{Calibrated, GptqOptions, Prepared, Stage};
pub use descent::DescentOptions;
pub use error::{Error, Result};
pub use importance::{CalibrationText, ColumnSums, Importance};
pub use plan::{Override, Plan, PlanOptions, PlannedTensor};
pub use recipe::Recipe;
pub use write::{Done, WrittenTensor};
