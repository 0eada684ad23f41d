//! ONNX: its files, and what each of its operators means.
//!
//! A [`Model`] is read from bytes that may be hostile; its constants stay where they lie. [`interpret`]
//! evaluates it node by node in plain Rust, for every type that ONNX has. That is slow and right: it is
//! what operators fall back to that no device has, and what faster ways are compared with. Nothing here
//! knows a device.

#![forbid(unsafe_code)]

mod attribute;
pub mod conformance;
mod element;
mod error;
mod functions;
mod graph;
mod import;
pub mod infer;
mod interpret;
mod limits;
pub mod messages;
mod model;
mod narrow;
pub mod operators;
mod read;
mod room;
mod scan;
mod tensor;
mod ty;
mod validate;
mod value;

pub use attribute::{Attribute, Attributes};
pub use element::ElementType;
pub use error::{Error, Result};
pub use graph::{Capture, Graph, Node, ValueId, ValueSlot};
pub use interpret::{interpret, interpret_node};
pub use limits::{EnteredLimits, Limits, check_cancelled, is_cancellable, largest_tensor};
pub use model::{ExternalData, Model, NoExternalData};
pub use read::{read_tensor, read_value};
pub use tensor::{Plain, Tensor};
pub use ty::{Dim, Type};
pub use value::Value;
