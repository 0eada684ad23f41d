//! The errors of loading and running language models.

use std::path::PathBuf;

use polaris_core::ErrorKind;

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a language model or its run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// In a GGUF file.
    #[error(transparent)]
    Gguf(#[from] polaris_gguf::Error),
    /// In a tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] polaris_tokenizer::Error),
    /// In a chat template.
    #[error(transparent)]
    Chat(#[from] polaris_chat::Error),
    /// In the options of sampling, or in a grammar.
    #[error(transparent)]
    Sample(#[from] polaris_sample::Error),
    /// In an operation on a device.
    #[error(transparent)]
    Ops(#[from] polaris_ops::Error),
    /// In a device or its memory.
    #[error(transparent)]
    Runtime(#[from] polaris_runtime::Error),
    /// In shapes.
    #[error(transparent)]
    Core(#[from] polaris_core::Error),
    /// A file that cannot be read, or whose contents are not what they should be.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
        /// What a caller can do about it.
        kind: ErrorKind,
    },
    /// An architecture that Polaris does not have.
    #[error("the architecture `{name}` is not supported; supported are {known}")]
    UnknownArchitecture {
        /// What the file says.
        name: String,
        /// Those that are supported.
        known: String,
    },
    /// A model that does not predict the next token.
    #[error(
        "the architecture `{name}` is a diffusion model: it fills in all tokens of a text at once, and cannot continue one"
    )]
    NotAutoregressive {
        /// The architecture.
        name: &'static str,
    },
    /// A model that contradicts itself, or has a part that Polaris does not have.
    #[error("the model cannot be used: {what}")]
    Model {
        /// What is wrong.
        what: String,
    },
    /// A tensor of another shape than the model's metadata say.
    #[error("the tensor `{name}` has the shape {found}; expected is {expected}")]
    TensorShape {
        /// The tensor.
        name: String,
        /// Its shape.
        found: String,
        /// The shape that it should have.
        expected: String,
    },
    /// More tokens than the context holds.
    #[error(
        "{tokens} tokens do not fit a context of {context}; give a shorter text or a larger context"
    )]
    ContextFull {
        /// The tokens that were to be in it.
        tokens: usize,
        /// What it holds.
        context: usize,
    },
    /// A context whose cache does not fit the device.
    #[error(
        "a context of {context} tokens needs {needed} bytes on {device}, which has {free}; about {fitting} tokens fit"
    )]
    ContextTooLarge {
        /// The tokens that were asked for.
        context: usize,
        /// Bytes of its cache and workspace.
        needed: u64,
        /// The device.
        device: String,
        /// Bytes that are free there.
        free: u64,
        /// The context that would fit.
        fitting: usize,
    },
    /// An argument outside its domain.
    #[error("{what}")]
    Argument {
        /// What was asked, and what is accepted.
        what: String,
    },
    /// The caller cancelled the work.
    #[error("cancelled")]
    Cancelled,
}

impl Error {
    /// A model that cannot be used, and why.
    pub(crate) fn model(what: impl Into<String>) -> Self {
        Self::Model { what: what.into() }
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Gguf(error) => error.kind(),
            Self::Ops(error) => error.kind(),
            Self::Runtime(error) => error.kind(),
            Self::Core(error) => error.kind(),
            Self::File { kind, .. } => *kind,
            Self::UnknownArchitecture { .. } | Self::NotAutoregressive { .. } => {
                ErrorKind::Unsupported
            }
            Self::Tokenizer(_) | Self::Chat(_) | Self::Model { .. } | Self::TensorShape { .. } => {
                ErrorKind::InvalidData
            }
            Self::Sample(_) | Self::ContextFull { .. } | Self::Argument { .. } => {
                ErrorKind::InvalidArgument
            }
            Self::ContextTooLarge { .. } => ErrorKind::OutOfMemory,
            Self::Cancelled => ErrorKind::Cancelled,
        }
    }
}
