//! The errors of this crate.

use std::path::PathBuf;

use polaris_core::ErrorKind;
use polaris_gguf::TensorType;

/// The result of a fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of making a model smaller.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// In running a language model.
    #[error(transparent)]
    Model(#[from] polaris_llm::Error),
    /// A device that this does not run on.
    #[error("sensitivities are measured on the CPU")]
    NotOnCpu,
    /// A file of sensitivities that cannot be used.
    #[error("the sensitivities in {}: {what}; use another file, or remove this one", path.display())]
    SensitivityFile {
        /// Where it is.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A text with too few tokens.
    #[error("the text has {tokens} tokens; a window needs {needed}")]
    ShortText {
        /// What there are.
        tokens: usize,
        /// What is needed.
        needed: usize,
    },
    /// A tensor whose rows no format fills.
    #[error("the tensor `{tensor}` has rows of {row}, which no block format fills")]
    NoFormat {
        /// Its name.
        tensor: String,
        /// The elements of its rows.
        row: usize,
    },
    /// In reading or writing a GGUF file.
    #[error(transparent)]
    Gguf(#[from] polaris_gguf::Error),
    /// The type of a tensor that is quantised already.
    #[error(
        "the tensor `{tensor}` is quantised already ({ty}), and would lose more than the result says; quantise the model that it \
         was made from, or allow quantising again"
    )]
    Quantised {
        /// Its name.
        tensor: String,
        /// Its type.
        ty: TensorType,
    },
    /// An override that names a type that the tensor cannot have.
    #[error(
        "the tensor `{tensor}` cannot be {ty}: its rows of {row} are no multiple of a block's {}",
        ty.block_elements()
    )]
    Override {
        /// Its name.
        tensor: String,
        /// The type that was asked for.
        ty: TensorType,
        /// The elements of its rows.
        row: usize,
    },
    /// An override that no matrix has the name of.
    #[error("no matrix has `{pattern}` in its name; there are {some} and others")]
    NoSuchTensor {
        /// What was asked for.
        pattern: String,
        /// Some names that there are.
        some: String,
    },
    /// The weights of a tensor that cannot be encoded.
    #[error("the tensor `{tensor}`: {source}")]
    Encode {
        /// Its name.
        tensor: String,
        /// What is wrong.
        source: polaris_blocks::Error,
    },
    /// Levels of integers that there are not.
    #[error("there are no levels of {bits} bits; 2 to 8 there are")]
    Bits {
        /// What was asked for.
        bits: u32,
    },
    /// Groups without elements.
    #[error("a group of weights needs an element")]
    EmptyGroup,
    /// Elements that are not those of a matrix.
    #[error("{elements} elements are no matrix of {rows} rows with {columns} columns")]
    Elements {
        /// How many there are.
        elements: usize,
        /// The rows that there should be.
        rows: usize,
        /// The elements of each.
        columns: usize,
    },
    /// An element that is not finite.
    #[error("element {at} is {value}, which no level stands for")]
    NotFinite {
        /// The element.
        value: f32,
        /// Where it is.
        at: usize,
    },
    /// A budget that nothing fits.
    #[error("a budget of {budget} cannot be met; the least that is possible is {least}")]
    Budget {
        /// What was asked for.
        budget: u64,
        /// What the cheapest choices cost.
        least: u64,
    },
    /// A loss that nothing stays below.
    #[error("a loss of at most {loss} cannot be met; the least that is possible is {least}")]
    Loss {
        /// What was asked for.
        loss: f64,
        /// What the best choices lose.
        least: f64,
    },
    /// Something to be chosen for without a choice.
    #[error("item {item} has no choice, or one whose loss is not a number")]
    NoChoice {
        /// Which one.
        item: usize,
    },
    /// The user stopped it.
    #[error("it was stopped before the file was whole; nothing was written")]
    Cancelled,
}

impl Error {
    /// What kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Gguf(error) => error.kind(),
            Self::Model(error) => error.kind(),
            Self::Quantised { .. }
            | Self::Override { .. }
            | Self::Bits { .. }
            | Self::NotOnCpu
            | Self::ShortText { .. }
            | Self::NoFormat { .. }
            | Self::Budget { .. }
            | Self::Loss { .. }
            | Self::NoChoice { .. }
            | Self::EmptyGroup
            | Self::Elements { .. } => ErrorKind::InvalidArgument,
            Self::NoSuchTensor { .. } => ErrorKind::NotFound,
            Self::NotFinite { .. }
            | Self::Encode { source: polaris_blocks::Error::NotFinite { .. }, .. } => {
                ErrorKind::NotFinite
            }
            Self::Encode { .. } | Self::SensitivityFile { .. } => ErrorKind::InvalidData,
            Self::Cancelled => ErrorKind::Cancelled,
        }
    }
}
