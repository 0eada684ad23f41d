//! A model as it lies in a file.

use std::collections::HashMap;

use bytes::Bytes;
use prost::Message;

use crate::{Error, Graph, Result, import, messages, scan};

/// Where the elements of constants outside the model's file come from.
pub trait ExternalData {
    /// Bytes of a file beside the model's; all that follow if no length is given.
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
    /// Reads a model. Constants stay where they lie in `bytes`.
    ///
    /// # Errors
    /// If it is malformed in any way.
    pub fn from_bytes(bytes: Bytes, external: &dyn ExternalData) -> Result<Self> {
        scan::check(&bytes)?;
        let message = messages::Model::decode(bytes)
            .map_err(|error| Error::format(format!("{error}; is the file whole?")))?;
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
}
