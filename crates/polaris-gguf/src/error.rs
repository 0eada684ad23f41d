//! What can go wrong with a GGUF file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use polaris_core::{ErrorKind, printable};

use crate::TensorType;

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes that are not what the format says.
    #[error("not a valid GGUF file: at byte {at}: {why}")]
    Format {
        /// The position in the file.
        at: u64,
        /// What was found there and what is accepted.
        why: String,
    },
    /// A valid file of a kind that is not read.
    #[error("not supported: {what}")]
    Unsupported {
        /// What was found and what is accepted.
        what: String,
    },
    /// A tensor of a type that is not in [`TensorType::ALL`].
    #[error(
        "at byte {at}: the tensor `{tensor}` has the type {id}{}; supported are {}",
        TensorType::name_of_unsupported(*id).map(|name| format!(" ({name})")).unwrap_or_default(),
        TensorType::list()
    )]
    UnknownType {
        /// The position in the file.
        at: u64,
        /// The tensor's name.
        tensor: String,
        /// The type's number in the file.
        id: u32,
    },
    /// Metadata that is missing or not of the kind that was asked for.
    #[error("the metadata key `{key}` {why}")]
    Key {
        /// The key.
        key: String,
        /// What was found and what is expected.
        why: String,
    },
    /// A tensor that does not fit its type, shape or bytes.
    #[error("the tensor `{name}` {why}")]
    Tensor {
        /// Its name.
        name: String,
        /// What was found and what is expected.
        why: String,
    },
    /// A tensor that the file does not have.
    #[error("the file has no tensor `{name}`; `Gguf::tensors` lists the {count} that it has")]
    NoTensor {
        /// The name that was asked for.
        name: String,
        /// How many tensors there are.
        count: usize,
    },
    /// Numbers or bytes that do not end with a block.
    #[error("{ty}: {why}")]
    Block {
        /// The type.
        ty: TensorType,
        /// What was found and what is accepted.
        why: String,
    },
    /// Weights that a format of blocks cannot hold.
    #[error(transparent)]
    Weights(#[from] polaris_blocks::Error),
    /// No memory for what was asked for.
    #[error("the system has no {bytes} bytes of memory left; end other programs")]
    OutOfMemory {
        /// What was asked for.
        bytes: usize,
    },
    /// A file that cannot be written.
    #[error("cannot write {}: {source}{}", path.display(), polaris_files::write_advice(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file that cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The opener's reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An error in a file that was opened by its path.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: Box<Error>,
    },
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Format { .. } => ErrorKind::InvalidData,
            Self::Unsupported { .. } | Self::UnknownType { .. } => ErrorKind::Unsupported,
            Self::Key { .. } => ErrorKind::InvalidData,
            Self::Tensor { .. } | Self::Block { .. } | Self::Weights(_) => {
                ErrorKind::InvalidArgument
            }
            Self::NoTensor { .. } => ErrorKind::NotFound,
            Self::OutOfMemory { .. } => ErrorKind::OutOfMemory,
            Self::Write { source, .. } => ErrorKind::of_io(source),
            Self::Open { source, .. } => {
                source.downcast_ref().map_or(ErrorKind::Io, ErrorKind::of_io)
            }
            Self::File { reason, .. } => reason.kind(),
        }
    }

    pub(crate) fn format(at: usize, why: impl Into<String>) -> Self {
        Self::Format { at: at as u64, why: why.into() }
    }

    pub(crate) fn key(key: &str, why: impl Into<String>) -> Self {
        Self::Key { key: Shown(key).to_string(), why: why.into() }
    }

    pub(crate) fn tensor(name: &str, why: impl Into<String>) -> Self {
        Self::Tensor { name: Shown(name).to_string(), why: why.into() }
    }

    pub(crate) fn block(ty: TensorType, why: impl Into<String>) -> Self {
        Self::Block { ty, why: why.into() }
    }

    pub(crate) fn in_file(self, path: &Path) -> Self {
        Self::File { path: path.to_owned(), reason: Box::new(self) }
    }
}

/// Text of a file as it is shown in messages: safe to print, and not longer than a line. It is made only where a
/// message is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown<'a>(pub &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 80;
        match self.0.char_indices().nth(LONGEST) {
            Some((end, _)) => write!(f, "{}...", printable(&self.0[..end])),
            None => f.write_str(&printable(self.0)),
        }
    }
}

/// An empty vector with room for so many elements, or an error where there is no memory for them.
pub(crate) fn with_room<T>(count: usize) -> Result<Vec<T>> {
    let mut vector = Vec::new();
    vector
        .try_reserve_exact(count)
        .map_err(|_| Error::OutOfMemory { bytes: count.saturating_mul(size_of::<T>()) })?;
    Ok(vector)
}
