//! A block of device memory with its way home, and who is using it from the host.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

use crate::memory::DeviceMemory;
use crate::queue::{Queue, QueueId};
use crate::{DeviceRef, Error, Result};

/// Memory that several buffers may share. Goes back to the allocator when the last one is gone.
pub(crate) struct Block {
    memory: Option<Box<dyn DeviceMemory>>,
    size: usize,
    device: DeviceRef,
    queue: Arc<dyn Queue>,
    /// Used on a queue other than its own: the allocator may then not reuse it, since nothing
    /// orders its next use after that one. The driver frees it when its last command has ended.
    left_its_queue: AtomicBool,
    /// Host access: the number of readers, or -1 for one writer.
    host_access: AtomicIsize,
    /// Memory that did not come from the allocator (a wrapped vector) does not go back to it.
    accounted: bool,
}

impl Block {
    pub fn allocate(device: &DeviceRef, queue: &Arc<dyn Queue>, bytes: usize) -> Result<Self> {
        let (memory, size) = device.allocator().allocate(queue.id(), bytes)?;
        Ok(Self::new(device, queue, memory, size, true))
    }

    /// Wraps memory that is not counted against the budget.
    pub fn wrap(device: &DeviceRef, memory: Box<dyn DeviceMemory>, size: usize) -> Self {
        Self::new(device, device.queue(), memory, size, false)
    }

    fn new(
        device: &DeviceRef,
        queue: &Arc<dyn Queue>,
        memory: Box<dyn DeviceMemory>,
        size: usize,
        accounted: bool,
    ) -> Self {
        Self {
            memory: Some(memory),
            size,
            device: Arc::clone(device),
            queue: Arc::clone(queue),
            left_its_queue: AtomicBool::new(false),
            host_access: AtomicIsize::new(0),
            accounted,
        }
    }

    pub fn memory(&self) -> &dyn DeviceMemory {
        self.memory.as_deref().expect("a block should keep its memory until it is dropped")
    }

    pub fn device(&self) -> &DeviceRef {
        &self.device
    }

    pub fn queue(&self) -> &Arc<dyn Queue> {
        &self.queue
    }

    /// Notes that a command on this queue uses the block.
    pub fn used_on(&self, queue: QueueId) {
        if queue != self.queue.id() {
            self.left_its_queue.store(true, Ordering::Relaxed);
        }
    }

    pub fn begin_host_read(&self, op: &'static str) -> Result<()> {
        self.host_access
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |n| (n >= 0).then(|| n + 1))
            .map(drop)
            .map_err(|_| Error::BufferBusy { op, by: "written" })
    }

    pub fn end_host_read(&self) {
        self.host_access.fetch_sub(1, Ordering::Release);
    }

    pub fn begin_host_write(&self, op: &'static str) -> Result<()> {
        self.host_access
            .compare_exchange(0, -1, Ordering::Acquire, Ordering::Relaxed)
            .map(drop)
            .map_err(|n| Error::BufferBusy { op, by: if n < 0 { "written" } else { "read" } })
    }

    pub fn end_host_write(&self) {
        self.host_access.store(0, Ordering::Release);
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let (Some(memory), true) = (self.memory.take(), self.accounted) {
            let reusable = (!*self.left_its_queue.get_mut()).then(|| self.queue.id());
            self.device.allocator().release(memory, self.size, reusable);
        }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("device", &self.device.id())
            .field("size", &self.size)
            .finish()
    }
}
