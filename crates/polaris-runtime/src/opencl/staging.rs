//! Pinned host memory through which bytes travel to and from a device with discrete memory: drivers copy from
//! ordinary memory at a fraction of the bus's speed, and only while the caller waits.

use std::ptr;
use std::sync::{Mutex, PoisonError};

use cl3::command_queue::{
    enqueue_map_buffer, enqueue_unmap_mem_object, release_command_queue, retain_command_queue,
};
use cl3::memory::{
    CL_MAP_READ, CL_MAP_WRITE, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE, create_buffer,
    release_mem_object,
};
use cl3::types::{cl_command_queue, cl_context, cl_mem};

use crate::opencl::failed;
use crate::queue::Event;
use crate::{DeviceId, Result};

/// Large enough to reach the bus's speed, small enough that copying into some overlaps with the
/// transfer of others.
pub(super) const CHUNK: usize = 1 << 20;

/// Enough to keep the bus busy while each thread fills one.
const MOST_CHUNKS: usize = 16;

/// Pinned memory that is mapped for as long as it lives.
pub(super) struct Pinned {
    memory: cl_mem,
    queue: cl_command_queue,
    address: *mut u8,
}

// SAFETY: the mapped memory belongs to this value; OpenCL objects may be used from any thread.
unsafe impl Send for Pinned {}

impl Pinned {
    pub fn new(
        context: cl_context,
        queue: cl_command_queue,
        device: DeviceId,
        bytes: usize,
    ) -> Result<Self> {
        let flags = CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR;
        // SAFETY: context and queue are alive for as long as their owner, who owns this too.
        let memory = unsafe { create_buffer(context, flags, bytes, ptr::null_mut()) }
            .map_err(failed(device, "clCreateBuffer (pinned)"))?;
        let mut address = ptr::null_mut();
        let map = CL_MAP_READ | CL_MAP_WRITE;
        // SAFETY: the whole of a buffer that was just made is mapped, blocking.
        let mapped = unsafe {
            enqueue_map_buffer(queue, memory, 1, map, 0, bytes, &mut address, 0, ptr::null())
        };
        match mapped {
            Ok(event) => {
                // SAFETY: the event is ours and not used again.
                let _ = unsafe { cl3::event::release_event(event) };
                // A download may outlive its queue, and unmapping needs it.
                // SAFETY: the queue is alive; the reference is given back on drop.
                let _ = unsafe { retain_command_queue(queue) };
                Ok(Self { memory, queue, address: address.cast() })
            }
            Err(code) => {
                // SAFETY: the buffer is ours and not used again.
                let _ = unsafe { release_mem_object(memory) };
                Err(failed(device, "clEnqueueMapBuffer")(code))
            }
        }
    }

    pub fn address(&self) -> *mut u8 {
        self.address
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: the memory is mapped at this address and no transfer uses it any more: whoever
        // held this waited for its event.
        unsafe {
            let unmapped = enqueue_unmap_mem_object(
                self.queue,
                self.memory,
                self.address.cast(),
                0,
                ptr::null(),
            );
            if let Ok(event) = unmapped {
                let _ = cl3::event::release_event(event);
            }
            let _ = release_mem_object(self.memory);
            let _ = release_command_queue(self.queue);
        }
    }
}

/// Chunks of pinned memory, each with the transfer that uses it.
#[derive(Default)]
pub(super) struct StagingPool {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// About the oldest transfer first.
    chunks: Vec<(Pinned, Event)>,
    made: usize,
}

impl StagingPool {
    /// A chunk that no transfer uses: waits for the oldest one if all are busy.
    pub fn take(&self, make: impl FnOnce() -> Result<Pinned>) -> Result<Pinned> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // One that failed is done too; whoever takes it hears of it, once.
        let oldest_is_done =
            state.chunks.first().is_some_and(|(_, event)| event.is_complete().unwrap_or(true));
        if !oldest_is_done && (state.made < MOST_CHUNKS || state.chunks.is_empty()) {
            state.made += 1;
            drop(state);
            return make().inspect_err(|_| {
                self.state.lock().unwrap_or_else(PoisonError::into_inner).made -= 1;
            });
        }
        let (pinned, event) = state.chunks.remove(0);
        drop(state);
        event.wait()?;
        Ok(pinned)
    }

    /// Gives a chunk back; it is free again when the event has completed.
    pub fn put(&self, pinned: Pinned, busy_until: Event) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.chunks.push((pinned, busy_until));
    }
}

impl Drop for StagingPool {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (_, event) in &state.chunks {
            let _ = event.wait();
        }
    }
}
