//! Imported models: ONNX files, a plan for each shape of their inputs, and its execution on the CPU or an OpenCL
//! device.
//!
//! A [`Session`] holds a model. When it runs, it makes a [`plan::Plan`] for the shapes of the inputs, or
//! takes one that it made before: a flat list of instructions, each with a device, operands and their
//! places in memory. Operators that devices have are lowered to operations of `polaris-ops`; all others
//! are interpreted by `polaris-onnx` on the host, and the plan says so.

#![forbid(unsafe_code)]

mod build;
pub mod conformance;
pub mod cost;
mod error;
mod file;
mod info;
pub mod passes;
pub mod place;
pub mod plan;
mod session;
mod side;

pub use error::{Error, Result, UnsupportedOperator};
pub use file::{OpenedModel, open_model};
pub use info::{Information, OperatorCount, Work, information};
pub use passes::{MOVING, Passes};
pub use polaris_runtime::Mode;
pub use session::{Fallback, Options, Profile, ProfileRow, RunOptions, Session, SessionValue};
