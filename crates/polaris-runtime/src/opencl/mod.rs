//! OpenCL devices. The library is loaded when it is first needed; where it is absent, or a driver
//! is broken, there are fewer devices and a reason that can be shown.

mod bare;
mod cache;
mod device;
mod event;
mod icd;
mod kernel_times;
mod launch;
mod library;
mod memory;
mod numbering;
mod probe;
mod program;
mod query;
mod queue;
mod shared_object;
mod staging;
mod transfer;

pub use bare::BareLaunch;
pub use cache::ProgramCache;
pub use device::OpenClDevice;
pub use icd::IcdFinding;
pub use kernel_times::KernelTime;
pub use launch::{Kernel, KernelArgument, Launch};
pub(crate) use library::discover;
pub use library::{OpenClReport, UnusableDevice};
pub use program::{Define, Defines, EXACT_DIVISION, Program, ProgramCounts, ProgramSource};
pub use queue::COUNTERS;

use crate::memory::LiveBlocks;
use crate::{DeviceId, Error};

/// Turns OpenCL's error code into ours.
fn failed(device: DeviceId, call: &'static str) -> impl Fn(i32) -> Error {
    move |code| match code {
        // CL_MEM_OBJECT_ALLOCATION_FAILURE, and CL_OUT_OF_HOST_MEMORY, which some drivers use for
        // the device's memory too. The allocator fills in the figures.
        -4 | -6 => Error::OutOfMemory {
            device,
            asked: 0,
            used: 0,
            available: 0,
            live: LiveBlocks::default(),
        },
        _ => Error::OpenCl { device, call, name: cl3::error_codes::error_text(code), code },
    }
}
