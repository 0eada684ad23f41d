//! Ctrl-C: the first one asks the work under way to stop, the second ends the process.

use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(unix)]
use std::time::{Duration, Instant};

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

/// Whether a process that ended so was stopped by the user: a Ctrl-C that comes while a process is
/// being started still finds it in this one's group and ends it, maybe before this one has heard.
pub fn reached(ended: ExitStatus) -> bool {
    #[cfg(unix)]
    if std::os::unix::process::ExitStatusExt::signal(&ended) == Some(SIGINT) {
        let begin = Instant::now();
        while !requested() && begin.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    requested()
}

/// What the user stopped is skipped and the command goes on: the next Ctrl-C counts anew.
pub fn forget() {
    PRESSED.store(false, Ordering::SeqCst);
}
