//! An allocator that exits with a documented code where Rust would abort.

use std::alloc::{GlobalAlloc, Layout, System};

/// Requests below this are too small to be met with an error: collections ask for them everywhere, and nobody
/// could go on without. Larger ones come from sizes in files, and their failure is an error of the caller's.
const SMALL: usize = 64 << 10;

/// The system's allocator; but where it has no room even for a small request, the process ends with a message
/// and `CODE` instead of being aborted.
#[derive(Debug, Default)]
pub struct LastResort<const CODE: i32>;

impl<const CODE: i32> LastResort<CODE> {
    fn checked(pointer: *mut u8, bytes: usize) -> *mut u8 {
        if pointer.is_null() && bytes < SMALL {
            end(CODE);
        }
        pointer
    }
}

const MESSAGE: &[u8] =
    b"error: the system has no memory left; free some, or raise its limit (ulimit -v)\n";

/// Ends the process without what would allocate or wait for locks: buffers, destructors, drivers' handlers.
#[cfg(target_os = "linux")]
fn end(code: i32) -> ! {
    polaris_files::abandon_unfinished();
    // SAFETY: the bytes are there for the whole call, and `_exit` can be called at any time.
    unsafe {
        libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
        libc::_exit(code)
    }
}

#[cfg(not(target_os = "linux"))]
fn end(code: i32) -> ! {
    use std::io::Write;
    polaris_files::abandon_unfinished();
    let _ = std::io::stderr().write_all(MESSAGE);
    std::process::exit(code)
}

// SAFETY: every request is passed on to the system's allocator as it is, and so is its answer.
unsafe impl<const CODE: i32> GlobalAlloc for LastResort<CODE> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller says.
        Self::checked(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller says.
        Self::checked(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as the caller says.
        Self::checked(unsafe { System.realloc(pointer, layout, bytes) }, bytes)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { System.dealloc(pointer, layout) }
    }
}
