//! Why a peer cannot be used.

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong with a peer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No library of that name.
    #[error(
        "{names} was not found ({reason}); install it, or name its folder in POLARIS_PEERS_PATH"
    )]
    NotFound {
        /// The names that were tried.
        names: String,
        /// What the loader said last.
        reason: String,
    },
    /// A library without a function that it should have.
    #[error("the library has no function {symbol} ({reason})")]
    MissingFunction {
        /// The function.
        symbol: &'static str,
        /// What the loader said.
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
    /// A device that the library cannot reach.
    #[error("the device {name} was not found among the library's own")]
    NoDevice {
        /// The device.
        name: String,
    },
    /// Operands of another size.
    #[error("operand {operand} has {found} bytes and the problem asks for {expected}")]
    WrongLength {
        /// Which one.
        operand: char,
        /// Bytes that fit.
        expected: usize,
        /// Bytes that were given.
        found: usize,
    },
    /// A problem that the library has no function for.
    #[error("it has no product for {what}")]
    Unsupported {
        /// Type or size.
        what: String,
    },
}
