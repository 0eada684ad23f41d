//! A context, a queue and buffers of our own on an OpenCL device, for libraries that want them.

use std::ffi::c_void;
use std::ptr;

use cl3::command_queue::{
    create_command_queue, enqueue_read_buffer, finish, release_command_queue,
};
use cl3::context::{create_context, release_context};
use cl3::device::{CL_DEVICE_NAME, CL_DEVICE_TYPE_ALL, get_device_data, get_device_ids};
use cl3::event::release_event;
use cl3::memory::{CL_MEM_COPY_HOST_PTR, CL_MEM_READ_WRITE, create_buffer, release_mem_object};
use cl3::platform::{CL_PLATFORM_NAME, get_platform_data, get_platform_ids};
use cl3::types::{CL_TRUE, cl_command_queue, cl_context, cl_device_id, cl_mem};

use crate::{Error, OpenClTarget, Result};

/// A context with one in-order queue.
pub struct ClSession {
    context: cl_context,
    queue: cl_command_queue,
}

impl ClSession {
    pub fn new(target: &OpenClTarget) -> Result<Self> {
        let device = find_device(target)?;
        let context = create_context(&[device], ptr::null(), None, ptr::null_mut())
            .map_err(failed("clCreateContext"))?;
        // SAFETY: the context was made for this device.
        let queue = unsafe { create_command_queue(context, device, 0) };
        let queue = queue.map_err(|code| {
            // SAFETY: nothing else holds the context.
            let _ = unsafe { release_context(context) };
            failed("clCreateCommandQueue")(code)
        })?;
        Ok(Self { context, queue })
    }

    pub fn queue(&self) -> cl_command_queue {
        self.queue
    }

    /// A buffer with these bytes.
    pub fn buffer(&self, bytes: &[u8]) -> Result<ClBuffer<'_>> {
        let flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
        let source = bytes.as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: OpenCL only reads the source, as long as it says, before it returns.
        let raw = unsafe { create_buffer(self.context, flags, bytes.len(), source) };
        let raw = raw.map_err(failed("clCreateBuffer"))?;
        Ok(ClBuffer { raw, bytes: bytes.len(), session: self })
    }

    pub fn finish(&self) -> Result<()> {
        finish(self.queue).map_err(failed("clFinish"))
    }
}

impl Drop for ClSession {
    fn drop(&mut self) {
        // SAFETY: this value owns one reference to each, and buffers borrow it.
        unsafe {
            let _ = release_command_queue(self.queue);
            let _ = release_context(self.context);
        }
    }
}

/// Memory of the device.
pub struct ClBuffer<'a> {
    raw: cl_mem,
    bytes: usize,
    session: &'a ClSession,
}

impl ClBuffer<'_> {
    pub fn raw(&self) -> cl_mem {
        self.raw
    }

    /// What it holds, after everything that was enqueued.
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0u8; self.bytes];
        let target = bytes.as_mut_ptr().cast();
        let queue = self.session.queue;
        // SAFETY: the target has the buffer's size, and the call waits until it is filled.
        let event = unsafe {
            enqueue_read_buffer(queue, self.raw, CL_TRUE, 0, self.bytes, target, 0, ptr::null())
        };
        let event = event.map_err(failed("clEnqueueReadBuffer"))?;
        // SAFETY: this function owns the event.
        let _ = unsafe { release_event(event) };
        Ok(bytes)
    }
}

impl Drop for ClBuffer<'_> {
    fn drop(&mut self) {
        // SAFETY: this value owns one reference; OpenCL keeps the memory while commands use it.
        let _ = unsafe { release_mem_object(self.raw) };
    }
}

/// The device of that platform and name, found in the order in which OpenCL lists them.
fn find_device(target: &OpenClTarget) -> Result<cl_device_id> {
    let missing = || Error::NoDevice { name: target.name.clone() };
    if !cl3::is_opencl_runtime_available() {
        return Err(missing());
    }
    let platforms = get_platform_ids().map_err(failed("clGetPlatformIDs"))?;
    let of_name = |&platform: &cl3::types::cl_platform_id| {
        get_platform_data(platform, CL_PLATFORM_NAME)
            .is_ok_and(|name| text(&name) == target.platform)
    };
    let is_wanted = |device: &cl_device_id| {
        get_device_data(*device, CL_DEVICE_NAME).is_ok_and(|name| {
            let name = text(&name);
            target.name == name || target.name.ends_with(&format!("({name})"))
        })
    };
    let devices = platforms.into_iter().filter(of_name).flat_map(|platform| {
        // A platform without devices answers with an error.
        get_device_ids(platform, CL_DEVICE_TYPE_ALL).unwrap_or_default()
    });
    devices.filter(is_wanted).nth(target.nth).ok_or_else(missing)
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

fn failed(call: &'static str) -> impl Fn(i32) -> Error {
    move |code| {
        let meaning = cl3::error_codes::error_text(code).to_owned();
        Error::CallFailed { call, code, meaning }
    }
}
