//! The CPU's queue: work is done when the call returns, so every event is already past.

use crate::Result;
use crate::memory::DeviceMemory;
use crate::queue::{Event, MemoryRange, PendingDownload, Queue, QueueId};

#[derive(Debug)]
pub(super) struct CpuQueue {
    id: QueueId,
}

impl CpuQueue {
    pub fn new() -> Self {
        Self { id: QueueId::next() }
    }
}

fn address(memory: &dyn DeviceMemory, offset: usize) -> *mut u8 {
    let start = crate::memory::host_start(memory).expect("a CPU queue should be given host memory");
    // SAFETY: the queue's contract says that the range lies inside its memory.
    unsafe { start.as_ptr().add(offset) }
}

impl Queue for CpuQueue {
    fn id(&self) -> QueueId {
        self.id
    }

    fn upload(&self, source: &[u8], target: MemoryRange<'_>) -> Result<Event> {
        let bytes = source.len().min(target.bytes);
        let to = address(target.memory, target.offset);
        // SAFETY: both ranges are valid for `bytes`; the caller registered the write, so the
        // source cannot be this memory.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), to, bytes) };
        Ok(Event::COMPLETE)
    }

    fn download(&self, source: MemoryRange<'_>, target: &mut [u8]) -> Result<()> {
        let bytes = target.len().min(source.bytes);
        let from = address(source.memory, source.offset);
        // SAFETY: both ranges are valid for `bytes`, and a `&mut` slice is nobody else's memory.
        unsafe { std::ptr::copy_nonoverlapping(from, target.as_mut_ptr(), bytes) };
        Ok(())
    }

    fn start_download(&self, source: MemoryRange<'_>) -> Result<PendingDownload> {
        let mut copy = vec![0; source.bytes];
        self.download(source, &mut copy)?;
        let bytes = copy.len();
        let collect = Box::new(move |target: &mut [u8]| target.copy_from_slice(&copy));
        Ok(PendingDownload { event: Event::COMPLETE, collect, bytes })
    }

    fn copy(&self, source: MemoryRange<'_>, target: MemoryRange<'_>) -> Result<Event> {
        let bytes = source.bytes.min(target.bytes);
        let (from, to) =
            (address(source.memory, source.offset), address(target.memory, target.offset));
        // SAFETY: both ranges are valid for `bytes`; `copy` allows them to overlap.
        unsafe { std::ptr::copy(from, to, bytes) };
        Ok(Event::COMPLETE)
    }

    fn fill(&self, pattern: &[u8], target: MemoryRange<'_>) -> Result<Event> {
        let to = address(target.memory, target.offset);
        // SAFETY: the range is valid and the caller registered the write.
        let bytes = unsafe { std::slice::from_raw_parts_mut(to, target.bytes) };
        match pattern {
            [value] => bytes.fill(*value),
            _ => bytes
                .chunks_exact_mut(pattern.len())
                .for_each(|chunk| chunk.copy_from_slice(pattern)),
        }
        Ok(Event::COMPLETE)
    }

    fn record(&self) -> Result<Event> {
        Ok(Event::COMPLETE)
    }

    fn wait_for(&self, event: &Event) -> Result<()> {
        event.wait()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}
