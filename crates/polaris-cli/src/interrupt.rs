//! Ctrl-C: the first one asks the work under way to stop, the second ends the process.

use std::sync::atomic::{AtomicBool, Ordering};

use polaris::CancellationToken;
use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// Whoever ends a session or a service means the same.
#[cfg(unix)]
const SIGNALS: [i32; 3] = [SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP];
#[cfg(not(unix))]
const SIGNALS: [i32; 1] = [SIGINT];

static PRESSED: AtomicBool = AtomicBool::new(false);

/// Set where a file reached the limit on file sizes. Nobody asks for it: the write fails, too, and says so, once
/// the signal does not end the process any more.
#[cfg(unix)]
static TOO_LARGE: AtomicBool = AtomicBool::new(false);

/// Listens from now on. What is set is set before the signal's handler returns: a driver's compiler that fails
/// by the signal must not be faster than the news of it.
pub fn install() {
    for signal in SIGNALS {
        // Without a handler Ctrl-C ends the process at once, which is safe too: files are replaced as a whole
        // or not at all. They are called in this order, so that the second signal finds what the first one set.
        let code = i32::from(crate::exit::INTERRUPTED);
        let _ = flag::register_conditional_shutdown(signal, code, &PRESSED);
        let _ = flag::register(signal, &PRESSED);
    }
    #[cfg(unix)]
    let _ = flag::register(signal_hook::consts::SIGXFSZ, &TOO_LARGE);
}

/// Whether the user wants the work to stop.
pub fn requested() -> bool {
    PRESSED.load(Ordering::SeqCst)
}

/// The user's wish as a token for the library.
pub fn token() -> CancellationToken {
    CancellationToken::when(requested)
}

/// What the user stopped is skipped and the command goes on: the next Ctrl-C counts anew.
pub fn forget() {
    PRESSED.store(false, Ordering::SeqCst);
}
