//! The errors of peer libraries.

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a peer library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A library that is not installed.
    #[error(
        "{names} was not found ({reason}); install it, or name its folder in POLARIS_PEERS_PATH"
    )]
    NotFound {
        /// The names that were tried.
        names: String,
        /// The loader's last message.
        reason: String,
    },
    /// A library without a function that it should have.
    #[error("the library has no function {symbol} ({reason})")]
    MissingFunction {
        /// The function.
        symbol: &'static str,
        /// The loader's message.
        reason: String,
    },
    /// A function that failed.
    #[error("{call} failed with {code} ({meaning})")]
    CallFailed {
        /// The function.
        call: &'static str,
        /// What it returned.
        code: i32,
        /// What that means.
        meaning: String,
    },
    /// A device that the library does not list.
    #[error("the library does not list the device {name}")]
    NoDevice {
        /// The device.
        name: String,
    },
    /// An operand of the wrong size.
    #[error("operand {operand} has {found} bytes; expected {expected}")]
    WrongLength {
        /// Which one.
        operand: char,
        /// The expected bytes.
        expected: usize,
        /// Bytes that were given.
        found: usize,
    },
    /// A problem that the library has no function for.
    #[error("it has no matmul for {what}")]
    Unsupported {
        /// Type or size.
        what: String,
    },
}
