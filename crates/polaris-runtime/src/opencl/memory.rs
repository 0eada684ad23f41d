//! Memory objects of OpenCL.

use std::any::Any;
use std::ptr;

use cl3::memory::{CL_MEM_READ_WRITE, create_buffer, release_mem_object};
use cl3::types::{cl_context, cl_mem};

use crate::memory::DeviceMemory;
use crate::opencl::failed;
use crate::{DeviceId, Result};

/// One `cl_mem`, released when dropped; OpenCL keeps it alive until its last command has ended.
pub(super) struct ClMemory {
    raw: cl_mem,
}

// SAFETY: OpenCL memory objects may be used from any thread.
unsafe impl Send for ClMemory {}
// SAFETY: as above; the type offers no unsynchronised access.
unsafe impl Sync for ClMemory {}

impl ClMemory {
    pub fn new(context: cl_context, device: DeviceId, bytes: usize) -> Result<Self> {
        // Kernels read bytes by the words that they lie in.
        let bytes = bytes.next_multiple_of(size_of::<u32>());
        // SAFETY: the context is alive for as long as its device; no host pointer is given.
        let raw = unsafe { create_buffer(context, CL_MEM_READ_WRITE, bytes, ptr::null_mut()) };
        Ok(Self { raw: raw.map_err(failed(device, "clCreateBuffer"))? })
    }

    pub fn raw(&self) -> cl_mem {
        self.raw
    }
}

impl Drop for ClMemory {
    fn drop(&mut self) {
        // SAFETY: this value owns one reference. A failure at release leaves nothing to do.
        let _ = unsafe { release_mem_object(self.raw) };
    }
}

impl DeviceMemory for ClMemory {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The memory object behind a block of an OpenCL device.
pub(super) fn raw_memory(memory: &dyn DeviceMemory) -> cl_mem {
    let memory = memory.as_any().downcast_ref::<ClMemory>();
    memory.expect("an OpenCL queue should be given memory of its device").raw()
}
