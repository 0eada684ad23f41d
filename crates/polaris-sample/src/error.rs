//! What can go wrong when a token is chosen.

use std::fmt;

use polaris_core::{ErrorKind, printable};

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option outside its range.
    #[error("the option `{name}` is {found}; accepted are {accepted}")]
    Option {
        /// The field of `Options`.
        name: &'static str,
        /// Its value.
        found: String,
        /// The accepted range.
        accepted: String,
    },
    /// Logits that are not one number per token of the vocabulary.
    #[error("{found} logits, but the vocabulary has {expected} tokens")]
    Length {
        /// How many were given.
        found: usize,
        /// The size of the vocabulary.
        expected: usize,
    },
    /// A logit that is no number to choose by.
    #[error("the logit of token {token} is {value}; accepted are finite numbers and -inf")]
    Logit {
        /// The token.
        token: usize,
        /// Its logit.
        value: f32,
    },
    /// Every token is excluded.
    #[error("no token is left to choose: {why}")]
    NoToken {
        /// What excludes them.
        why: &'static str,
    },
    /// A token that the vocabulary does not have.
    #[error("token {token} is not in the vocabulary, whose tokens are 0 to {}", size.saturating_sub(1))]
    Token {
        /// The token.
        token: u32,
        /// The size of the vocabulary.
        size: usize,
    },
    /// A grammar that is not valid GBNF.
    #[error("not a valid grammar: line {line}, column {column}: {why}")]
    Grammar {
        /// The line, from 1.
        line: usize,
        /// The character in the line, from 1.
        column: usize,
        /// What was found and what is accepted.
        why: String,
    },
    /// A rule that cannot be used.
    #[error("the rule `{rule}` {why}")]
    Rule {
        /// The rule's name; for schemas, the part of the schema that it stands for.
        rule: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A JSON schema that is not valid.
    #[error("not a valid JSON schema: {at}: {why}")]
    Schema {
        /// The JSON pointer of the part, or the position in the text.
        at: String,
        /// What was found and what is accepted.
        why: String,
    },
    /// A valid JSON schema with something that has no grammar here.
    #[error("not supported in a JSON schema: {at}: {what}")]
    Unsupported {
        /// The JSON pointer of the part.
        at: String,
        /// What was found and what is accepted.
        what: String,
    },
    /// A limit that keeps hostile grammars from using up memory and time.
    #[error("{what} exceed the limit of {limit}")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// How much is accepted.
        limit: usize,
    },
    /// Text that the grammar does not allow here.
    #[error("the grammar does not allow {text} here")]
    Rejected {
        /// The text, escaped.
        text: String,
    },
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Option { .. } | Self::Length { .. } | Self::Token { .. } => {
                ErrorKind::InvalidArgument
            }
            Self::Logit { .. } => ErrorKind::NotFinite,
            Self::NoToken { .. } | Self::Rejected { .. } => ErrorKind::InvalidArgument,
            Self::Grammar { .. } | Self::Rule { .. } | Self::Schema { .. } => {
                ErrorKind::InvalidData
            }
            Self::Unsupported { .. } | Self::Limit { .. } => ErrorKind::Unsupported,
        }
    }

    pub(crate) fn limit(what: &'static str, limit: usize) -> Self {
        Self::Limit { what, limit }
    }

    pub(crate) fn rejected(bytes: &[u8]) -> Self {
        Self::Rejected { text: format!("`{}`", Shown(&String::from_utf8_lossy(bytes))) }
    }
}

/// Text of others as it is shown in messages: safe to print, and not longer than a line.
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
