//! Devices, memory, queues and programs: the one place that talks to OpenCL and owns the CPU's
//! threads.
//!
//! ```
//! use polaris_runtime::{DeviceExt, Runtime, RuntimeOptions};
//!
//! let runtime = Runtime::discover(&RuntimeOptions::default())?;
//! for device in runtime.devices() {
//!     let buffer = device.upload(&[1.0f32, 2.0, 3.0])?;
//!     assert_eq!(buffer.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
//! }
//! # Ok::<(), polaris_runtime::Error>(())
//! ```

pub mod cpu;
mod cures;
mod device;
mod error;
mod exit;
pub mod hardware;
pub mod machine;
mod mapped;
pub mod measure;
mod memory;
mod mode;
pub mod opencl;
mod queue;
mod runtime;
mod text;

pub use device::{
    Capabilities, Device, DeviceExt, DeviceId, DeviceInfo, DeviceKind, DeviceName, DeviceRef,
};
pub use error::{Error, Result};
pub use exit::exit_without_handlers;
pub use mapped::MappedFile;
pub use memory::{
    Allocator, Buffer, DeviceMemory, HostMut, HostOperands, HostRef, LastResort, Live, LiveBlocks,
    MemoryUse,
};
pub use mode::Mode;
pub use queue::{Event, MemoryRange, PendingDownload, Queue, QueueId, QueueOptions, Timestamps};
pub use runtime::{MemoryLimit, Runtime, RuntimeOptions};
pub use text::{Bytes, parse_bytes};
