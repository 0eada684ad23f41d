//! Kernels and their launches: the one place that sets kernel arguments.

use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytemuck::Pod;
use cl3::kernel::{release_kernel, set_kernel_arg};
use cl3::types::{cl_event, cl_kernel, cl_mem};

use crate::opencl::failed;
use crate::opencl::memory::raw_memory;
use crate::opencl::program::Program;
use crate::opencl::queue::ClQueue;
use crate::queue::Event;
use crate::{Buffer, DeviceId, Error, Result};

/// A kernel of a built program.
pub struct Kernel {
    /// A kernel object holds its arguments, so one launch at a time may use it.
    raw: Mutex<RawKernel>,
    name: String,
    device: DeviceId,
    arguments: Option<u32>,
    program: Arc<Program>,
}

struct RawKernel(cl_kernel);

// SAFETY: a kernel object may be used from any thread, by one at a time: the mutex sees to that.
unsafe impl Send for RawKernel {}

impl Drop for RawKernel {
    fn drop(&mut self) {
        // SAFETY: this value owns one reference.
        let _ = unsafe { release_kernel(self.0) };
    }
}

impl Kernel {
    pub(super) fn new(
        raw: cl_kernel,
        name: String,
        device: DeviceId,
        arguments: Option<u32>,
        program: Arc<Program>,
    ) -> Self {
        Self { raw: Mutex::new(RawKernel(raw)), name, device, arguments, program }
    }

    /// Its program.
    pub(super) fn program(&self) -> &Program {
        &self.program
    }

    /// Its name in the source.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn launch<'a>(&'a self, queue: &'a ClQueue) -> Launch<'a> {
        Launch {
            kernel: self,
            raw: self.raw.lock().unwrap_or_else(PoisonError::into_inner),
            queue,
            next: 0,
            status: Ok(()),
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({})", self.name)
    }
}

/// A plain value that can be passed to a kernel. Not `bool` or `usize`: OpenCL forbids them.
pub trait KernelArgument: Pod {}

macro_rules! kernel_arguments {
    ($($type:ty),*) => {$( impl KernelArgument for $type {} )*};
}

kernel_arguments!(
    i8, u8, i32, u32, i64, u64, f32, f64, [u32; 4], [u32; 8], [u64; 4], [u64; 8], [f32; 4]
);

/// A launch in the making: arguments in the order of the kernel's parameters, then `run`.
#[must_use = "a launch does nothing until it is run"]
pub struct Launch<'a> {
    kernel: &'a Kernel,
    raw: MutexGuard<'a, RawKernel>,
    queue: &'a ClQueue,
    next: u32,
    /// The first failure; reported by `run`, so that arguments can be chained.
    status: Result<()>,
}

impl Launch<'_> {
    /// Passes a plain value.
    pub fn value<T: KernelArgument>(self, value: T) -> Self {
        // SAFETY: the pointer is to a value of exactly this size, read before the call returns.
        unsafe { self.set(size_of::<T>(), ptr::from_ref(&value).cast()) }
    }

    /// Passes a buffer from one of its elements on, as two arguments: its memory, and the index of
    /// that element in it as a `ulong`. (Sub-buffers would have to be aligned to what the device
    /// likes.)
    pub fn buffer(mut self, buffer: &Buffer, first: usize) -> Self {
        let context = buffer.device().as_opencl().map(|device| device.context());
        if context != Some(self.queue.context()) {
            let (lhs, rhs) = (self.kernel.device, buffer.device().id());
            self.status = self.status.and(Err(Error::mismatch("launch", lhs, rhs)));
            return self;
        }
        let block = buffer.block();
        block.used_on(crate::queue::Queue::id(self.queue));
        let memory = raw_memory(block.memory());
        // SAFETY: a memory object is passed by the address of its handle.
        let launch = unsafe { self.set(size_of::<cl_mem>(), ptr::from_ref(&memory).cast()) };
        launch.value((buffer.byte_offset() / buffer.dtype().size() + first) as u64)
    }

    /// Passes the queue's counters, as one argument: a pointer to [`COUNTERS`] `uint`s that are
    /// zero when the kernel begins, and that it leaves at zero for the next one.
    ///
    /// [`COUNTERS`]: crate::opencl::COUNTERS
    pub fn counters(mut self) -> Self {
        match self.queue.counters() {
            // SAFETY: a memory object is passed by the address of its handle.
            Ok(memory) => unsafe { self.set(size_of::<cl_mem>(), ptr::from_ref(&memory).cast()) },
            Err(error) => {
                self.status = self.status.and(Err(error));
                self
            }
        }
    }

    /// Passes local memory of this many bytes.
    pub fn local(self, bytes: usize) -> Self {
        // SAFETY: local memory is passed by its size alone.
        unsafe { self.set(bytes, ptr::null()) }
    }

    /// Enqueues the kernel. `global` is rounded up to a multiple of `local`: kernels check their
    /// bounds.
    ///
    /// # Errors
    /// `BadLaunch` if arguments are missing, or what OpenCL says.
    ///
    /// # Safety
    /// OpenCL checks nothing that a kernel does. With these arguments and sizes, the work-items
    /// - read and write only inside the buffers, local memory and counters they were given, rounding up
    ///   included, and no element that another one writes without synchronisation;
    /// - leave the counters at zero;
    /// - end.
    ///
    /// The kernel must be the one that is meant: see [`OpenClDevice::kernel`] for its key. Arguments must
    /// be of the types of its parameters.
    ///
    /// [`OpenClDevice::kernel`]: crate::opencl::OpenClDevice::kernel
    pub unsafe fn run(self, global: &[usize], local: &[usize]) -> Result<()> {
        let Some(times) = self.queue.times() else {
            return self.submit(global, local, ptr::null_mut());
        };
        let name = format!("{}: {}", self.kernel.program.name(), self.kernel.name);
        // SAFETY: as this function's caller says.
        times.add(name, unsafe { self.run_with_event(global, local) }?)
    }

    /// Enqueues the kernel and hands it to the device, with an event that marks its end.
    ///
    /// # Errors
    /// As for `run`.
    ///
    /// # Safety
    /// As for `run`.
    pub unsafe fn run_with_event(self, global: &[usize], local: &[usize]) -> Result<Event> {
        let mut event: cl_event = ptr::null_mut();
        let queue = self.queue;
        self.submit(global, local, &raw mut event)?;
        queue.event(event)
    }

    fn submit(self, global: &[usize], local: &[usize], event: *mut cl_event) -> Result<()> {
        self.status?;
        let bad = |why: String| Error::BadLaunch { kernel: self.kernel.name.clone(), why };
        if self.kernel.arguments.is_some_and(|count| count != self.next) {
            return Err(bad(format!(
                "{} arguments were given; {} expected",
                self.next,
                self.kernel.arguments.unwrap_or_default()
            )));
        }
        if global.len() != local.len() || !(1..=3).contains(&global.len()) || local.contains(&0) {
            return Err(bad(format!(
                "global size {global:?} and local size {local:?} do not match"
            )));
        }
        let mut rounded = [1; 3];
        for (rounded, (&global, &local)) in rounded.iter_mut().zip(global.iter().zip(local)) {
            *rounded = global.checked_next_multiple_of(local).ok_or_else(|| {
                bad(format!("global size {global} rounded up to a multiple of {local} overflows"))
            })?;
        }
        if rounded[..global.len()].contains(&0) {
            return Err(bad("the global size is zero".into()));
        }
        let library =
            cl3::load_library().as_ref().expect("OpenCL should be loaded while a device lives");
        // Without an event where none is wanted: making one costs time on every driver.
        // All arguments are set (counted above, sized by OpenCL itself), queue and kernel are
        // alive, and the sizes are valid for the given number of dimensions.
        let status = library.clEnqueueNDRangeKernel(
            self.queue.raw(),
            self.raw.0,
            global.len() as u32,
            ptr::null(),
            rounded.as_ptr(),
            local.as_ptr(),
            0,
            ptr::null(),
            event,
        );
        match status {
            Some(0) => Ok(()),
            // Work dimension, work-group size, work-item size, global offset and size.
            Some(-63 | -56 | -55 | -54 | -53) => Err(bad(format!(
                "the device cannot run global size {global:?} in work-groups of {local:?}"
            ))),
            Some(code) => Err(failed(self.kernel.device, "clEnqueueNDRangeKernel")(code)),
            None => Err(bad("the OpenCL library lacks clEnqueueNDRangeKernel".into())),
        }
    }

    /// # Safety
    /// `value` must point to `bytes` readable bytes, or be null for local memory.
    unsafe fn set(mut self, bytes: usize, value: *const c_void) -> Self {
        if self.status.is_ok() {
            // SAFETY: the kernel is alive and ours alone; the value is as the caller says.
            let set = unsafe { set_kernel_arg(self.raw.0, self.next, bytes, value) };
            if let Err(code) = set {
                let why = format!("argument {}: {}", self.next, cl3::error_codes::error_text(code));
                self.status = Err(Error::BadLaunch { kernel: self.kernel.name.clone(), why });
            }
        }
        self.next += 1;
        self
    }
}
