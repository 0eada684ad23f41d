//! An allocator that counts, for tests of what a process allocates. Such a test is a binary of its own and includes this
//! file by its path: a library for it would be one more crate for a few lines.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what is allocated: now, at most at once, the largest piece, and how often.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static LARGEST: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a piece of work allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocated {
    /// The most bytes at once, beside what was there before.
    pub peak: usize,
    /// The largest piece in bytes.
    pub largest: usize,
}

/// The result of `work`, and what it allocated.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, Allocated) {
    let before = live();
    PEAK.store(before, Ordering::Relaxed);
    LARGEST.store(0, Ordering::Relaxed);
    let result = work();
    let peak = PEAK.load(Ordering::Relaxed).saturating_sub(before);
    (result, Allocated { peak, largest: LARGEST.load(Ordering::Relaxed) })
}

/// Bytes that are allocated now.
pub fn live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// Allocations so far.
pub fn calls() -> usize {
    CALLS.load(Ordering::Relaxed)
}
