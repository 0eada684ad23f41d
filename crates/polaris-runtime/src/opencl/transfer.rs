//! Copies between the host and a device with discrete memory, through pinned chunks. Several threads fill or empty
//! them: one alone copies memory slower than a bus carries it, and takes new pages one by one.

use std::ptr;
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::Result;
use crate::opencl::queue::ClQueue;
use crate::opencl::staging::{CHUNK, Pinned};
use crate::queue::{Event, MemoryRange, Queue};

/// Threads of one copy, at most: enough for any bus, too few to matter to other work.
const MOST_THREADS: usize = 4;

impl ClQueue {
    /// Starts copying bytes to the device. The source may be reused at once.
    pub(super) fn upload_staged(&self, source: &[u8], target: MemoryRange<'_>) -> Result<Event> {
        if source.is_empty() {
            return Ok(Event::COMPLETE);
        }
        if source.len() <= CHUNK {
            return self.upload_chunk(source, &target, 0);
        }
        let chunks = Mutex::new(source.chunks(CHUNK).enumerate());
        in_parallel(source.len().div_ceil(CHUNK), || {
            while let Some((index, chunk)) = next(&chunks) {
                self.upload_chunk(chunk, &target, index * CHUNK)?;
            }
            Ok(())
        })?;
        // Nobody knows which chunk came last.
        self.record()
    }

    /// Copies bytes to the host.
    pub(super) fn download_staged(&self, source: MemoryRange<'_>, target: &mut [u8]) -> Result<()> {
        let count = target.len().div_ceil(CHUNK);
        let chunks = Mutex::new(target.chunks_mut(CHUNK).enumerate());
        // While one thread copies out of pinned memory, the chunks of others are under way.
        in_parallel(count, || {
            while let Some((index, chunk)) = next(&chunks) {
                self.download_chunk(&source, index * CHUNK, chunk)?;
            }
            Ok(())
        })
    }

    fn upload_chunk(&self, chunk: &[u8], target: &MemoryRange<'_>, at: usize) -> Result<Event> {
        let pinned = self.staging.take(|| self.pinned(CHUNK))?;
        let offset = target.offset + at;
        // SAFETY: the pinned chunk holds CHUNK bytes, no transfer uses it, and it goes back to the pool only
        // together with the event of this one.
        let event = unsafe {
            ptr::copy_nonoverlapping(chunk.as_ptr(), pinned.address(), chunk.len());
            self.write(pinned.address(), target.memory, offset, chunk.len(), false)?
        };
        let event = self.event(event)?;
        self.staging.put(pinned, event.clone());
        Ok(event)
    }

    fn download_chunk(&self, source: &MemoryRange<'_>, at: usize, chunk: &mut [u8]) -> Result<()> {
        let pinned = self.staging.take(|| self.pinned(CHUNK))?;
        let offset = source.offset + at;
        // SAFETY: the pinned chunk holds CHUNK bytes and lives until the event has completed.
        let event =
            unsafe { self.read(source.memory, offset, pinned.address(), chunk.len(), false)? };
        let download = PinnedDownload { pinned: Some(pinned), event: self.event(event)? };
        download.event.wait()?;
        if let Some(pinned) = download.copy_out(chunk) {
            self.staging.put(pinned, Event::COMPLETE);
        }
        Ok(())
    }
}

/// The next chunk that no thread has taken.
fn next<T>(chunks: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    chunks.lock().unwrap_or_else(PoisonError::into_inner).next()
}

/// Does the same on this thread and on others, as far as there are two chunks for each and the system gives some.
fn in_parallel(chunks: usize, work: impl Fn() -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let helpers: Vec<_> = (1..MOST_THREADS.min(chunks / 2))
            .filter_map(|_| thread::Builder::new().spawn_scoped(scope, &work).ok())
            .collect();
        let mut result = work();
        for helper in helpers {
            let helped = helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            result = result.and(helped);
        }
        result
    })
}

/// A transfer into pinned memory: not unmapped before the transfer has ended, even if an error
/// or a lack of interest means that nobody waits for it.
pub(super) struct PinnedDownload {
    pub pinned: Option<Pinned>,
    pub event: Event,
}

impl PinnedDownload {
    /// Copies the bytes out and hands the memory back. The caller has waited for the event.
    pub fn copy_out(mut self, target: &mut [u8]) -> Option<Pinned> {
        let pinned = self.pinned.take()?;
        // SAFETY: the transfer is complete, and the memory was made for at least these bytes.
        unsafe { ptr::copy_nonoverlapping(pinned.address(), target.as_mut_ptr(), target.len()) };
        Some(pinned)
    }
}

impl Drop for PinnedDownload {
    fn drop(&mut self) {
        if self.pinned.is_some() {
            let _ = self.event.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::DeviceMemory;
    use crate::opencl::memory::ClMemory;

    use super::*;

    /// Drivers of processors copy directly; here they are asked to go the way of the others.
    #[test]
    fn bytes_arrive_through_chunks_and_come_back() {
        let runtime = crate::Runtime::discover(&crate::RuntimeOptions::default()).unwrap();
        let devices = runtime.devices().iter().filter_map(|device| device.as_opencl());
        for device in devices {
            let queue = device.staged_queue().unwrap();
            for bytes in [1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 9 * CHUNK + 5] {
                let values: Vec<u8> = (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect();
                let memory = ClMemory::new(queue.context(), queue.device(), bytes + 12).unwrap();
                let memory: &dyn DeviceMemory = &memory;
                let range = || MemoryRange { memory, offset: 12, bytes };
                queue.upload(&values, range()).unwrap().wait().unwrap();
                let mut found = vec![0; bytes];
                queue.download(range(), &mut found).unwrap();
                assert!(found == values, "{bytes} bytes on {}", queue.device());
            }
        }
    }
}
