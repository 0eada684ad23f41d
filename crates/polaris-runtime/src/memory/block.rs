//! A block of device memory that returns to its allocator, and counts its users on the host.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

use polaris_core::{DType, Shape};

use super::allocator::Allocation;
use crate::memory::DeviceMemory;
use crate::queue::{Queue, QueueId};
use crate::{DeviceRef, Error, Result};

/// Memory that several buffers may share. Goes back to the allocator when the last one is gone.
pub(crate) struct Block {
    /// None only while it is dropped.
    memory: Option<Memory>,
    device: DeviceRef,
    queue: Arc<dyn Queue>,
    /// Used on a queue other than its own: the allocator may then not reuse it, since nothing
    /// orders its next use after that one. The driver frees it when its last command has ended.
    left_its_queue: AtomicBool,
    /// Host access: the number of readers, or -1 for one writer.
    host_access: AtomicIsize,
}

/// Where the memory came from, and goes back to.
enum Memory {
    Allocated(Allocation),
    /// A vector or shared bytes, which are not counted against the budget.
    Wrapped(Box<dyn DeviceMemory>),
}

impl Block {
    pub fn allocate(
        device: &DeviceRef,
        queue: &Arc<dyn Queue>,
        dtype: DType,
        shape: Shape,
    ) -> Result<Self> {
        let allocation = device.allocator().allocate(queue.id(), dtype, shape)?;
        Ok(Self::new(device, queue, Memory::Allocated(allocation)))
    }

    /// Wraps memory that is not counted against the budget.
    pub fn wrap(device: &DeviceRef, memory: Box<dyn DeviceMemory>) -> Self {
        Self::new(device, device.queue(), Memory::Wrapped(memory))
    }

    /// Wraps memory that is read only: a reader that never ends keeps writers away.
    pub fn wrap_read_only(device: &DeviceRef, memory: Box<dyn DeviceMemory>) -> Self {
        let block = Self::wrap(device, memory);
        block.host_access.store(1, Ordering::Relaxed);
        block
    }

    fn new(device: &DeviceRef, queue: &Arc<dyn Queue>, memory: Memory) -> Self {
        Self {
            memory: Some(memory),
            device: Arc::clone(device),
            queue: Arc::clone(queue),
            left_its_queue: AtomicBool::new(false),
            host_access: AtomicIsize::new(0),
        }
    }

    pub fn memory(&self) -> &dyn DeviceMemory {
        match &self.memory {
            Some(Memory::Allocated(allocation)) => &*allocation.memory,
            Some(Memory::Wrapped(memory)) => &**memory,
            None => unreachable!("a block should keep its memory until it is dropped"),
        }
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
        if let Some(Memory::Allocated(allocation)) = self.memory.take() {
            let reusable = (!*self.left_its_queue.get_mut()).then(|| self.queue.id());
            self.device.allocator().release(allocation, reusable);
        }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("device", &self.device.id()).finish_non_exhaustive()
    }
}
