//! The errors of loading, planning and running models.

use std::path::PathBuf;

use polaris_core::ErrorKind;
use polaris_runtime::{DeviceId, Mode};

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a model or its run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// In the model or its inputs.
    #[error(transparent)]
    Onnx(#[from] polaris_onnx::Error),
    /// In a file.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: polaris_onnx::Error,
    },
    /// In an operation on a device.
    #[error(transparent)]
    Ops(#[from] polaris_ops::Error),
    /// In an operation, at a node of the model.
    #[error("node `{node}` ({operator}): {reason}")]
    Node {
        /// The node's path in the graph.
        node: String,
        /// Its operator.
        operator: String,
        /// The error there.
        reason: polaris_ops::Error,
    },
    /// In a device or its memory.
    #[error(transparent)]
    Runtime(#[from] polaris_runtime::Error),
    /// All unsupported operators of a model.
    #[error("{}", unsupported_in_words(operators))]
    Unsupported {
        /// The operators with the nodes that need them.
        operators: Vec<UnsupportedOperator>,
    },
    /// No OpenCL device for a mode that needs one.
    #[error("this machine has no usable OpenCL device; use the mode cpu or auto")]
    NoGpu,
    /// A mode that cannot run on the requested device.
    #[error("mode {} does not run on {device}; {}", mode.name(), mode_advice(*mode))]
    ModeWithoutDevice {
        /// The mode.
        mode: Mode,
        /// The device.
        device: DeviceId,
    },
    /// An unknown graph pass.
    #[error("there is no graph pass `{name}`; expected one of {known}")]
    UnknownPass {
        /// What was requested.
        name: String,
        /// The known names.
        known: String,
    },
}

/// An unsupported operator.
#[derive(Debug, Clone, serde::Serialize)]
pub struct UnsupportedOperator {
    /// Its name with its domain.
    pub operator: String,
    /// The nodes that need it.
    pub nodes: Vec<String>,
}

fn unsupported_in_words(operators: &[UnsupportedOperator]) -> String {
    let mut text = String::from("the model needs operators that are not supported:");
    for UnsupportedOperator { operator, nodes } in operators {
        let shown: Vec<&str> = nodes.iter().take(3).map(String::as_str).collect();
        let more = match nodes.len().saturating_sub(3) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        text.push_str(&format!("\n  {operator} (at {}{more})", shown.join(", ")));
    }
    text
}

fn mode_advice(mode: Mode) -> &'static str {
    match mode {
        Mode::Cpu => "use the device cpu or none, or the mode gpu",
        _ => "use an OpenCL device or none, or the mode cpu",
    }
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Onnx(error) | Self::File { reason: error, .. } => error.kind(),
            Self::Ops(error) | Self::Node { reason: error, .. } => error.kind(),
            Self::Runtime(error) => error.kind(),
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::NoGpu | Self::UnknownPass { .. } => ErrorKind::NotFound,
            Self::ModeWithoutDevice { .. } => ErrorKind::InvalidArgument,
        }
    }

    /// An error of an operation, with its node.
    pub(crate) fn at(node: &polaris_onnx::Node, reason: polaris_ops::Error) -> Self {
        Self::Node { node: node.path.clone(), operator: node.operator_name(), reason }
    }

    /// Whether the work was cancelled by its caller.
    pub fn is_cancelled(&self) -> bool {
        self.kind() == ErrorKind::Cancelled
    }

    /// Whether Polaris lacks support, as opposed to an error in the model.
    pub fn is_unsupported(&self) -> bool {
        self.kind() == ErrorKind::Unsupported
    }

    /// Whether a device failed or had no room, so that another one may succeed.
    pub fn is_device_failure(&self) -> bool {
        match self {
            Self::Runtime(error) => error.is_device_failure(),
            Self::Ops(polaris_ops::Error::Runtime(error)) => error.is_device_failure(),
            Self::Node { reason: polaris_ops::Error::Runtime(error), .. } => {
                error.is_device_failure()
            }
            _ => false,
        }
    }
}

impl From<polaris_core::Error> for Error {
    fn from(error: polaris_core::Error) -> Self {
        Self::Runtime(error.into())
    }
}
