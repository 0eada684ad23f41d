//! Exit codes, as documented in docs/cli.md.

use polaris::runtime::Error as RuntimeError;

/// All went well.
pub const OK: u8 = 0;
/// The work was done, and something it looked at is wrong: a kernel fails its check.
pub const FOUND_WRONG: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// The work could not be done.
pub const FAILED: u8 = 3;
/// The user stopped it: 128 + SIGINT, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// A mistake on the command line that only the work itself finds.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// What the runtime said, if that is behind an error.
pub fn runtime_error(error: &anyhow::Error) -> Option<&RuntimeError> {
    error.chain().find_map(|cause| {
        let direct = cause.downcast_ref::<RuntimeError>();
        direct.or_else(|| match cause.downcast_ref::<polaris::ops::Error>() {
            Some(polaris::ops::Error::Runtime(error)) => Some(error),
            _ => None,
        })
    })
}

/// The code that an error ends the process with.
pub fn code_of(error: &anyhow::Error) -> u8 {
    let contradiction =
        matches!(error.downcast_ref(), Some(polaris::graph::Error::ModeWithoutDevice { .. }));
    if contradiction || error.is::<Usage>() {
        return USAGE;
    }
    match runtime_error(error) {
        Some(RuntimeError::Interrupted) => INTERRUPTED,
        Some(
            RuntimeError::UnknownDevice { .. }
            | RuntimeError::InvalidMemoryLimit { .. }
            | RuntimeError::InvalidThreads { .. },
        ) => USAGE,
        _ => FAILED,
    }
}
