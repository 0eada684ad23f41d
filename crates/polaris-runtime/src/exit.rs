//! The end of a program that has used drivers.

use std::io::Write;

/// Ends the process with an exit code, without the exit handlers of drivers: some of them crash while their own threads
/// still run, and a program that has done its work would end with a signal. Output is flushed; destructors are the
/// caller's business, who calls this when all has been dropped.
pub fn exit_without_handlers(code: u8) -> ! {
    // Whoever wrote has seen whether it could be written.
    let _ = std::io::stdout().flush();
    let _ = std::io::stderr().flush();
    end(i32::from(code))
}

#[cfg(target_os = "linux")]
fn end(code: i32) -> ! {
    // SAFETY: `_exit` can be called at any time; it returns what the process holds to the system.
    unsafe { libc::_exit(code) }
}

#[cfg(not(target_os = "linux"))]
fn end(code: i32) -> ! {
    std::process::exit(code)
}
