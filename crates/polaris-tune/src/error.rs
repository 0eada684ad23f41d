//! The errors of spaces, strategies, databases and predictors.

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of tuning.
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
        /// The system's reason.
        source: std::io::Error,
        /// What to do.
        cure: &'static str,
    },
    /// A name that does not exist.
    #[error("there is no {what} {name:?}; expected one of {known}")]
    Unknown {
        /// A strategy, a parameter, ...
        what: &'static str,
        /// What was requested.
        name: String,
        /// The known names.
        known: String,
    },
    /// A strategy that needs predictions, without any.
    #[error(
        "the strategy {strategy:?} needs predicted times, and there are none for this space; train a predictor first or choose another strategy"
    )]
    NoPrior {
        /// Its name.
        strategy: &'static str,
    },
    /// Too few measurements to train on.
    #[error(
        "{found} measurements are too few to train on; at least {needed} are needed, so tune first"
    )]
    TooFew {
        /// How many there are.
        found: usize,
        /// How many it takes.
        needed: usize,
    },
    /// Measurements of a single group, which leave none to train on when one is held out.
    #[error(
        "all measurements are of one {of}; cross-validation holds one out, so tune at least one more"
    )]
    OneGroup {
        /// A shape or a device.
        of: &'static str,
    },
}
