//! A launch with plain OpenCL calls, as a C program would do it: the baseline for the overhead of Polaris.

use std::ptr;
use std::sync::Arc;

use cl3::command_queue::{create_command_queue, finish, release_command_queue};
use cl3::kernel::{create_kernel, release_kernel};
use cl3::types::{cl_command_queue, cl_kernel, cl_mem};

use crate::opencl::memory::raw_memory;
use crate::opencl::program::{Program, ProgramSource};
use crate::opencl::{OpenClDevice, failed};
use crate::{Buffer, Device, DeviceId, Result};

/// A kernel and a queue of its own.
pub struct BareLaunch {
    queue: cl_command_queue,
    kernel: cl_kernel,
    device: DeviceId,
    _program: Arc<Program>,
}

impl BareLaunch {
    pub(crate) fn new(device: &OpenClDevice, source: &ProgramSource, entry: &str) -> Result<Self> {
        let id = device.id();
        let (raw_device, context, program) = device.raw_parts(source)?;
        let entry = std::ffi::CString::new(entry).unwrap_or_default();
        let kernel = create_kernel(program.raw(), &entry).map_err(failed(id, "clCreateKernel"))?;
        // SAFETY: context and device belong together and are alive.
        let queue = unsafe { create_command_queue(context, raw_device, 0) };
        let queue = queue.map_err(failed(id, "clCreateCommandQueue"))?;
        Ok(Self { queue, kernel, device: id, _program: program })
    }

    /// Sets a count, a flag and four arrays, and enqueues.
    pub(crate) fn enqueue(
        &self,
        count: u64,
        arrays: [&Buffer; 4],
        work_group: usize,
    ) -> Result<()> {
        let library =
            cl3::load_library().as_ref().expect("OpenCL should be loaded while a device lives");
        let set = |index: u32, size: usize, value: *const u8| {
            library.clSetKernelArg(self.kernel, index, size, value.cast())
        };
        let (flag, first) = (0u32, 0u64);
        let mut status = set(0, 8, ptr::from_ref(&count).cast());
        status = status.min(set(1, 4, ptr::from_ref(&flag).cast()));
        for (i, array) in arrays.into_iter().enumerate() {
            let memory: cl_mem = raw_memory(array.block().memory());
            status = status.min(set(
                2 + 2 * i as u32,
                size_of::<cl_mem>(),
                ptr::from_ref(&memory).cast(),
            ));
            status = status.min(set(3 + 2 * i as u32, 8, ptr::from_ref(&first).cast()));
        }
        let (queue, kernel) = (self.queue, self.kernel);
        let none = ptr::null();
        let enqueued = library.clEnqueueNDRangeKernel(
            queue,
            kernel,
            1,
            none,
            &work_group,
            &work_group,
            0,
            ptr::null(),
            ptr::null_mut(),
        );
        match status.min(enqueued) {
            Some(0) => Ok(()),
            code => Err(failed(self.device, "a bare launch")(code.unwrap_or(-1))),
        }
    }

    pub(crate) fn finish(&self) -> Result<()> {
        finish(self.queue).map_err(failed(self.device, "clFinish"))
    }
}

impl Drop for BareLaunch {
    fn drop(&mut self) {
        // SAFETY: this value owns one reference to each.
        unsafe {
            let _ = release_kernel(self.kernel);
            let _ = release_command_queue(self.queue);
        }
    }
}
