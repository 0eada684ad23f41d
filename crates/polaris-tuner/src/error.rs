//! What can go wrong in tuning.

use std::io;

use polaris_runtime::DeviceId;

/// The result of a fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// In a device or its memory.
    #[error(transparent)]
    Runtime(#[from] polaris_runtime::Error),
    /// In an operation.
    #[error(transparent)]
    Ops(#[from] polaris_ops::Error),
    /// In a shape or a type.
    #[error(transparent)]
    Core(#[from] polaris_core::Error),
    /// In the operands or the reference of a product.
    #[error(transparent)]
    Bench(#[from] polaris_bench::Error),
    /// In a space, a strategy, the database or a model.
    #[error(transparent)]
    Tune(#[from] polaris_tune::Error),
    /// In compiling for a card that is not there, or in predicting its times.
    #[error(transparent)]
    Gcn(#[from] polaris_gcn::Error),
    /// No problem to tune.
    #[error("nothing to tune was named")]
    NothingToTune,
    /// No device to tune.
    #[error("there is no OpenCL device to tune; `polaris devices` says why")]
    NoDevice,
    /// A device that is not tuned.
    #[error("only OpenCL devices are tuned")]
    NotOpenCl,
    /// No folder for measurements.
    #[error("there is no home folder; set POLARIS_DATA_DIR")]
    NoFolder,
    /// An operation that is not tuned.
    #[error("nothing called {operation:?} is tuned")]
    UnknownOperation {
        /// Its name.
        operation: String,
    },
    /// A problem that its operation does not have.
    #[error("{0}")]
    BadProblem(String),
    /// A configuration that a device cannot run.
    #[error("this configuration is not valid {0}")]
    BadConfig(&'static str),
    /// A budget that cannot be read.
    #[error("neither a time (60s, 5m, 1h) nor evaluations (200evals)")]
    BadBudget,
    /// A worker that cannot be started or spoken to.
    #[error("a process for tuning cannot be started: {0}")]
    Start(io::Error),
    /// A worker that cannot be waited for, or whose end is closed.
    #[error("a worker of tuning: {0}")]
    Pipe(#[from] io::Error),
    /// A request or a reply that is none.
    #[error("not a request: {0}")]
    NotARequest(serde_json::Error),
    /// A worker that answers what it was not asked.
    #[error("the worker answered {0}")]
    Unexpected(String),
    /// A device on which a problem cannot be prepared.
    #[error("{device}: {why}")]
    NotPrepared {
        /// The device.
        device: DeviceId,
        /// Why not.
        why: String,
    },
    /// The best could not be compared with the default.
    #[error("the comparison with the default failed: {0}")]
    NotCompared(String),
    /// A model that learnt nothing.
    #[error("the {0} predicts what is not a number")]
    NotANumber(&'static str),
    /// A card that nobody described.
    #[error("no card with the chip {target:?} is described; there are {known}")]
    UnknownCard {
        /// What was asked for.
        target: String,
        /// Those that there are.
        known: String,
    },
    /// Problems that cannot be predicted for a card that is not there.
    #[error(
        "--target predicts products of f32 with both factors in rows; leave --dtype and \
         --transpose out"
    )]
    NotPredicted,
    /// A candidate that does not compile, in the compiler's words.
    #[error("{0}")]
    NotCompiled(String),
    /// No candidate of a card that is not there.
    #[error("{0}")]
    NoCandidate(&'static str),
}

impl Error {
    /// What the runtime said, if that is behind it.
    pub fn runtime(&self) -> Option<&polaris_runtime::Error> {
        match self {
            Self::Runtime(error) | Self::Ops(polaris_ops::Error::Runtime(error)) => Some(error),
            Self::Bench(error) => error.runtime(),
            _ => None,
        }
    }
}
