//! A model as files have it: metadata and tensors, by the names that GGUF has for them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use polaris_gguf::{Gguf, Metadata};
use polaris_runtime::MappedFile;
use polaris_tokenizer::Tokenizer;

use crate::form::Form;
use crate::weights::SourceTensor;
use crate::{Error, Result, huggingface};

/// Metadata and tensors of a model. Tensors are in mapped files until someone reads them.
#[derive(Debug)]
pub struct Source {
    /// The metadata, by GGUF's keys.
    pub metadata: Metadata,
    /// The tensors, by GGUF's names.
    pub tensors: BTreeMap<String, SourceTensor>,
    /// The folder of Hugging Face that it is from, which has the tokenizer.
    pub folder: Option<PathBuf>,
}

impl Source {
    /// Opens a GGUF file (or any part of one that was split), or a folder of Hugging Face: `config.json` and
    /// `model.safetensors`, or an index of several such files.
    ///
    /// # Errors
    /// If it cannot be read, or is not valid.
    pub fn open(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return huggingface::open(path);
        }
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
                form: Form::Plain,
            };
            if tensors.insert(tensor.name().to_owned(), entry).is_some() {
                let name = polaris_core::printable(tensor.name()).into_owned();
                return Err(Error::model(format!("the tensor `{name}` is there twice")));
            }
        }
        Ok(Self { metadata: gguf.metadata().clone(), tensors, folder: None })
    }

    /// Whether a path is a folder with the configuration of a model.
    pub fn is_folder(path: &Path) -> bool {
        huggingface::is_model(path)
    }

    /// Its tokenizer, if it has one.
    ///
    /// # Errors
    /// If it is not valid.
    pub fn tokenizer(&self) -> Result<Option<Tokenizer>> {
        if let Some(folder) = &self.folder {
            return match folder.join("tokenizer.json").exists() {
                true => Ok(Some(Tokenizer::open_folder(folder)?)),
                false => Ok(None),
            };
        }
        Ok(match self.metadata.get::<&str>("tokenizer.ggml.model")? {
            None | Some("no_vocab" | "none") => None,
            Some(_) => Some(Tokenizer::from_gguf(&self.metadata)?),
        })
    }

    /// Bytes of all tensors.
    pub fn bytes(&self) -> usize {
        self.tensors.values().map(SourceTensor::bytes).sum()
    }
}
