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
    /// Rows that do not fill blocks.
    #[error("rows of {columns} do not fill blocks of {block}, which have {}", block.elements())]
    Blocks {
        /// The format.
        block: polaris_blocks::Block,
        /// Elements of a row.
        columns: usize,
    },
    /// Weights that cannot be encoded.
    #[error(transparent)]
    Block(polaris_blocks::Error),
    /// Inputs of another length than the columns that they are for.
    #[error("{found} columns were given; there are {expected}")]
    Width {
        /// How many were given.
        found: usize,
        /// How many there are.
        expected: usize,
    },
    /// A damping that is no part of the diagonal.
    #[error("a damping of {damping}; it is a part of the diagonal, 0 to 1")]
    Damping {
        /// What was asked for.
        damping: f64,
    },
    /// An exponent that makes no norm.
    #[error("a norm with exponent {norm}; exponents are above 0, at most 2")]
    Norm {
        /// What was asked for.
        norm: f64,
    },
    /// Real zero points for a grid that has none.
    #[error("a symmetric grid has no zero points; real ones need an affine grid")]
    Symmetric,
    /// Blocks that a rotation cannot have.
    #[error(
        "blocks of {block} in rows of {columns}; a rotation needs blocks of a power of two that fill rows"
    )]
    Rotation {
        /// Elements of a block.
        block: usize,
        /// Elements of a row.
        columns: usize,
    },
    /// A strength that is no part.
    #[error("a strength of {strength}; 0 leaves activations as they are, 1 evens them out")]
    Strength {
        /// What was asked for.
        strength: f32,
    },
    /// Sums of inputs that cannot be: squares are not negative.
    #[error(
        "the Hessian is not positive definite at column {column}, even with {damping} times the mean of its diagonal added to \
         it; it is damaged, or sums of its inputs are beyond f32"
    )]
    NotPositive {
        /// The column.
        column: usize,
        /// What was added to the diagonal, as a part of its mean.
        damping: f64,
    },
    /// A file that is not what was written.
    #[error("{}: {what}; remove it, so that it is made again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A file that could not be read or written.
    #[error("{}: {source}{}", path.display(), polaris_files::write_advice(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// In an operation.
    #[error(transparent)]
    Ops(#[from] polaris_ops::Error),
    /// In computing a text.
    #[error(transparent)]
    Llm(#[from] polaris_llm::Error),
    /// Activations that no Hessian can have.
    #[error(
        "the text makes an activation of {value} in front of `{tensor}`; its model cannot be calibrated with it"
    )]
    Activations {
        /// The tensor.
        tensor: String,
        /// The activation.
        value: f32,
    },
    /// A text that is too short to calibrate with.
    #[error("the text has {tokens} tokens, and a window {window}; give a longer text")]
    ShortText {
        /// What it has.
        tokens: usize,
        /// What is needed.
        window: usize,
    },
    /// A window that cannot be computed.
    #[error("a window of {window} tokens; 1 to {context} fit the context")]
    Window {
        /// What was asked for.
        window: usize,
        /// The context of the engine.
        context: usize,
    },
    /// A Hessian that is larger than what may be used.
    #[error(
        "one Hessian of {columns} columns takes {needed} bytes; at most {limit} may be used for all"
    )]
    Memory {
        /// The columns.
        columns: usize,
        /// The bytes that it takes.
        needed: u64,
        /// The bytes that may be used.
        limit: u64,
    },
    /// A folder that is no work folder, or that of other work.
    #[error("{}: {what}", folder.display())]
    Work {
        /// The folder.
        folder: PathBuf,
        /// What is wrong with it.
        what: &'static str,
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
            Self::Ops(error) => error.kind(),
            Self::Llm(error) => error.kind(),
            Self::Io { source, .. } => ErrorKind::of_io(source),
            Self::NotPositive { .. } | Self::Damaged { .. } => ErrorKind::InvalidData,
            Self::Quantised { .. }
            | Self::Override { .. }
            | Self::Bits { .. }
            | Self::EmptyGroup
            | Self::Width { .. }
            | Self::Blocks { .. }
            | Self::ShortText { .. }
            | Self::Window { .. }
            | Self::Work { .. }
            | Self::Damping { .. }
            | Self::Norm { .. }
            | Self::Symmetric
            | Self::Rotation { .. }
            | Self::Strength { .. }
            | Self::Elements { .. } => ErrorKind::InvalidArgument,
            Self::NoSuchTensor { .. } => ErrorKind::NotFound,
            Self::Memory { .. } => ErrorKind::OutOfMemory,
            Self::NotFinite { .. }
            | Self::Activations { .. }
            | Self::Encode { source: polaris_blocks::Error::NotFinite { .. }, .. } => {
                ErrorKind::NotFinite
            }
            Self::Encode { .. } | Self::Block(_) => ErrorKind::InvalidData,
            Self::Cancelled => ErrorKind::Cancelled,
        }
    }
}
