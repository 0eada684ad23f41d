//! What can go wrong between a model and its training.

use std::path::{Path, PathBuf};

use polaris_core::ErrorKind;

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor's operation refused its arguments, or the device failed.
    #[error(transparent)]
    Tensor(#[from] polaris_tensor::Error),
    /// The data set cannot be read.
    #[error(transparent)]
    Data(#[from] polaris_data::Error),
    /// A batch that the device has no room for.
    #[error("a batch of {batch} does not fit: {cause}; {}", advice(*.fits))]
    BatchTooLarge {
        /// The batch size that was asked for.
        batch: usize,
        /// A batch size that was tried and fits, if there is one.
        fits: Option<usize>,
        /// What the device said.
        cause: Box<Error>,
    },
    /// A number that makes no layer, optimiser or schedule.
    #[error("{what}")]
    InvalidParameter {
        /// What is wrong and what to do.
        what: String,
    },
    /// A state that belongs to another model.
    #[error("the state does not fit the model: {what}")]
    WrongState {
        /// Which names are missing, too many, or of another shape.
        what: String,
    },
    /// A file that cannot be read or written.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        why: String,
        /// Whether the file is not there, cannot be read, or is not what it should be.
        kind: ErrorKind,
    },
    /// A training's folder that another process is writing to.
    #[error(
        "{}: another training is writing to this folder; wait for its end, or name another folder",
        path.display()
    )]
    FolderInUse {
        /// The folder.
        path: PathBuf,
    },
    /// A training's folder with files that a new training would overwrite.
    #[error(
        "{} holds a training already ({}); resume it, or name another folder", path.display(), file.display()
    )]
    FolderHasTraining {
        /// The folder.
        path: PathBuf,
        /// A file of that training.
        file: PathBuf,
    },
    /// A checkpoint that another training wrote.
    #[error(
        "{} is a checkpoint of another training: {} differ; of a training that goes on only {} may be changed",
        path.display(), quoted(differ), free.join(", ")
    )]
    OtherTraining {
        /// The checkpoint.
        path: PathBuf,
        /// The names of settings that differ.
        differ: Vec<String>,
        /// The names of those that may.
        free: &'static [&'static str],
    },
    /// A configuration that cannot be read.
    #[error("{}{what}", place(path.as_deref(), *line))]
    Config {
        /// The file, if it comes from one.
        path: Option<PathBuf>,
        /// The line to blame, counted from 1, if it is known.
        line: Option<usize>,
        /// The key to blame, such as `optim.lr`, if it is known.
        key: Option<String>,
        /// What is wrong and what to do.
        what: String,
    },
    /// Data that do not give the batches that they promise.
    #[error(
        "an epoch should have {promised} batches, and batch {missing} of epoch {epoch} did not come"
    )]
    MissingBatch {
        /// Batches of an epoch.
        promised: usize,
        /// The batch that is missing, counted from 0.
        missing: usize,
        /// The epoch, counted from 0.
        epoch: u64,
    },
    /// What a module, a loss or data of the caller say.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
    /// A layer that ONNX has no words for, or none in the size it has.
    #[error("{layer} cannot be exported: {why}")]
    NoExport {
        /// Which one.
        layer: String,
        /// What stands against it.
        why: String,
    },
    /// The loss is no number any more.
    #[error(
        "the loss is {loss} at step {step}; {origin}. Try a smaller learning rate, clip gradients \
         (optim.clip), or look at the data"
    )]
    NotFinite {
        /// The loss.
        loss: f64,
        /// The step.
        step: u64,
        /// Which layer was the first with a result that is not finite.
        origin: String,
    },
    /// Gradients that are too large for half precision, step after step.
    #[error(
        "at step {step} the gradients are not finite in half precision, as in the steps before it, although the \
         loss is not scaled up any more, so that no step is taken. Try train.precision = \"f32\", or a smaller \
         learning rate (optim.lr)"
    )]
    Overflow {
        /// The step.
        step: u64,
    },
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Tensor(error) => error.kind(),
            Self::Data(error) => error.kind(),
            Self::BatchTooLarge { .. } => ErrorKind::OutOfMemory,
            Self::InvalidParameter { .. } => ErrorKind::InvalidArgument,
            Self::WrongState { .. } => ErrorKind::InvalidData,
            Self::File { kind, .. } => *kind,
            Self::FolderInUse { .. } | Self::FolderHasTraining { .. } => ErrorKind::Io,
            Self::OtherTraining { .. } | Self::MissingBatch { .. } | Self::Other(_) => {
                ErrorKind::InvalidArgument
            }
            Self::Config { .. } => ErrorKind::InvalidData,
            Self::NoExport { .. } => ErrorKind::Unsupported,
            Self::NotFinite { .. } | Self::Overflow { .. } => ErrorKind::NotFinite,
        }
    }

    /// An error of a module, a loss or data of one's own, or a text that says what is wrong.
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Other(error.into())
    }

    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::InvalidParameter { what: what.into() }
    }

    /// A file that is not what it should be.
    pub(crate) fn file(path: impl Into<PathBuf>, why: impl ToString) -> Self {
        Self::File { path: path.into(), why: why.to_string(), kind: ErrorKind::InvalidData }
    }

    /// A file that the system does not let be read or written.
    pub(crate) fn io(path: impl Into<PathBuf>, error: &std::io::Error) -> Self {
        Self::io_in_words(path, error, error.to_string())
    }

    /// The same, with what was tried and what to do.
    pub(crate) fn io_in_words(
        path: impl Into<PathBuf>,
        error: &std::io::Error,
        why: String,
    ) -> Self {
        Self::File { path: path.into(), why, kind: ErrorKind::of_io(error) }
    }

    /// Whether a device had no room.
    pub fn is_out_of_memory(&self) -> bool {
        use polaris_runtime::Error as Runtime;
        let Self::Tensor(polaris_tensor::Error::Operation(polaris_ops::Error::Runtime(error))) =
            self
        else {
            return false;
        };
        matches!(error, Runtime::OutOfMemory { .. } | Runtime::AllocationTooLarge { .. })
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn place(path: Option<&Path>, line: Option<usize>) -> String {
    match (path, line) {
        (Some(path), Some(line)) => format!("{}:{line}: ", path.display()),
        (Some(path), None) => format!("{}: ", path.display()),
        (None, Some(line)) => format!("line {line}: "),
        (None, None) => String::new(),
    }
}

fn advice(fits: Option<usize>) -> String {
    match fits {
        Some(batch) => format!("a batch of {batch} was tried and fits"),
        None => "not even a single example fits: take a smaller model or another device".to_owned(),
    }
}

impl From<polaris_ops::Error> for Error {
    fn from(error: polaris_ops::Error) -> Self {
        Self::Tensor(error.into())
    }
}

impl From<polaris_core::Error> for Error {
    fn from(error: polaris_core::Error) -> Self {
        Self::Tensor(error.into())
    }
}

impl From<polaris_runtime::Error> for Error {
    fn from(error: polaris_runtime::Error) -> Self {
        Self::Tensor(error.into())
    }
}
