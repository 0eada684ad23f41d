//! The errors of tuning.

use std::io;

use polaris_core::ErrorKind;
use polaris_runtime::DeviceId;

/// The result of a fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of tuning.
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
    /// In the operands or the reference of a matmul.
    #[error(transparent)]
    Bench(#[from] polaris_bench::Error),
    /// In a space, a strategy, the database or a model.
    #[error(transparent)]
    Tune(#[from] polaris_tune::Error),
    /// In compiling for a card that is not installed, or in predicting its times.
    #[error(transparent)]
    Gcn(#[from] polaris_gcn::Error),
    /// No problem to tune.
    #[error("there is nothing to tune; name at least one shape")]
    NothingToTune,
    /// No device to tune.
    #[error("there is no OpenCL device to tune")]
    NoDevice,
    /// A device that is not tuned.
    #[error("only OpenCL devices can be tuned")]
    NotOpenCl,
    /// No folder for measurements.
    #[error(
        "there is no folder for measurements, since the home folder is unknown; set POLARIS_DATA_DIR"
    )]
    NoFolder,
    /// An operation that is not tuned.
    #[error("the operation {operation:?} cannot be tuned")]
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
    #[error("expected a time (60s, 5m, 1h) or a number of evaluations (200evals)")]
    BadBudget,
    /// A worker that cannot be started.
    #[error("cannot start a tuning worker: {0}")]
    Start(io::Error),
    /// A worker whose pipe is closed, or that cannot be waited for.
    #[error("tuning worker: {0}")]
    Pipe(#[from] io::Error),
    /// An invalid request or reply.
    #[error("invalid request: {0}")]
    NotARequest(serde_json::Error),
    /// A reply that does not answer the request.
    #[error("unexpected reply of a tuning worker: {0}")]
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
    /// A model whose predictions are not numbers.
    #[error("the predictions of the {0} are not numbers")]
    NotANumber(&'static str),
    /// An unknown card.
    #[error("there is no description of a card with the chip {target:?}; expected one of {known}")]
    UnknownCard {
        /// What was requested.
        target: String,
        /// The known chips.
        known: String,
    },
    /// Problems that cannot be predicted for a card that is not installed.
    #[error(
        "times for a card that is not installed are predicted for f32 matmuls with row-major operands only"
    )]
    NotPredicted,
    /// A candidate that does not compile, in the compiler's words.
    #[error("{0}")]
    NotCompiled(String),
    /// No candidate for a card that is not installed.
    #[error("{0}")]
    NoCandidate(&'static str),
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Runtime(error) => error.kind(),
            Self::Ops(error) => error.kind(),
            Self::Core(error) => error.kind(),
            Self::Bench(error) => error.kind(),
            Self::Tune(polaris_tune::Error::File { source, .. }) | Self::Start(source) => {
                ErrorKind::of_io(source)
            }
            Self::Pipe(source) => ErrorKind::of_io(source),
            Self::NoDevice
            | Self::NoFolder
            | Self::UnknownOperation { .. }
            | Self::UnknownCard { .. } => ErrorKind::NotFound,
            Self::Tune(_)
            | Self::NothingToTune
            | Self::NotOpenCl
            | Self::BadProblem(_)
            | Self::BadConfig(_)
            | Self::BadBudget
            | Self::NotPredicted
            | Self::NoCandidate(_) => ErrorKind::InvalidArgument,
            Self::Gcn(_) => ErrorKind::Unsupported,
            Self::NotARequest(_) | Self::Unexpected(_) => ErrorKind::InvalidData,
            Self::NotPrepared { .. } | Self::NotCompared(_) | Self::NotCompiled(_) => {
                ErrorKind::Device
            }
            Self::NotANumber(_) => ErrorKind::NotFinite,
        }
    }

    /// The runtime's error, if that is the cause.
    pub fn runtime(&self) -> Option<&polaris_runtime::Error> {
        match self {
            Self::Runtime(error) | Self::Ops(polaris_ops::Error::Runtime(error)) => Some(error),
            Self::Bench(error) => error.runtime(),
            _ => None,
        }
    }
}
