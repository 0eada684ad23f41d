//! What can go wrong in a benchmark.

use std::io;
use std::path::{Path, PathBuf};

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
    /// In a model's plan or its run.
    #[error(transparent)]
    Graph(#[from] polaris_graph::Error),
    /// In the inputs of a model.
    #[error(transparent)]
    Models(#[from] polaris_models::Error),
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
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of results that is no JSON.
    #[error("{} is damaged; remove it to begin anew", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A file of results of another version.
    #[error("{} is not of the version {expected}; remove it to begin anew", path.display())]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// The version that can be read.
        expected: &'static str,
    },
    /// Results that have no form as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Text that names no size, sweep, type or variant.
    #[error("{0}")]
    Unreadable(String),
    /// Kernels are chosen on OpenCL devices only.
    #[error("kernels are chosen on OpenCL devices, and there is none; `polaris devices` says why")]
    NoOpenCl,
    /// A workload that gives what it should not; a fault of Polaris.
    #[error("{0}")]
    BadWorkload(&'static str),
}

impl Error {
    /// What the runtime said, if that is behind it.
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

    /// That a file cannot be read or written.
    pub(crate) fn file(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File { action, path: path.to_owned(), source }
    }

    /// The end of work that nobody wants any more.
    pub(crate) fn interrupted() -> Self {
        Self::Runtime(polaris_runtime::Error::Interrupted)
    }
}

/// Ends work that nobody wants any more.
pub(crate) fn go_on(cancellation: &polaris_core::CancellationToken) -> Result<()> {
    if cancellation.is_cancelled() { Err(Error::interrupted()) } else { Ok(()) }
}
