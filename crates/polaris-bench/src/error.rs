//! The errors of benchmarks.

use std::io;
use std::path::{Path, PathBuf};

use polaris_core::ErrorKind;

/// The result of a fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a benchmark.
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
    /// In a model's plan or its run.
    #[error(transparent)]
    Graph(#[from] polaris_graph::Error),
    /// In the inputs of a model.
    #[error(transparent)]
    Models(#[from] polaris_models::Error),
    /// In a trained model.
    #[error(transparent)]
    Nn(#[from] polaris_nn::Error),
    /// In a graph or a tensor.
    #[error(transparent)]
    Onnx(#[from] polaris_onnx::Error),
    /// In a text or its tokenizer.
    #[error(transparent)]
    Data(#[from] polaris_data::Error),
    /// In another library.
    #[error(transparent)]
    Peer(#[from] polaris_peers::Error),
    /// A file that cannot be read or written.
    #[error("could not {action} {}", path.display())]
    File {
        /// The attempted action.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file of results that is not JSON.
    #[error("{} is damaged; remove it to start again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A file of results of another version.
    #[error("{} is not of version {expected}; remove it to start again", path.display())]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// The version that can be read.
        expected: &'static str,
    },
    /// Results that cannot be serialised as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Text that is not a size, sweep, type or variant.
    #[error("{0}")]
    Unreadable(String),
    /// Kernels are chosen on OpenCL devices only.
    #[error("kernels are chosen on OpenCL devices only, and there is none")]
    NoOpenCl,
    /// A workload with wrong results: a bug in Polaris.
    #[error("{0}")]
    BadWorkload(&'static str),
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Runtime(error) => error.kind(),
            Self::Ops(error) => error.kind(),
            Self::Core(error) => error.kind(),
            Self::Graph(error) => error.kind(),
            Self::Models(error) => error.kind(),
            Self::Onnx(error) => error.kind(),
            Self::Data(error) => error.kind(),
            Self::Nn(error) => error.kind(),
            Self::Peer(_) | Self::NoOpenCl => ErrorKind::NotFound,
            Self::File { source, .. } => ErrorKind::of_io(source),
            Self::Damaged { .. }
            | Self::OtherVersion { .. }
            | Self::Json(_)
            | Self::Unreadable(_) => ErrorKind::InvalidData,
            Self::BadWorkload(_) => ErrorKind::InvalidArgument,
        }
    }

    /// The runtime's error, if that is the cause.
    pub fn runtime(&self) -> Option<&polaris_runtime::Error> {
        match self {
            Self::Runtime(error) | Self::Ops(polaris_ops::Error::Runtime(error)) => Some(error),
            _ => None,
        }
    }

    /// Whether something is too large for a device, so that something smaller may still fit.
    pub fn is_too_large(&self) -> bool {
        use polaris_runtime::Error::{AllocationTooLarge, OutOfMemory};
        matches!(self.runtime(), Some(OutOfMemory { .. } | AllocationTooLarge { .. }))
    }

    /// A file that cannot be read or written.
    pub(crate) fn file(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File { action, path: path.to_owned(), source }
    }

    /// The error of cancelled work.
    pub(crate) fn interrupted() -> Self {
        Self::Runtime(polaris_runtime::Error::Interrupted)
    }
}

/// Returns an error if the work was cancelled.
pub(crate) fn go_on(cancellation: &polaris_core::CancellationToken) -> Result<()> {
    if cancellation.is_cancelled() { Err(Error::interrupted()) } else { Ok(()) }
}
