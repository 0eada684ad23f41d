//! Models in files, with the files next to them that hold their constants.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use polaris_onnx::{Error as OnnxError, ExternalData, Model};
use polaris_runtime::MappedFile;

use crate::{Error, Result};

/// A model and the files that its constants lie in.
#[derive(Debug)]
pub struct OpenedModel {
    /// The model.
    pub model: Model,
    /// Its file and those next to it.
    pub files: Vec<MappedFile>,
}

/// Reads a model. Large constants stay in the file until someone looks at them.
///
/// # Errors
/// If a file cannot be read or is not a model, or refers to files outside its folder.
pub fn open_model(path: &Path) -> Result<OpenedModel> {
    let file = MappedFile::open(path)?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let beside = Beside { model: path.to_owned(), folder, files: RefCell::new(HashMap::new()) };
    let model = Model::from_bytes(file.bytes(), &beside)
        .map_err(|reason| Error::File { path: path.to_owned(), reason })?;
    let mut files = vec![file];
    files.extend(beside.files.into_inner().into_values());
    Ok(OpenedModel { model, files })
}

/// Files beside a model's file.
struct Beside {
    model: PathBuf,
    folder: PathBuf,
    files: RefCell<HashMap<String, MappedFile>>,
}

impl ExternalData for Beside {
    fn read(
        &self,
        location: &str,
        offset: u64,
        length: Option<u64>,
    ) -> polaris_onnx::Result<Bytes> {
        let mut files = self.files.borrow_mut();
        let file = match files.get(location) {
            Some(file) => file,
            None => {
                let path = self.inside(location)?;
                let file = MappedFile::open(&path)
                    .map_err(|error| OnnxError::format(error.to_string()))?;
                files.entry(location.to_owned()).or_insert(file)
            }
        };
        let bytes = file.bytes();
        let end = match length {
            Some(length) => offset.checked_add(length),
            None => Some(bytes.len() as u64),
        };
        match end {
            Some(end) if offset <= end && end <= bytes.len() as u64 => {
                Ok(bytes.slice(offset as usize..end as usize))
            }
            _ => Err(OnnxError::format(format!(
                "the file `{location}` has {} bytes; {} were requested from byte {offset}",
                bytes.len(),
                length.map_or("those".to_owned(), |length| length.to_string()),
            ))),
        }
    }
}

impl Beside {
    /// The path of a file in the model's folder, links followed.
    fn inside(&self, location: &str) -> polaris_onnx::Result<PathBuf> {
        let refused = |why: &str| {
            OnnxError::format(format!(
                "it refers to the file `{location}`, which {why}; constants must lie in the model's folder"
            ))
        };
        let plain = Path::new(location)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !plain || location.is_empty() {
            return Err(refused("is not inside the model's folder"));
        }
        let folder = if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder };
        let resolve = |path: &Path| {
            path.canonicalize().map_err(|error| refused(&format!("cannot be read ({error})")))
        };
        let path = resolve(&folder.join(location))?;
        // Caches of downloads keep the files elsewhere, side by side, and links to them in the folder.
        let home = resolve(&self.model)?.parent().map(Path::to_owned).unwrap_or_default();
        if !path.starts_with(resolve(folder)?) && !path.starts_with(home) {
            return Err(refused("leads out of the model's folder"));
        }
        Ok(path)
    }
}
