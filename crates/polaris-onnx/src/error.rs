//! What can go wrong with a model.

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes that are no model.
    #[error("this is no valid ONNX model: {why}")]
    Format {
        /// What is wrong.
        why: String,
    },
    /// A constant that is not what it says.
    #[error("the tensor `{name}`: {why}")]
    Tensor {
        /// Its name in the model.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A tensor beyond the limit.
    #[error(
        "a tensor of {element} with the shape {shape:?} would take more than the {limit} bytes that are \
         allowed; use smaller inputs or a machine with more memory"
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
        "the system has no {bytes} bytes of memory left for a tensor; use smaller inputs or end other programs"
    )]
    OutOfMemory {
        /// What was asked for.
        bytes: usize,
    },
    /// Something of ONNX that is not there.
    #[error("not supported: {what}")]
    Unsupported {
        /// Operator, type or attribute, in words.
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
        /// What went wrong there.
        reason: Box<Error>,
    },
    /// Someone wanted the model to stop.
    #[error("stopped before the model had run to its end")]
    Cancelled,
    /// Inputs that are not those of the model.
    #[error("{why}")]
    Input {
        /// What was expected and what was found.
        why: String,
    },
}

impl Error {
    /// Bytes that are no model.
    pub fn format(why: impl Into<String>) -> Self {
        Self::Format { why: why.into() }
    }

    /// A constant that is not what it says.
    pub fn tensor(name: &str, why: impl Into<String>) -> Self {
        Self::Tensor { name: name.to_owned(), why: why.into() }
    }

    /// Something of ONNX that is not there.
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported { what: what.into() }
    }

    /// Operands that an operator cannot work with.
    pub fn operands(why: impl Into<String>) -> Self {
        Self::Operands { why: why.into() }
    }

    /// Inputs that are not those of the model.
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

    /// Whether something is missing here rather than wrong there.
    pub fn is_unsupported(&self) -> bool {
        match self {
            Self::Unsupported { .. } => true,
            Self::Node { reason, .. } => reason.is_unsupported(),
            _ => false,
        }
    }
}
