//! Huge pages for large blocks of memory, which Linux grants on request: streaming through ordinary pages needs an
//! address translation every 4 KiB.

use std::ptr::{self, NonNull};

/// The size of a huge page.
const HUGE: usize = 2 << 20;

/// Blocks from here on are mapped in huge pages; smaller ones would waste too much of them.
pub const WORTHWHILE: usize = 2 * HUGE;

/// Zeroed memory that begins on a huge page's border.
pub struct Mapping {
    base: *mut libc::c_void,
    length: usize,
    start: NonNull<u8>,
}

impl Mapping {
    pub fn new(bytes: usize) -> Option<Self> {
        // One more page than needed, so that a border lies inside.
        let length = bytes.checked_next_multiple_of(HUGE)?.checked_add(HUGE)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping touches nothing that exists.
        let base = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        let start = base.cast::<u8>().wrapping_add(base.cast::<u8>().align_offset(HUGE));
        // SAFETY: the range lies inside the mapping. A refusal leaves ordinary pages.
        unsafe { libc::madvise(start.cast(), length - HUGE, libc::MADV_HUGEPAGE) };
        NonNull::new(start).map(|start| Self { base, length, start })
    }

    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nobody uses it any more.
        unsafe { libc::munmap(self.base, self.length) };
    }
}
