//! A model as files have it: metadata and tensors, by the names that GGUF has for them.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use polaris_gguf::{Gguf, Metadata};
use polaris_runtime::MappedFile;

use crate::weights::SourceTensor;
use crate::{Error, Result};

/// Metadata and tensors of a model. Tensors are in mapped files until someone reads them.
#[derive(Debug)]
pub struct Source {
    /// The metadata, by GGUF's keys.
    pub metadata: Metadata,
    /// The tensors, by GGUF's names.
    pub tensors: BTreeMap<String, SourceTensor>,
}

impl Source {
    /// Opens a GGUF file (or any part of one that was split).
    ///
    /// # Errors
    /// If it cannot be read, or is not valid.
    pub fn open(path: &Path) -> Result<Self> {
        let gguf = Gguf::open(path, |path| MappedFile::open(path).map(|file| file.bytes()))?;
        Self::from_gguf(&gguf)
    }

    /// The tiny model that comes with Polaris, so that there is something to try without a download. It is a toy of
    /// about a million parameters, which `polaris train tiny` trains; docs/llm.md says what it can do.
    ///
    /// # Errors
    /// Never, for the file that was built in.
    pub fn tiny() -> Result<Self> {
        const FILE: &[u8] = include_bytes!("../data/tiny.gguf");
        Self::from_gguf(&Gguf::from_bytes(Bytes::from_static(FILE))?)
    }

    /// A model from a GGUF file that is open.
    ///
    /// # Errors
    /// If a tensor's name cannot be used.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self> {
        let mut tensors = BTreeMap::new();
        for tensor in gguf.tensors() {
            let entry = SourceTensor {
                ty: tensor.ty(),
                dims: tensor.shape().dims().to_vec(),
                parts: vec![tensor.bytes()],
            };
            if tensors.insert(tensor.name().to_owned(), entry).is_some() {
                let name = polaris_core::printable(tensor.name()).into_owned();
                return Err(Error::model(format!("the tensor `{name}` is there twice")));
            }
        }
        Ok(Self { metadata: gguf.metadata().clone(), tensors })
    }

    /// Bytes of all tensors.
    pub fn bytes(&self) -> usize {
        self.tensors.values().map(SourceTensor::bytes).sum()
    }
}
