//! What can be wrong with data and with what is asked of it.

use std::path::PathBuf;

use crate::Kind;

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What can be wrong with data and with what is asked of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that cannot be opened, read or written.
    #[error("{}: cannot {action}: {cause}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried: open, read, list, write.
        action: &'static str,
        /// What the operating system says.
        cause: std::io::Error,
    },
    /// A file whose contents are not what its format says.
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
    /// A column, array or class that is not there.
    #[error(
        "{}: there is no {what} `{name}`; there are {}{}", path.display(), list(known),
        nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default()
    )]
    UnknownName {
        /// Where it was looked for.
        path: PathBuf,
        /// Column, array or class.
        what: &'static str,
        /// The name asked for.
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
    /// Inputs and targets, or values and dimensions, that do not go together.
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
    /// Numbers of the other kind.
    #[error("{what}: {expected} numbers were expected, {found} found")]
    KindMismatch {
        /// Which numbers.
        what: String,
        /// The kind expected.
        expected: Kind,
        /// The kind found.
        found: Kind,
    },
    /// Dimensions that hold nothing, or more than can be addressed.
    #[error(
        "an example of dimensions {dims:?} holds nothing or too much; use dimensions of at least 1 whose product fits memory"
    )]
    BadDims {
        /// The dimensions.
        dims: Vec<usize>,
    },
    /// An option that makes no sense.
    #[error("{option} = {value}: {reason}")]
    BadOption {
        /// The name of the option.
        option: &'static str,
        /// The value it has.
        value: String,
        /// Why it cannot be, and what can.
        reason: String,
    },
    /// An example that does not exist.
    #[error("example {index} was asked for, the data set has {len}; indices start at 0")]
    IndexOutOfRange {
        /// The index asked for.
        index: usize,
        /// How many there are.
        len: usize,
    },
    /// A target that is no class of the data set.
    #[error("example {index}: its class is {class}, there are {classes} classes, counted from 0")]
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
        /// The context asked for.
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
    /// A tokenizer whose parts do not go together.
    #[error(
        "the tokenizer contradicts itself: {reason}; take the tokenizer.json that belongs to the model"
    )]
    BadTokenizer {
        /// What does not go together.
        reason: String,
    },
    /// A data set that broke its promise about the size or kind of its examples.
    #[error(
        "the data set promises {expected} {what} values of kind {kind} per example, and example \
         {index} gave something else ({found} values of kind {found_kind}); this is a mistake in \
         the data set's code"
    )]
    BrokenDataset {
        /// Which example.
        index: usize,
        /// Input or target.
        what: &'static str,
        /// How many numbers an example should have.
        expected: usize,
        /// Of which kind.
        kind: Kind,
        /// How many it gave.
        found: usize,
        /// Of which kind they were.
        found_kind: Kind,
    },
    /// More than there is memory for.
    #[error("there is no memory for {what}: {reason}; take smaller batches or less data")]
    NoMemory {
        /// What needs it.
        what: String,
        /// How much is needed, and how much there is.
        reason: String,
    },
    /// The thread that makes batches panicked.
    #[error("the thread that reads the data panicked: {message}; this is a bug in the data set")]
    Panicked {
        /// What it said.
        message: String,
    },
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
