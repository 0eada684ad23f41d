//! What can go wrong between a model's files and what is made of its outputs.

use std::path::{Path, PathBuf};

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// In a tokenizer or in a text.
    #[error(transparent)]
    Data(#[from] polaris_data::Error),
    /// In the model's plan or its run.
    #[error(transparent)]
    Graph(#[from] polaris_graph::Error),
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
        "{}: there is no tokenizer.json beside the model; put the one of the model there, or name it \
         (--tokenizer FILE). Where there is only a vocab.txt, Python's transformers makes one: \
         AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
        folder.display()
    )]
    NoTokenizer {
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// An option that does not fit the model.
    #[error("{option} = {value}: {why}")]
    BadOption {
        /// Its name.
        option: &'static str,
        /// What was given.
        value: String,
        /// Why it cannot be, and what can.
        why: String,
    },
    /// Inputs or outputs that text cannot be given to, or that give no vectors.
    #[error("this model turns no text into vectors: {why}")]
    NotAnEncoder {
        /// What it has instead.
        why: String,
    },
    /// A model without an open length of that name.
    #[error("--dim {name}: the model has no open length of this name; it has {known}")]
    UnknownLength {
        /// What was given.
        name: String,
        /// Those that the model has.
        known: String,
    },
    /// An input whose shape is not declared, so that nothing can be made for it.
    #[error("the model does not declare the shape of its input `{input}`")]
    UndeclaredShape {
        /// The input.
        input: String,
    },
    /// A picture for an input that takes none.
    #[error("an image needs an input of f32[N, 3, H, W]; `{input}` is another")]
    NoImageInput {
        /// The input.
        input: String,
    },
    /// An input that no random numbers are made for.
    #[error("no random numbers {why}")]
    NoRandomInput {
        /// Which input, why not, and what to do.
        why: String,
    },
    /// Memory that the system does not give.
    #[error("no memory for {what}: {error}")]
    NoMemory {
        /// For what.
        what: String,
        /// What the allocator says.
        error: std::collections::TryReserveError,
    },
    /// The text could not be read.
    #[error("line {line}: the text cannot be read: {cause}")]
    Reading {
        /// The line that could not be read, counted from 1.
        line: u64,
        /// What the operating system says.
        cause: std::io::Error,
    },
    /// A vector could not be written.
    #[error("the vectors cannot be written: {cause}")]
    Writing {
        /// What the operating system says.
        cause: std::io::Error,
    },
    /// Whoever asked for the vectors wants no more of them.
    #[error("stopped before all of the text was read")]
    Stopped,
}

/// The largest file of JSON beside a model that is read; those that occur have some kilobytes.
pub(crate) const LARGEST_JSON: u64 = 16 << 20;

impl Error {
    pub(crate) fn file(path: &Path, why: impl ToString) -> Self {
        Self::File { path: path.to_owned(), why: why.to_string() }
    }
}

impl From<polaris_onnx::Error> for Error {
    fn from(error: polaris_onnx::Error) -> Self {
        Self::Graph(error.into())
    }
}
