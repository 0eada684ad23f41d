//! In-order queues of an OpenCL device.

use std::ptr;
use std::sync::{Arc, OnceLock};

use cl3::command_queue::{
    CL_QUEUE_PROFILING_ENABLE, create_command_queue, enqueue_barrier_with_wait_list,
    enqueue_copy_buffer, enqueue_fill_buffer, enqueue_marker_with_wait_list, enqueue_read_buffer,
    enqueue_write_buffer, flush, release_command_queue,
};
use cl3::types::{cl_command_queue, cl_context, cl_device_id, cl_event, cl_mem};

use crate::memory::DeviceMemory;
use crate::opencl::event::ClEvent;
use crate::opencl::failed;
use crate::opencl::kernel_times::{KernelTime, KernelTimes};
use crate::opencl::memory::{ClMemory, raw_memory};
use crate::opencl::staging::{Pinned, StagingPool};
use crate::opencl::transfer::PinnedDownload;
use crate::queue::{Event, MemoryRange, PendingDownload, Queue, QueueId, QueueOptions};
use crate::{DeviceId, Result};

/// How many counters a queue has for its kernels.
pub const COUNTERS: usize = 1024;

pub(super) struct ClQueue {
    id: QueueId,
    device: DeviceId,
    context: cl_context,
    unified_memory: bool,
    counters: OnceLock<ClMemory>,
    times: Option<KernelTimes>,
    /// Dropped before the queue it uses.
    pub(super) staging: Arc<StagingPool>,
    raw: RawQueue,
}

/// The handle alone, so that it is released after the staging memory that was mapped through it.
struct RawQueue(cl_command_queue);

impl Drop for RawQueue {
    fn drop(&mut self) {
        // SAFETY: this value owns one reference.
        let _ = unsafe { release_command_queue(self.0) };
    }
}

// SAFETY: OpenCL queues and contexts may be used from any thread.
unsafe impl Send for ClQueue {}
// SAFETY: as above; OpenCL synchronises enqueueing.
unsafe impl Sync for ClQueue {}

impl ClQueue {
    pub fn new(
        context: cl_context,
        raw_device: cl_device_id,
        device: DeviceId,
        unified_memory: bool,
        options: QueueOptions,
    ) -> Result<Self> {
        let properties = if options.profiling { CL_QUEUE_PROFILING_ENABLE } else { 0 };
        // The call that every version of OpenCL has.
        // SAFETY: context and device belong together and are alive.
        let raw = unsafe { create_command_queue(context, raw_device, properties) };
        let raw = RawQueue(raw.map_err(failed(device, "clCreateCommandQueue"))?);
        Ok(Self {
            id: QueueId::next(),
            device,
            context,
            unified_memory,
            counters: OnceLock::new(),
            times: options.kernel_times.then(KernelTimes::default),
            staging: Arc::default(),
            raw,
        })
    }

    /// Numbers through which the groups of one kernel find out which of them is the last. Each
    /// queue has its own and runs its kernels one after another, so no two of them count at once;
    /// each leaves zeros. One that fails midway may not, but then the driver fails everything that
    /// comes after it too. Made when they are first wanted, and too small for a budget.
    pub fn counters(&self) -> Result<cl_mem> {
        if let Some(counters) = self.counters.get() {
            return Ok(counters.raw());
        }
        let bytes = COUNTERS * size_of::<u32>();
        let fresh = ClMemory::new(self.context, self.device, bytes)?;
        self.fill(&[0; 4], MemoryRange { memory: &fresh, offset: 0, bytes })?;
        // Where another thread was faster, its counters were filled before they got here.
        Ok(self.counters.get_or_init(|| fresh).raw())
    }

    /// Where kernels' times are kept, if they are.
    pub fn times(&self) -> Option<&KernelTimes> {
        self.times.as_ref()
    }

    pub fn take_kernel_times(&self) -> Result<Vec<KernelTime>> {
        self.times.as_ref().map_or_else(|| Ok(Vec::new()), KernelTimes::take)
    }

    pub fn device(&self) -> DeviceId {
        self.device
    }

    pub fn context(&self) -> cl_context {
        self.context
    }

    pub fn raw(&self) -> cl_command_queue {
        self.raw.0
    }

    /// Wraps an event of a command that was just enqueued, and hands the command to the device.
    pub fn event(&self, raw: cl_event) -> Result<Event> {
        let event = Event::pending(ClEvent::new(raw, self.device, self.context));
        self.flush()?;
        Ok(event)
    }

    pub(super) fn pinned(&self, bytes: usize) -> Result<Pinned> {
        Pinned::new(self.context, self.raw(), self.device, bytes)
    }

    /// # Safety
    /// `target` must be valid for `bytes` until the event has completed.
    pub(super) unsafe fn read(
        &self,
        source: &dyn DeviceMemory,
        offset: usize,
        target: *mut u8,
        bytes: usize,
        blocking: bool,
    ) -> Result<cl_event> {
        // SAFETY: the range lies inside the memory by the queue's contract, the target by ours.
        let event = unsafe {
            enqueue_read_buffer(
                self.raw(),
                raw_memory(source),
                u32::from(blocking),
                offset,
                bytes,
                target.cast(),
                0,
                ptr::null(),
            )
        };
        event.map_err(failed(self.device, "clEnqueueReadBuffer"))
    }

    /// # Safety
    /// `source` must be valid for `bytes` until the event has completed.
    pub(super) unsafe fn write(
        &self,
        source: *const u8,
        target: &dyn DeviceMemory,
        offset: usize,
        bytes: usize,
        blocking: bool,
    ) -> Result<cl_event> {
        // SAFETY: the range lies inside the memory by the queue's contract, the source by ours.
        let event = unsafe {
            enqueue_write_buffer(
                self.raw(),
                raw_memory(target),
                u32::from(blocking),
                offset,
                bytes,
                source.cast(),
                0,
                ptr::null(),
            )
        };
        event.map_err(failed(self.device, "clEnqueueWriteBuffer"))
    }
}

impl Queue for ClQueue {
    fn id(&self) -> QueueId {
        self.id
    }

    fn upload(&self, source: &[u8], target: MemoryRange<'_>) -> Result<Event> {
        if self.unified_memory {
            // One copy by the host; a detour through pinned memory would be a second one.
            // SAFETY: the call is blocking, so the slice outlives the copy.
            let event = unsafe {
                self.write(source.as_ptr(), target.memory, target.offset, source.len(), true)?
            };
            return self.event(event);
        }
        self.upload_staged(source, target)
    }

    fn download(&self, source: MemoryRange<'_>, target: &mut [u8]) -> Result<()> {
        if self.unified_memory {
            // SAFETY: the call is blocking, so the slice outlives the copy.
            let event = unsafe {
                self.read(source.memory, source.offset, target.as_mut_ptr(), target.len(), true)?
            };
            return self.event(event)?.wait();
        }
        self.download_staged(source, target)
    }

    fn start_download(&self, source: MemoryRange<'_>) -> Result<PendingDownload> {
        let bytes = source.bytes;
        if bytes == 0 {
            return Ok(PendingDownload {
                event: Event::COMPLETE,
                collect: Box::new(|_| {}),
                bytes,
            });
        }
        let pinned = self.pinned(bytes)?;
        // SAFETY: the pinned memory lives in the closure, which is called after the event.
        let event = unsafe {
            let event = self.read(source.memory, source.offset, pinned.address(), bytes, false)?;
            self.event(event)?
        };
        let guard = PinnedDownload { pinned: Some(pinned), event: event.clone() };
        let collect = Box::new(move |target: &mut [u8]| drop(guard.copy_out(target)));
        Ok(PendingDownload { event, collect, bytes })
    }

    fn copy(&self, source: MemoryRange<'_>, target: MemoryRange<'_>) -> Result<Event> {
        // SAFETY: both ranges lie inside their memory by the queue's contract.
        let event = unsafe {
            enqueue_copy_buffer(
                self.raw(),
                raw_memory(source.memory),
                raw_memory(target.memory),
                source.offset,
                target.offset,
                source.bytes.min(target.bytes),
                0,
                ptr::null(),
            )
        };
        self.event(event.map_err(failed(self.device, "clEnqueueCopyBuffer"))?)
    }

    fn fill(&self, pattern: &[u8], target: MemoryRange<'_>) -> Result<Event> {
        // SAFETY: the range lies inside its memory; OpenCL copies the pattern before it returns.
        let event = unsafe {
            enqueue_fill_buffer(
                self.raw(),
                raw_memory(target.memory),
                pattern.as_ptr().cast(),
                pattern.len(),
                target.offset,
                target.bytes,
                0,
                ptr::null(),
            )
        };
        self.event(event.map_err(failed(self.device, "clEnqueueFillBuffer"))?)
    }

    fn record(&self) -> Result<Event> {
        // SAFETY: an empty wait list means everything enqueued before.
        let event = unsafe { enqueue_marker_with_wait_list(self.raw(), 0, ptr::null()) };
        self.event(event.map_err(failed(self.device, "clEnqueueMarkerWithWaitList"))?)
    }

    fn wait_for(&self, event: &Event) -> Result<()> {
        let Some(completion) = event.completion() else {
            return Ok(());
        };
        let same_context =
            completion.as_any().downcast_ref::<ClEvent>().filter(|e| e.is_of(self.context));
        let Some(event) = same_context else {
            // An event of another device means nothing to this driver.
            return event.wait();
        };
        // SAFETY: the list holds one live event of this context.
        let barrier = unsafe { enqueue_barrier_with_wait_list(self.raw(), 1, &event.raw()) };
        let barrier = barrier.map_err(failed(self.device, "clEnqueueBarrierWithWaitList"))?;
        drop(ClEvent::new(barrier, self.device, self.context));
        Ok(())
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn flush(&self) -> Result<()> {
        flush(self.raw()).map_err(failed(self.device, "clFlush"))
    }
}

impl std::fmt::Debug for ClQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClQueue({}, {:?})", self.device, self.id)
    }
}
