//! Ctrl-C: the first one asks the command to stop, the second ends the process.

use std::sync::atomic::{AtomicBool, Ordering};

use polaris::CancellationToken;
use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// SIGTERM and SIGHUP, which end a session or a service, count as Ctrl-C.
#[cfg(unix)]
const SIGNALS: [i32; 3] = [SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP];
#[cfg(not(unix))]
const SIGNALS: [i32; 1] = [SIGINT];

static PRESSED: AtomicBool = AtomicBool::new(false);

/// Set when a file reaches the limit on file sizes. Nothing reads it: a handler keeps the signal from ending the
/// process, and the failed write reports the error.
#[cfg(unix)]
static TOO_LARGE: AtomicBool = AtomicBool::new(false);

/// Installs the handlers. They set the flag before they return, so that it is set by the time a driver's compiler fails
/// because of the signal.
pub fn install() {
    for signal in SIGNALS {
        // Without a handler Ctrl-C ends the process at once, which is safe too: files are replaced atomically.
        // The handlers run in this order, so that the second signal sees the flag of the first.
        let code = i32::from(crate::exit::INTERRUPTED);
        let _ = flag::register_conditional_shutdown(signal, code, &PRESSED);
        let _ = flag::register(signal, &PRESSED);
    }
    #[cfg(unix)]
    let _ = flag::register(signal_hook::consts::SIGXFSZ, &TOO_LARGE);
}

/// Whether Ctrl-C was pressed.
pub fn requested() -> bool {
    PRESSED.load(Ordering::SeqCst)
}

/// A cancellation token for the library.
pub fn token() -> CancellationToken {
    CancellationToken::when(requested)
}

/// Resets the flag after a step was skipped, so that the next Ctrl-C counts as the first.
pub fn forget() {
    PRESSED.store(false, Ordering::SeqCst);
}
