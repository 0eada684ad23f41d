//! Ctrl-C: the first one asks the work under way to stop, the second ends the process.

use std::sync::atomic::{AtomicUsize, Ordering};

static PRESSED: AtomicUsize = AtomicUsize::new(0);

/// Listens from now on.
pub fn install() {
    let handler = || {
        if PRESSED.fetch_add(1, Ordering::SeqCst) > 0 {
            std::process::exit(i32::from(crate::exit::INTERRUPTED));
        }
    };
    // Without a handler Ctrl-C ends the process at once, which is safe too: files are replaced as
    // a whole or not at all.
    let _ = ctrlc::set_handler(handler);
}

/// Whether the user wants the work to stop.
pub fn requested() -> bool {
    PRESSED.load(Ordering::SeqCst) > 0
}

/// What the user stopped is skipped and the command goes on: the next Ctrl-C counts anew.
pub fn forget() {
    PRESSED.store(0, Ordering::SeqCst);
}
