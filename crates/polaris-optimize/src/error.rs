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
    /// In a model of ONNX.
    #[error(transparent)]
    Onnx(polaris_onnx::Error),
    /// In running a model of ONNX.
    #[error(transparent)]
    Graph(Box<polaris_graph::Error>),
    /// A model of ONNX that has integers already.
    #[error(
        "the model is quantised already: node `{node}` is a {operator}; quantise the float model that it was made from"
    )]
    QuantisedModel {
        /// A node that says so.
        node: String,
        /// Its operator.
        operator: String,
    },
    /// A part of a name that no layer has.
    #[error("no convolution or product has `{part}` in its name; there are {some} and others")]
    NoSuchLayer {
        /// What was asked for.
        part: String,
        /// Some names that there are.
        some: String,
    },
    /// A model without anything to quantise.
    #[error("the model has no convolution or product that can be quantised ({reasons})")]
    NoLayers {
        /// Layers that there are, and why they cannot be.
        reasons: String,
    },
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
    /// A share of values that leaves none, or more than all.
    #[error("a range cannot keep {percent} % of the values; 50 to 100 are accepted")]
    Percent {
        /// What was asked for.
        percent: f64,
    },
    /// A tensor without values to calibrate with.
    #[error("the tensor `{tensor}` has no values to calibrate with")]
    EmptyActivation {
        /// Its name.
        tensor: String,
    },
    /// A tensor whose values are all the same.
    #[error(
        "the tensor `{tensor}` is {value} in all of its {count} values, which says nothing of its range; check the data, \
         or leave the layers out that use it"
    )]
    ConstantActivation {
        /// Its name.
        tensor: String,
        /// The value.
        value: f32,
        /// How often it was seen.
        count: u64,
    },
    /// A value that is infinite or no number.
    #[error(
        "the tensor `{tensor}` has a value that is not finite: {value} at element {at}; check the data and the model"
    )]
    NotFiniteActivation {
        /// Its name.
        tensor: String,
        /// The value.
        value: f32,
        /// Where it is.
        at: usize,
    },
    /// A tensor that is not what it should be.
    #[error("the tensor `{tensor}`: {why}")]
    Activation {
        /// Its name.
        tensor: String,
        /// What is wrong.
        why: String,
    },
    /// Histograms of another model.
    #[error("the histograms are those of another model or method: {found}, not {expected}")]
    OtherModel {
        /// The model that there is.
        expected: String,
        /// The model that they are of.
        found: String,
    },
    /// Histograms with other bins.
    #[error("the histograms have {found} bins on each side of zero, not {expected}")]
    Bins {
        /// Those that there are.
        expected: usize,
        /// Those of the others.
        found: usize,
    },
    /// A file that is none of histograms.
    #[error("{}: not a file of histograms: {why}", path.display())]
    HistogramFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A file that cannot be read.
    #[error("{}: cannot be read: {why}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: String,
        /// What kind of error it is.
        kind: ErrorKind,
    },
    /// A file that cannot be written.
    #[error("{}: cannot be written: {why}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says, and what to do.
        why: String,
        /// What kind of error it is.
        kind: ErrorKind,
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
            Self::Onnx(error) => error.kind(),
            Self::Graph(error) => error.kind(),
            Self::NoSuchLayer { .. } => ErrorKind::NotFound,
            Self::NoLayers { .. } => ErrorKind::Unsupported,
            Self::QuantisedModel { .. } => ErrorKind::InvalidArgument,
            Self::Quantised { .. }
            | Self::Override { .. }
            | Self::Bits { .. }
            | Self::EmptyGroup
            | Self::Elements { .. } => ErrorKind::InvalidArgument,
            Self::NoSuchTensor { .. } => ErrorKind::NotFound,
            Self::NotFinite { .. }
            | Self::Encode { source: polaris_blocks::Error::NotFinite { .. }, .. } => {
                ErrorKind::NotFinite
            }
            Self::Encode { .. } => ErrorKind::InvalidData,
            Self::NotFiniteActivation { .. } => ErrorKind::NotFinite,
            Self::Percent { .. } | Self::OtherModel { .. } | Self::Bins { .. } => {
                ErrorKind::InvalidArgument
            }
            Self::EmptyActivation { .. }
            | Self::ConstantActivation { .. }
            | Self::Activation { .. }
            | Self::HistogramFile { .. } => ErrorKind::InvalidData,
            Self::Read { kind, .. } | Self::Write { kind, .. } => *kind,
            Self::Cancelled => ErrorKind::Cancelled,
        }
    }
}

impl From<polaris_onnx::Error> for Error {
    fn from(error: polaris_onnx::Error) -> Self {
        match error.kind() {
            ErrorKind::Cancelled => Self::Cancelled,
            _ => Self::Onnx(error),
        }
    }
}

impl From<polaris_graph::Error> for Error {
    fn from(error: polaris_graph::Error) -> Self {
        match error.kind() {
            ErrorKind::Cancelled => Self::Cancelled,
            _ => Self::Graph(Box::new(error)),
        }
    }
}
