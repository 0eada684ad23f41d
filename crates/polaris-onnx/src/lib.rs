//! ONNX: its file format, type inference, and a reference interpreter.
//!
//! A [`Model`] is read from bytes that may be hostile; its constants stay in place. [`GraphBuilder`] makes one in code,
//! and [`Model::save`] writes it. [`interpret`] evaluates it node by node in plain Rust, for every type that ONNX has.
//! That is slow and exact: it is the fallback for operators that no device supports, and the reference for faster
//! implementations. Nothing here knows a device.

#![forbid(unsafe_code)]

mod attribute;
mod builder;
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
mod upgrade;
mod validate;
mod value;
mod write;

pub use attribute::{Attribute, Attributes};
pub use builder::{GraphBuilder, NodeBuilder, Operand};
pub use element::ElementType;
pub use error::{Error, Result};
pub use graph::{Capture, Graph, Node, ValueId, ValueSlot};
pub use interpret::{interpret, interpret_node};
pub use limits::{EnteredLimits, Limits, check_cancelled, is_cancellable, largest_tensor};
pub use model::{ExternalData, Model, NoExternalData};
pub use operators::{Window, windows};
pub use read::{read_tensor, read_value};
pub use tensor::{Plain, Tensor};
pub use ty::{Dim, Type};
pub use value::Value;
