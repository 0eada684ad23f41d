//! What can go wrong between a model's file and its results.

use std::path::PathBuf;

use polaris_runtime::{DeviceId, Mode};

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// In the model, or in what was given to it.
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
        /// What went wrong there.
        reason: polaris_ops::Error,
    },
    /// In a device or its memory.
    #[error(transparent)]
    Runtime(#[from] polaris_runtime::Error),
    /// Operators that are not there, all of them.
    #[error("{}", unsupported_in_words(operators))]
    Unsupported {
        /// The operators with the nodes that need them.
        operators: Vec<UnsupportedOperator>,
    },
    /// No device of the kind that was asked for.
    #[error("there is no OpenCL device; use `--mode cpu`, or see `polaris devices`")]
    NoGpu,
    /// A mode that cannot run on the device that was named with it.
    #[error("the mode {} does not run on {device}; {}", mode.name(), mode_advice(*mode))]
    ModeWithoutDevice {
        /// The mode.
        mode: Mode,
        /// The device.
        device: DeviceId,
    },
    /// No pass of that name.
    #[error("there is no pass `{name}`; there are {known}")]
    UnknownPass {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
}

/// An operator that is not there.
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
        Mode::Cpu => "name the device cpu or none, or choose the mode gpu",
        _ => "name an OpenCL device or none, or choose the mode cpu",
    }
}

impl Error {
    /// What went wrong in an operation, with the node that it is part of.
    pub(crate) fn at(node: &polaris_onnx::Node, reason: polaris_ops::Error) -> Self {
        Self::Node { node: node.path.clone(), operator: node.operator_name(), reason }
    }

    /// Whether the work was cancelled by its caller.
    pub fn is_cancelled(&self) -> bool {
        match self {
            Self::Onnx(error) => matches!(error, polaris_onnx::Error::Cancelled),
            Self::Runtime(error) => matches!(error, polaris_runtime::Error::Interrupted),
            _ => false,
        }
    }

    /// Whether something is missing here rather than wrong there.
    pub fn is_unsupported(&self) -> bool {
        match self {
            Self::Unsupported { .. } => true,
            Self::Onnx(error) | Self::File { reason: error, .. } => error.is_unsupported(),
            _ => false,
        }
    }

    /// Whether a device failed or had no room, so that another one may succeed.
    pub fn is_device_failure(&self) -> bool {
        let runtime = match self {
            Self::Runtime(error) => error,
            Self::Ops(polaris_ops::Error::Runtime(error)) => error,
            Self::Node { reason: polaris_ops::Error::Runtime(error), .. } => error,
            _ => return false,
        };
        use polaris_runtime::Error as E;
        runtime.is_device_failure()
            || matches!(runtime, E::OutOfMemory { .. } | E::AllocationTooLarge { .. })
    }
}

impl From<polaris_core::Error> for Error {
    fn from(error: polaris_core::Error) -> Self {
        Self::Runtime(error.into())
    }
}
