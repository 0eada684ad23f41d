//! What can go wrong with a chat template.

use polaris_core::{ErrorKind, printable, printable_lines};

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A template that does not parse. A caller can warn and use [`Template::chatml`](crate::Template::chatml).
    #[error("line {line} of the chat template: {why}")]
    Syntax {
        /// The line, from 1.
        line: u32,
        /// What was found and what is accepted.
        why: String,
    },
    /// A statement that cannot be carried out for this conversation.
    #[error("line {line} of the chat template: {why}")]
    Render {
        /// The line, from 1.
        line: u32,
        /// What was found and what is accepted.
        why: String,
    },
    /// The template refuses the conversation with `raise_exception`.
    #[error("the chat template refuses this conversation: {}", printable_lines(message))]
    Refused {
        /// What the template says.
        message: String,
    },
    /// A template that does too much: it is hostile or broken.
    #[error("line {line} of the chat template: {what} exceeds the limit of {limit}")]
    Limit {
        /// The line, from 1.
        line: u32,
        /// What there is too much of.
        what: &'static str,
        /// How much is accepted.
        limit: u64,
    },
    /// A message, tool or variable that is not of the kind that a conversation has.
    #[error("{what}: {why}")]
    Message {
        /// Which one.
        what: String,
        /// What was found and what is accepted.
        why: String,
    },
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Syntax { .. } | Self::Render { .. } | Self::Limit { .. } => {
                ErrorKind::InvalidData
            }
            Self::Refused { .. } | Self::Message { .. } => ErrorKind::InvalidArgument,
        }
    }

    pub(crate) fn syntax(line: u32, why: impl Into<String>) -> Self {
        Self::Syntax { line, why: why.into() }
    }

    /// An error whose line the interpreter knows and [`Error::at`] adds.
    pub(crate) fn render(why: impl Into<String>) -> Self {
        Self::Render { line: 0, why: why.into() }
    }

    pub(crate) fn limit(what: &'static str, limit: u64) -> Self {
        Self::Limit { line: 0, what, limit }
    }

    pub(crate) fn message(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Message { what: what.into(), why: why.into() }
    }

    /// The error with this line, unless it has one.
    pub(crate) fn at(mut self, here: u32) -> Self {
        match &mut self {
            Self::Syntax { line, .. } | Self::Render { line, .. } | Self::Limit { line, .. }
                if *line == 0 =>
            {
                *line = here
            }
            _ => {}
        }
        self
    }
}

/// Text of a template as it is shown in messages: safe to print, and not longer than a line.
pub(crate) fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", printable(&text[..end])),
        None => printable(text).into_owned(),
    }
}
