//! The errors of imported models: files, inputs, tokenizers, outputs.

use std::io;
use std::path::{Path, PathBuf};

use polaris_core::ErrorKind;

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of an imported model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// In a tokenizer or in a text.
    #[error(transparent)]
    Data(#[from] polaris_data::Error),
    /// In the model's plan or its run.
    #[error(transparent)]
    Graph(#[from] polaris_graph::Error),
    /// A file or folder that cannot be read.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The reason of the operating system.
        cause: io::Error,
    },
    /// In a file of the model.
    #[error("{}: {why}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong and what to do.
        why: String,
    },
    /// A model without the tokenizer that it was trained with.
    #[error(
        "{}: there is no tokenizer.json; copy the model's one there, or name its path. If there is only a \
         vocab.txt, create it with Python's transformers: \
         AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
        folder.display()
    )]
    NoTokenizer {
        /// The folder that was searched.
        folder: PathBuf,
    },
    /// An option that the model does not accept.
    #[error("{option} = {value}: {why}")]
    BadOption {
        /// Its name.
        option: &'static str,
        /// What was given.
        value: String,
        /// Why it is invalid, and what is accepted.
        why: String,
    },
    /// A model without the inputs or outputs of a text encoder.
    #[error("this model is not a text encoder: {why}")]
    NotAnEncoder {
        /// What it has instead.
        why: String,
    },
    /// A symbolic dimension that the model does not have.
    #[error("the model has no symbolic dimension `{name}`; it has {known}")]
    UnknownLength {
        /// What was given.
        name: String,
        /// The model's symbolic dimensions.
        known: String,
    },
    /// An input without a declared shape, so that no values can be generated for it.
    #[error("the model does not declare the shape of its input `{input}`")]
    UndeclaredShape {
        /// The input.
        input: String,
    },
    /// An image for an input that takes none.
    #[error("an image needs an input of type f32[N, 3, H, W]; `{input}` has another type")]
    NoImageInput {
        /// The input.
        input: String,
    },
    /// An input that cannot be filled with random values.
    #[error("no random values {why}")]
    NoRandomInput {
        /// Which input, why not, and what to do.
        why: String,
    },
    /// Memory that the system refused.
    #[error("no memory for {what}: {error}")]
    NoMemory {
        /// For what.
        what: String,
        /// What the allocator says.
        error: std::collections::TryReserveError,
    },
    /// The text could not be read.
    #[error("cannot read line {line} of the text: {cause}")]
    Reading {
        /// The line that could not be read, counted from 1.
        line: u64,
        /// The reason of the operating system.
        cause: std::io::Error,
    },
    /// A vector could not be written.
    #[error("cannot write the vectors: {cause}")]
    Writing {
        /// The reason of the operating system.
        cause: std::io::Error,
    },
    /// The listener stopped the stream.
    #[error("stopped before the end of the text")]
    Stopped,
}

/// The largest JSON file of a model that is read; usual ones have some kilobytes.
#[cfg(feature = "text")]
pub(crate) const LARGEST_JSON: u64 = 16 << 20;

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Data(error) => error.kind(),
            Self::Graph(error) => error.kind(),
            Self::Io { cause, .. } | Self::Reading { cause, .. } | Self::Writing { cause } => {
                ErrorKind::of_io(cause)
            }
            Self::File { .. } => ErrorKind::InvalidData,
            Self::NoTokenizer { .. } => ErrorKind::NotFound,
            Self::BadOption { .. } | Self::UnknownLength { .. } => ErrorKind::InvalidArgument,
            Self::NotAnEncoder { .. }
            | Self::UndeclaredShape { .. }
            | Self::NoImageInput { .. }
            | Self::NoRandomInput { .. } => ErrorKind::Unsupported,
            Self::NoMemory { .. } => ErrorKind::OutOfMemory,
            Self::Stopped => ErrorKind::Cancelled,
        }
    }

    #[cfg(feature = "text")]
    pub(crate) fn io(path: &Path, cause: io::Error) -> Self {
        Self::Io { path: path.to_owned(), cause }
    }

    pub(crate) fn file(path: &Path, why: impl ToString) -> Self {
        Self::File { path: path.to_owned(), why: why.to_string() }
    }
}

impl From<polaris_onnx::Error> for Error {
    fn from(error: polaris_onnx::Error) -> Self {
        Self::Graph(error.into())
    }
}
