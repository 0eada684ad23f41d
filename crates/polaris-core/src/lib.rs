//! The vocabulary every Polaris crate shares: data types, shapes, memory layouts, the
//! errors that come from combining them, text that is safe to print, cancellation and progress of long work, and
//! random numbers. No device, no kernel and no I/O lives here.

#![forbid(unsafe_code)]

mod cancel;
mod collapse;
mod dtype;
mod error;
mod kind;
mod layout;
mod printable;
mod progress;
pub mod random;
mod shape;

pub use cancel::CancellationToken;
pub use collapse::Collapsed;
pub use dtype::{Bool, DType, Element};
pub use error::{Error, Result};
pub use half::{bf16, f16};
pub use kind::ErrorKind;
pub use layout::Layout;
pub use printable::{printable, printable_lines};
pub use progress::Progress;
pub use shape::{MAX_RANK, Shape};
