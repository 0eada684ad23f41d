//! The errors of tokenizers: their files, and texts that they cannot encode.

use std::fmt;
use std::path::PathBuf;

use polaris_core::{ErrorKind, printable};

use crate::pre;

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Metadata of a GGUF file that is missing or of another type.
    #[error(transparent)]
    Gguf(#[from] polaris_gguf::Error),
    /// A kind of tokenizer that is not implemented.
    #[error(
        "the metadata key `tokenizer.ggml.model` is `{}`; supported are gpt2, llama, bert and gemma4",
        Shown(found)
    )]
    Model {
        /// Its name in the file.
        found: String,
    },
    /// A way to split text into words that is not known.
    #[error(
        "the metadata key `tokenizer.ggml.pre` is `{}`; supported are {}",
        Shown(found),
        pre::list()
    )]
    PreTokenizer {
        /// Its name in the file.
        found: String,
    },
    /// A vocabulary that contradicts itself.
    #[error("the tokenizer's vocabulary cannot be used: {why}")]
    Vocabulary {
        /// What was found and what is accepted.
        why: String,
    },
    /// Text that the vocabulary has no tokens for.
    #[error("the vocabulary has no token for {what}, and no token for unknown text")]
    NoToken {
        /// The byte or character.
        what: String,
    },
    /// A text that is too long to be encoded in one call.
    #[error("the text has {bytes} bytes; at most {limit} are encoded in one call")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The most that is accepted.
        limit: usize,
    },
    /// A step that the `tokenizers` library refused.
    #[error("the tokenizer cannot {action}: {reason}")]
    Library {
        /// What was tried.
        action: &'static str,
        /// The library's reason.
        reason: String,
    },
    /// A `tokenizer.json` that contradicts itself, so that the `tokenizers` library fails on it.
    #[error("the tokenizer contradicts itself: it cannot {action} ({reason})")]
    Contradiction {
        /// What was tried.
        action: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file that is not what it should be.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: Box<Error>,
    },
    /// JSON that is none, or in which a value is of another type.
    #[error("not valid: {reason}")]
    Json {
        /// What was found, where, and what is accepted.
        reason: String,
    },
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Gguf(error) => error.kind(),
            Self::Model { .. } | Self::PreTokenizer { .. } => ErrorKind::Unsupported,
            Self::Vocabulary { .. } | Self::Json { .. } => ErrorKind::InvalidData,
            Self::Library { .. } | Self::Contradiction { .. } => ErrorKind::InvalidData,
            Self::NoToken { .. } | Self::TooLong { .. } => ErrorKind::InvalidArgument,
            Self::Read { source, .. } => ErrorKind::of_io(source),
            Self::File { reason, .. } => reason.kind(),
        }
    }

    pub(crate) fn vocabulary(why: impl Into<String>) -> Self {
        Self::Vocabulary { why: why.into() }
    }
}

/// Text of a file as messages show it: safe to print, and at most a line long.
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
