//! The errors of data sets, their files and their options.

use std::path::PathBuf;

use polaris_core::ErrorKind;

use crate::Kind;

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a data set, its files or its options.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that cannot be opened, read or written.
    #[error("{}: cannot {action}: {cause}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The attempted action: open, read, list or write.
        action: &'static str,
        /// The reason of the operating system.
        cause: std::io::Error,
    },
    /// A file that violates its format.
    #[error("{}: not a readable {format} file: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format it was read as.
        format: &'static str,
        /// What is wrong, and where.
        reason: String,
    },
    /// A cell of a table that cannot be used.
    #[error("{}, line {line}, column `{column}`: {reason}", path.display())]
    Cell {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The name of the column.
        column: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A row of a table with more or fewer fields than the header.
    #[error(
        "{}, line {line}: {found} fields, the header has {expected}; give every row one field per \
         column, or check the delimiter", path.display()
    )]
    FieldCount {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// Fields in the header.
        expected: usize,
        /// Fields in the row.
        found: usize,
    },
    /// An unknown column, array or class.
    #[error(
        "{}: there is no {what} `{name}`; there are {}{}", path.display(), list(known),
        nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default()
    )]
    UnknownName {
        /// Where it was looked for.
        path: PathBuf,
        /// Column, array or class.
        what: &'static str,
        /// The name requested.
        name: String,
        /// The names there are.
        known: Vec<String>,
        /// The most similar of them, if one is similar.
        nearest: Option<String>,
    },
    /// A file or folder without examples.
    #[error("{}: no examples: {reason}", path.display())]
    Empty {
        /// The file or folder.
        path: PathBuf,
        /// What was looked for and what to do.
        reason: String,
    },
    /// Inputs and targets, or values and dimensions, of different numbers.
    #[error("{what}: {expected} were expected, {found} found; {hint}")]
    CountMismatch {
        /// What was counted.
        what: String,
        /// How many there should be.
        expected: usize,
        /// How many there are.
        found: usize,
        /// What to do.
        hint: &'static str,
    },
    /// Values of the wrong kind.
    #[error("{what}: expected values of kind {expected}, found {found}")]
    KindMismatch {
        /// Which values.
        what: String,
        /// The kind expected.
        expected: Kind,
        /// The kind found.
        found: Kind,
    },
    /// Dimensions with no elements, or more than can be addressed.
    #[error(
        "an example of dimensions {dims:?} is empty or too large; use dimensions of at least 1 whose product fits memory"
    )]
    BadDims {
        /// The dimensions.
        dims: Vec<usize>,
    },
    /// An invalid option.
    #[error("{option} = {value}: {reason}")]
    BadOption {
        /// The name of the option.
        option: &'static str,
        /// The value it has.
        value: String,
        /// Why it is invalid, and what is accepted.
        reason: String,
    },
    /// An example that does not exist.
    #[error("example {index} is out of range; the data set has {len}, counted from 0")]
    IndexOutOfRange {
        /// The index requested.
        index: usize,
        /// How many there are.
        len: usize,
    },
    /// A target that is not a class index.
    #[error("example {index} has class {class}, but there are {classes} classes, counted from 0")]
    ClassOutOfRange {
        /// Which example.
        index: usize,
        /// Its class.
        class: i64,
        /// How many classes there are.
        classes: usize,
    },
    /// A text too short for one example.
    #[error(
        "the text has {tokens} tokens; a context of {context} needs at least {} (each token's \
         target is the next one); give more text or a shorter context", context.saturating_add(1)
    )]
    TextTooShort {
        /// How many tokens there are.
        tokens: usize,
        /// The context requested.
        context: usize,
    },
    /// A tokenizer that cannot be read, trained or used.
    #[error("tokenizer: cannot {action}: {reason}")]
    Tokenizer {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        reason: String,
    },
    /// A tokenizer whose parts contradict each other.
    #[error("the tokenizer contradicts itself: {reason}; use the tokenizer.json of the model")]
    BadTokenizer {
        /// The contradiction.
        reason: String,
    },
    /// A data set whose examples differ from what it declares.
    #[error(
        "the data set declares {expected} {what} values of kind {kind} per example, but example {index} has \
         {found} of kind {found_kind}; this is a bug in the data set"
    )]
    BrokenDataset {
        /// Which example.
        index: usize,
        /// Input or target.
        what: &'static str,
        /// How many values an example should have.
        expected: usize,
        /// Of which kind.
        kind: Kind,
        /// How many it gave.
        found: usize,
        /// Of which kind they were.
        found_kind: Kind,
    },
    /// Not enough memory.
    #[error("not enough memory for {what}: {reason}; use smaller batches or less data")]
    NoMemory {
        /// What needs it.
        what: String,
        /// How much is needed, and how much there is.
        reason: String,
    },
    /// The thread that prepares batches panicked.
    #[error("the thread that reads the data panicked: {message}; this is a bug in the data set")]
    Panicked {
        /// Its panic message.
        message: String,
    },
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { cause, .. } => ErrorKind::of_io(cause),
            Self::Format { .. }
            | Self::Cell { .. }
            | Self::FieldCount { .. }
            | Self::Empty { .. }
            | Self::Tokenizer { .. }
            | Self::BadTokenizer { .. } => ErrorKind::InvalidData,
            Self::UnknownName { .. } => ErrorKind::NotFound,
            Self::CountMismatch { .. } | Self::BadDims { .. } => ErrorKind::Shape,
            Self::KindMismatch { .. } => ErrorKind::DType,
            Self::BadOption { .. }
            | Self::IndexOutOfRange { .. }
            | Self::ClassOutOfRange { .. }
            | Self::TextTooShort { .. }
            | Self::BrokenDataset { .. }
            | Self::Panicked { .. } => ErrorKind::InvalidArgument,
            Self::NoMemory { .. } => ErrorKind::OutOfMemory,
        }
    }
}

/// The first names of a list, and how many more there are: a table can have thousands.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 20;
    if names.is_empty() {
        return "none".into();
    }
    let shown: Vec<String> = names.iter().take(SHOWN).map(|n| format!("`{n}`")).collect();
    let more = names.len().saturating_sub(SHOWN);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{tail}", shown.join(", "))
}
