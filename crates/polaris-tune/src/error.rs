//! What can go wrong.

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No point satisfies all constraints.
    #[error(
        "no configuration of {what} satisfies its constraints on this device ({excluded}); use a smaller space or another device"
    )]
    EmptySpace {
        /// Whose space it is.
        what: String,
        /// The constraints that excluded the last ones.
        excluded: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}; {cure}")]
    File {
        /// Which file.
        path: String,
        /// What the system said.
        source: std::io::Error,
        /// What to do.
        cure: &'static str,
    },
    /// A name that does not exist.
    #[error("there is no {what} {name:?}; there are {known}")]
    Unknown {
        /// A strategy, a parameter, ...
        what: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A strategy that follows predictions was given none.
    #[error(
        "the strategy {strategy:?} follows predicted times, and there are none for this space; train a predictor first or choose another strategy"
    )]
    NoPrior {
        /// Its name.
        strategy: &'static str,
    },
    /// Too little to learn from.
    #[error(
        "{found} measurements are too few to learn from; at least {needed} are needed: run `polaris tune` first"
    )]
    TooFew {
        /// How many there are.
        found: usize,
        /// How many it takes.
        needed: usize,
    },
    /// Nothing to compare a held-out group with.
    #[error(
        "all measurements are of one {of}; cross-validation holds one out and needs another to learn from: run `polaris tune` for one more"
    )]
    OneGroup {
        /// A shape or a device.
        of: &'static str,
    },
}
