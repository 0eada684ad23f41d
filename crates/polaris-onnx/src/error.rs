//! The errors of reading, checking and interpreting models.

use std::path::PathBuf;

use polaris_core::ErrorKind;

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a model.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes that are not a model.
    #[error("not a valid ONNX model: {why}")]
    Format {
        /// What is wrong.
        why: String,
    },
    /// A constant that contradicts its declaration.
    #[error("tensor `{name}`: {why}")]
    Tensor {
        /// Its name in the model.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A tensor beyond the limit.
    #[error(
        "a tensor of {element} with shape {shape:?} would exceed the limit of {limit} bytes; use smaller \
         inputs or a machine with more memory"
    )]
    TooLarge {
        /// The type of its elements.
        element: crate::ElementType,
        /// Its shape.
        shape: Vec<usize>,
        /// The limit in bytes.
        limit: u64,
    },
    /// The system has no memory for a tensor that is within the limit.
    #[error(
        "the system has no {bytes} bytes of memory left for a tensor; use smaller inputs or close other programs"
    )]
    OutOfMemory {
        /// What was requested.
        bytes: usize,
    },
    /// A part of ONNX that Polaris does not support.
    #[error("not supported: {what}")]
    Unsupported {
        /// The operator, type or attribute.
        what: String,
    },
    /// Operands that an operator cannot work with.
    #[error("{why}")]
    Operands {
        /// What is wrong.
        why: String,
    },
    /// An error at a node.
    #[error("node `{node}` ({operator}): {reason}")]
    Node {
        /// Its path in the graph.
        node: String,
        /// The operator.
        operator: String,
        /// The error there.
        reason: Box<Error>,
    },
    /// The run was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// A model beyond what one file can hold.
    #[error(
        "the model would take {bytes} bytes, and a file of ONNX holds at most {limit}; store its constants in \
         a smaller type"
    )]
    FileTooLarge {
        /// What it would take.
        bytes: usize,
        /// The most bytes of a message of the format.
        limit: usize,
    },
    /// A file that cannot be written.
    #[error("{}: cannot be written: {why}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says, and what to do.
        why: String,
        /// The kind of the system's error.
        kind: ErrorKind,
    },
    /// Inputs that the model does not accept.
    #[error("{why}")]
    Input {
        /// What was expected and what was found.
        why: String,
    },
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Format { .. } | Self::Tensor { .. } => ErrorKind::InvalidData,
            Self::TooLarge { .. } | Self::OutOfMemory { .. } => ErrorKind::OutOfMemory,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Operands { .. } | Self::Input { .. } | Self::FileTooLarge { .. } => {
                ErrorKind::InvalidArgument
            }
            Self::Write { kind, .. } => *kind,
            Self::Node { reason, .. } => reason.kind(),
            Self::Cancelled => ErrorKind::Cancelled,
        }
    }

    /// Bytes that are not a model.
    pub fn format(why: impl Into<String>) -> Self {
        Self::Format { why: why.into() }
    }

    /// A constant that contradicts its declaration.
    pub fn tensor(name: &str, why: impl Into<String>) -> Self {
        Self::Tensor { name: name.to_owned(), why: why.into() }
    }

    /// A part of ONNX that Polaris does not support.
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported { what: what.into() }
    }

    /// Operands that an operator cannot work with.
    pub fn operands(why: impl Into<String>) -> Self {
        Self::Operands { why: why.into() }
    }

    /// Inputs that the model does not accept.
    pub fn input(why: impl Into<String>) -> Self {
        Self::Input { why: why.into() }
    }

    /// The same error with the node where it happened; an inner node's name stays.
    pub fn at(self, node: &crate::Node) -> Self {
        match self {
            Self::Node { .. } | Self::Cancelled => self,
            other => Self::Node {
                node: node.path().to_owned(),
                operator: node.operator_name(),
                reason: Box::new(other),
            },
        }
    }

    /// Whether Polaris lacks support, as opposed to an error in the model.
    pub fn is_unsupported(&self) -> bool {
        self.kind() == ErrorKind::Unsupported
    }
}
