//! A model file.

use std::collections::HashMap;
use std::path::Path;

use bytes::Bytes;
use polaris_core::ErrorKind;
use prost::Message;

use crate::{Error, Graph, Result, import, messages, scan, write};

/// The most bytes that a message of the format can have: its implementations count in `int`.
const MOST_BYTES: usize = i32::MAX as usize;

/// Where the elements of constants outside the model's file come from.
pub trait ExternalData {
    /// Bytes of a file next to the model's; all that follow if no length is given.
    ///
    /// # Errors
    /// If the place is outside the model's folder, or the file does not have them.
    fn read(&self, location: &str, offset: u64, length: Option<u64>) -> Result<Bytes>;
}

/// For models whose constants are all in their file.
#[derive(Debug, Clone, Copy)]
pub struct NoExternalData;

impl ExternalData for NoExternalData {
    fn read(&self, location: &str, _offset: u64, _length: Option<u64>) -> Result<Bytes> {
        Err(Error::format(format!(
            "it refers to the file `{location}`, but it was not read from a folder; open it by its path"
        )))
    }
}

/// A model: its graph with the constants, functions written out.
#[derive(Debug, Clone)]
pub struct Model {
    /// What it computes.
    pub graph: Graph,
    /// The version of the file's format.
    pub ir_version: i64,
    /// The versions of operators by domain; the empty one is ONNX' own.
    pub opsets: HashMap<String, i64>,
    /// What wrote it, with its version.
    pub producer: String,
    /// Words about it.
    pub metadata: Vec<(String, String)>,
}

impl Model {
    /// Reads a model. Constants stay in place in `bytes`.
    ///
    /// # Errors
    /// If it is malformed in any way.
    pub fn from_bytes(bytes: Bytes, external: &dyn ExternalData) -> Result<Self> {
        scan::check(&bytes)?;
        let message = messages::Model::decode(bytes)
            .map_err(|error| Error::format(format!("{error}; the file may be truncated")))?;
        let opsets = import::opsets(&message.opset_import)?;
        let graph = import::graph_of_model(&message, &opsets, external)?;
        graph.validate()?;
        Ok(Self {
            graph,
            ir_version: message.ir_version,
            opsets,
            producer: format!("{} {}", message.producer_name, message.producer_version)
                .trim()
                .to_owned(),
            metadata: message
                .metadata_props
                .into_iter()
                .map(|entry| (entry.key, entry.value))
                .collect(),
        })
    }

    /// The model as a file of ONNX, with its constants. Functions of the file that it came from stay written out.
    ///
    /// # Errors
    /// If the graph is not valid, holds something that files do not, is written for versions of operators that
    /// contradict one another, or takes more than the 2 GiB of the format.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let message = write::model(self)?;
        let bytes = message.encoded_len();
        if bytes > MOST_BYTES {
            return Err(Error::FileTooLarge { bytes, limit: MOST_BYTES });
        }
        Ok(message.encode_to_vec())
    }

    /// Writes the model as a file of ONNX, whole or not at all.
    ///
    /// # Errors
    /// As [`to_bytes`](Self::to_bytes), and if the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes()?;
        polaris_files::write_atomic(path, &bytes).map_err(|error| Error::Write {
            path: path.to_owned(),
            why: format!("{error}{}", polaris_files::write_advice(&error)),
            kind: ErrorKind::of_io(&error),
        })
    }
}
