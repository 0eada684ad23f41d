//! Whether operations are remembered on this thread.

use std::cell::Cell;

thread_local! {
    static RECORDING: Cell<bool> = const { Cell::new(true) };
}

/// Whether what is computed now is remembered for gradients.
pub fn is_recording() -> bool {
    RECORDING.get()
}

/// Runs something whose operations are not remembered: evaluation, updates of parameters.
pub fn no_grad<T>(body: impl FnOnce() -> T) -> T {
    with(false, body)
}

/// Runs something with recording switched on or off, and restores what was before, also if it
/// panics.
pub(crate) fn with<T>(recording: bool, body: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            RECORDING.set(self.0);
        }
    }
    let _restore = Restore(RECORDING.replace(recording));
    body()
}
