//! Ctrl-C: the first one asks the work under way to stop, the second ends the process.

use std::process::ExitStatus;
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(unix)]
use std::time::{Duration, Instant};

#[cfg(unix)]
const SIGINT: i32 = 2;

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
    PRESSED.store(0, Ordering::SeqCst);
}
