//! What can go wrong between a model and its training.

use std::path::PathBuf;

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
    },
    /// A training's folder that another process is writing to.
    #[error(
        "{}: another training is writing to this folder; wait for its end, or name another folder (--out)",
        path.display()
    )]
    FolderInUse {
        /// The folder.
        path: PathBuf,
    },
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
    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::InvalidParameter { what: what.into() }
    }

    pub(crate) fn file(path: impl Into<PathBuf>, why: impl ToString) -> Self {
        Self::File { path: path.into(), why: why.to_string() }
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

fn advice(fits: Option<usize>) -> String {
    match fits {
        Some(batch) => format!("a batch of {batch} was tried and fits (--set train.batch={batch})"),
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
