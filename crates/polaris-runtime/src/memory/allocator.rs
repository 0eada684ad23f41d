//! Budget, accounting and a cache of freed blocks: the same for every backend.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use polaris_core::{DType, Shape};
use serde::Serialize;

use super::live::{Live, LiveBlocks, Register};
use crate::memory::DeviceMemory;
use crate::queue::QueueId;
use crate::{DeviceId, Error, Result};

/// How much memory of a device Polaris holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct MemoryUse {
    /// Bytes of live buffers.
    pub used: u64,
    /// Bytes of freed blocks kept for reuse.
    pub cached: u64,
    /// The most bytes that were ever live at once.
    pub peak: u64,
    /// The budget.
    pub limit: u64,
}

/// A block that was handed out.
pub(crate) struct Allocation {
    pub memory: Box<dyn DeviceMemory>,
    /// How large it really is.
    pub size: usize,
    /// Its place among what is live.
    ticket: usize,
}

type Source = Box<dyn Fn(usize) -> Result<Box<dyn DeviceMemory>> + Send + Sync>;

/// Hands out blocks of a device's memory within a budget, and keeps freed ones for reuse:
/// drivers take tens of microseconds for an allocation and the CPU a page fault for each page.
pub struct Allocator {
    device: DeviceId,
    max_allocation: u64,
    source: Source,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    memory: MemoryUse,
    live: Register,
    /// Blocks that the driver was asked for.
    driver_allocations: u64,
    /// Free blocks by home queue and size. A block only ever goes back to the queue it was used
    /// on: there, in-order execution guarantees that its last reader is done before the next
    /// writer begins.
    free: BTreeMap<(QueueId, usize), Vec<Box<dyn DeviceMemory>>>,
}

impl Allocator {
    pub(crate) fn new(device: DeviceId, limit: u64, max_allocation: u64, source: Source) -> Self {
        let memory = MemoryUse { limit, ..MemoryUse::default() };
        Self {
            device,
            max_allocation,
            source,
            state: Mutex::new(State { memory, ..State::default() }),
        }
    }

    /// What is held now.
    pub fn memory_use(&self) -> MemoryUse {
        self.lock().memory
    }

    /// How many blocks the driver, or the operating system, was ever asked for. What is served from
    /// freed blocks does not count.
    pub fn driver_allocations(&self) -> u64 {
        self.lock().driver_allocations
    }

    /// What is live now, largest first.
    pub fn live(&self) -> LiveBlocks {
        self.lock().live.list()
    }

    /// Changes the budget. Live buffers stay; the next allocation sees it.
    pub fn set_limit(&self, bytes: u64) {
        let mut state = self.lock();
        state.memory.limit = bytes;
        let over = state.memory.used + state.memory.cached > bytes;
        let freed = if over { state.take_cache() } else { Vec::new() };
        drop(state);
        drop(freed);
    }

    /// Gives cached blocks back to the driver.
    pub fn trim(&self) {
        // The driver's calls happen after the lock is released.
        let freed = self.lock().take_cache();
        drop(freed);
    }

    /// A block for an array.
    pub(crate) fn allocate(
        &self,
        queue: QueueId,
        dtype: DType,
        shape: Shape,
    ) -> Result<Allocation> {
        let bytes = shape.elements() * dtype.size();
        let size = rounded(bytes).min(self.max_allocation.max(bytes as u64) as usize);
        if bytes as u64 > self.max_allocation {
            return Err(Error::AllocationTooLarge {
                device: self.device,
                asked: bytes as u64,
                max: self.max_allocation,
            });
        }
        let mut state = self.lock();
        if let Some((memory, size)) = state.reuse(queue, size) {
            let ticket = state.live.add(Live { bytes: size as u64, dtype, shape });
            return Ok(Allocation { memory, size, ticket });
        }
        // Rounding up must not refuse what would fit exactly.
        let fits = |size: usize, memory: &MemoryUse| memory.used + size as u64 <= memory.limit;
        let size = [size, bytes.max(1)]
            .into_iter()
            .find(|&size| fits(size, &state.memory))
            .ok_or_else(|| self.no_room(bytes, &state))?;
        let mut freed = Vec::new();
        if state.memory.used + state.memory.cached + size as u64 > state.memory.limit {
            freed = state.take_cache();
        }
        // Counted before the driver is asked, so that two threads cannot both take the last room.
        let peak_before = state.memory.peak;
        state.add(size);
        state.driver_allocations += 1;
        drop(state);
        drop(freed);
        let memory = (self.source)(size).or_else(|error| {
            if !error.is_device_failure() {
                return Err(error);
            }
            // The driver itself is out of memory: what we cached may be what is missing.
            self.trim();
            (self.source)(size)
        });
        let mut state = self.lock();
        match memory {
            Ok(memory) => {
                let ticket = state.live.add(Live { bytes: size as u64, dtype, shape });
                Ok(Allocation { memory, size, ticket })
            }
            Err(error) => {
                state.memory.used -= size as u64;
                state.memory.peak = peak_before;
                Err(match error {
                    // The driver's own code for "no room" tells nothing about how much there is.
                    Error::OutOfMemory { .. } => self.no_room(bytes, &state),
                    other => other,
                })
            }
        }
    }

    fn no_room(&self, bytes: usize, state: &State) -> Error {
        Error::OutOfMemory {
            device: self.device,
            asked: bytes as u64,
            used: state.memory.used,
            available: state.memory.limit.saturating_sub(state.memory.used),
            live: state.live.list(),
        }
    }

    /// Takes a block back; `reusable` is the queue it may serve again.
    pub(crate) fn release(&self, allocation: Allocation, reusable: Option<QueueId>) {
        let Allocation { memory, size, ticket } = allocation;
        let mut state = self.lock();
        state.live.remove(ticket);
        state.memory.used -= size as u64;
        let MemoryUse { used, cached, limit, .. } = state.memory;
        // What is cached is missing elsewhere, above all on the CPU.
        let most_cached = (limit / 4).max(SMALL_CACHE);
        let room = used + cached + size as u64 <= limit && cached + size as u64 <= most_cached;
        if let (Some(queue), true) = (reusable, room) {
            state.memory.cached += size as u64;
            state.free.entry((queue, size)).or_default().push(memory);
        } else {
            drop(state);
            drop(memory);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is numbers and lists that are consistent between statements: a panic of
        // another thread does not spoil them.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, size: usize) {
        self.memory.used += size as u64;
        self.memory.peak = self.memory.peak.max(self.memory.used);
    }

    /// The smallest cached block of this queue that is large enough and at most an eighth larger.
    fn reuse(&mut self, queue: QueueId, size: usize) -> Option<(Box<dyn DeviceMemory>, usize)> {
        let range = (queue, size)..=(queue, size + size / 8);
        let (&key, blocks) = self.free.range_mut(range).next()?;
        let memory = blocks.pop().expect("a size without blocks should have been removed");
        if blocks.is_empty() {
            self.free.remove(&key);
        }
        self.memory.cached -= key.1 as u64;
        self.add(key.1);
        Some((memory, key.1))
    }

    fn take_cache(&mut self) -> Vec<Vec<Box<dyn DeviceMemory>>> {
        self.memory.cached = 0;
        std::mem::take(&mut self.free).into_values().collect()
    }
}

/// The cache may always hold this much, and a quarter of the budget where that is more.
const SMALL_CACHE: u64 = 256 << 20;

/// Small blocks in steps of a cache line, large ones in pages: sizes that differ a little then
/// share blocks.
fn rounded(bytes: usize) -> usize {
    let step = if bytes < 4096 { 64 } else { 4096 };
    bytes.max(1).div_ceil(step) * step
}

impl fmt::Debug for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Allocator").field(&self.memory_use()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::HostMemory;

    fn allocator(limit: u64) -> Allocator {
        Allocator::new(
            DeviceId::Cpu,
            limit,
            1 << 20,
            Box::new(|n| Ok(Box::new(HostMemory::new(n)?))),
        )
    }

    fn bytes(count: usize) -> Shape {
        Shape::new(&[count]).unwrap()
    }

    #[test]
    fn accounts_and_reuses() {
        let a = allocator(1 << 20);
        let queue = QueueId::next();
        let allocate = |queue, count| a.allocate(queue, DType::U8, bytes(count));
        let block = allocate(queue, 1000).unwrap();
        assert_eq!((block.size, a.memory_use().used), (1024, 1024));
        let live = Live { bytes: 1024, dtype: DType::U8, shape: bytes(1000) };
        assert_eq!(a.live(), LiveBlocks(vec![live]));
        a.release(block, Some(queue));
        assert_eq!((a.memory_use().used, a.memory_use().cached), (0, 1024));
        assert_eq!(a.live(), LiveBlocks::default());
        let block = allocate(queue, 990).unwrap();
        assert_eq!((block.size, a.memory_use().cached), (1024, 0));
        // Another queue must not get it, nor must a block of unknown use be kept.
        a.release(block, Some(queue));
        let block = allocate(QueueId::next(), 1000).unwrap();
        assert_eq!(a.memory_use().cached, 1024);
        a.release(block, None);
        assert_eq!(a.memory_use().cached, 1024);
        a.trim();
        assert_eq!(a.memory_use(), MemoryUse { used: 0, cached: 0, peak: 1024, limit: 1 << 20 });
    }

    #[test]
    fn the_budget_is_kept_and_the_cache_gives_way() {
        let a = allocator(10_000);
        let queue = QueueId::next();
        let allocate = |count| a.allocate(queue, DType::U8, bytes(count));
        let block = allocate(6000).unwrap();
        a.release(block, Some(queue));
        // 10,000 bytes fit only without the cached 8 KiB, and only unrounded.
        let block = allocate(10_000).unwrap();
        assert_eq!((block.size, a.memory_use().cached), (10_000, 0));
        match allocate(1).err() {
            Some(Error::OutOfMemory { asked: 1, used: 10_000, available: 0, live, .. }) => {
                assert_eq!(live, a.live());
                assert_eq!(live.0[0].shape, bytes(10_000));
            }
            other => panic!("{other:?}"),
        }
        a.release(block, None);
        match allocate(2 << 20).err() {
            Some(Error::AllocationTooLarge { max, .. }) => assert_eq!(max, 1 << 20),
            other => panic!("{other:?}"),
        }
    }
}
