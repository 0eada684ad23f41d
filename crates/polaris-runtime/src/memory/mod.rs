//! Device memory: raw blocks, their accounting, and typed buffers.

mod allocator;
mod block;
mod buffer;
mod host;
mod last_resort;
mod live;
#[cfg(target_os = "linux")]
mod pages;

use std::any::Any;

pub use allocator::{Allocator, MemoryUse};
pub(crate) use block::Block;
pub use buffer::Buffer;
pub(crate) use host::{HostMemory, host_start};
pub use host::{HostMut, HostOperands, HostRef};
pub use last_resort::LastResort;
pub use live::{Live, LiveBlocks};

/// One allocation of a backend. Freed when dropped.
pub trait DeviceMemory: Send + Sync {
    /// The backend's own type.
    fn as_any(&self) -> &dyn Any;
}
