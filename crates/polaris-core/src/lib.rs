//! The vocabulary every Polaris crate shares: data types, shapes, memory layouts and the
//! errors that come from combining them. No device, no kernel and no I/O lives here.

#![forbid(unsafe_code)]

mod cancel;
mod collapse;
mod dtype;
mod error;
mod layout;
mod shape;

pub use cancel::CancellationToken;
pub use collapse::Collapsed;
pub use dtype::{Bool, DType, Element};
pub use error::{Error, Result};
pub use half::{bf16, f16};
pub use layout::Layout;
pub use shape::{MAX_RANK, Shape};
