//! The files of a folder: JSON of limited size, and tensors in safetensors, in one file or in several with an index.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind as IoKind;
use std::path::{Component, Path};

use bytes::Bytes;
use polaris_core::{ErrorKind, printable};
use polaris_runtime::MappedFile;
use safetensors::tensor::TensorInfo;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use crate::{Error, Result};

/// The largest file of settings that is read; chat templates have up to some 100 KB.
const LARGEST_JSON: u64 = 16 << 20;
/// The largest index that is read; the one of a model with 100,000 tensors has 10 MB.
const LARGEST_INDEX: u64 = 64 << 20;
/// More files than any model has.
const MOST_FILES: usize = 4096;

const WHOLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// A tensor of a file.
#[derive(Debug, Clone)]
pub(super) struct Tensor {
    pub dtype: Dtype,
    pub dims: Vec<usize>,
    pub bytes: Bytes,
}

/// A file that is not what it should be.
pub(super) fn invalid(path: &Path, reason: impl Into<String>) -> Error {
    Error::File { path: path.to_owned(), reason: reason.into(), kind: ErrorKind::InvalidData }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    let (reason, kind) = (error.to_string(), ErrorKind::of_io(error));
    Error::File { path: path.to_owned(), reason, kind }
}

/// A text that may be absent.
pub(super) fn text(path: &Path) -> Result<Option<String>> {
    match polaris_files::read_text(path, LARGEST_JSON) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == IoKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// A file of JSON that may be absent.
pub(super) fn json(path: &Path) -> Result<Option<Value>> {
    json_up_to(path, LARGEST_JSON)
}

fn json_up_to(path: &Path, largest: u64) -> Result<Option<Value>> {
    match polaris_files::read(path, largest) {
        // The parser limits how deep values may be nested.
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| invalid(path, format!("not valid JSON: {error}"))),
        Err(error) if error.kind() == IoKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// All tensors of a folder, by name.
pub(super) fn tensors(folder: &Path) -> Result<BTreeMap<String, Tensor>> {
    let whole = folder.join(WHOLE);
    if whole.exists() {
        return read(&whole);
    }
    let path = folder.join(INDEX);
    let Some(index) = json_up_to(&path, LARGEST_INDEX)? else {
        let why = format!("there is no {WHOLE} and no {INDEX} in this folder");
        let hint = match folder.join("pytorch_model.bin").exists() {
            true => "; files of PyTorch are not read, convert them to safetensors",
            false => "",
        };
        let (reason, kind) = (format!("{why}{hint}"), ErrorKind::NotFound);
        return Err(Error::File { path: folder.to_owned(), reason, kind });
    };
    let Some(map) = index["weight_map"].as_object() else {
        return Err(invalid(&path, "it has no object `weight_map`"));
    };
    let mut names = BTreeSet::new();
    for (tensor, file) in map {
        let name = file.as_str().filter(|name| is_beside(name)).ok_or_else(|| {
            let (tensor, file) = (printable(tensor), file.to_string());
            let file = printable(&file);
            let why = format!(
                "the file of `{tensor}` is {file}; accepted is the name of a file in this folder"
            );
            invalid(&path, why)
        })?;
        names.insert(name);
    }
    if names.len() > MOST_FILES {
        let why = format!("it names {} files; at most {MOST_FILES} are accepted", names.len());
        return Err(invalid(&path, why));
    }
    let mut all = BTreeMap::new();
    for name in names {
        let file = folder.join(name);
        // A file may have tensors that the index places elsewhere: the index counts.
        let listed = |tensor: &str| map.get(tensor).and_then(Value::as_str) == Some(name);
        all.extend(read(&file)?.into_iter().filter(|(tensor, _)| listed(tensor)));
    }
    match map.keys().find(|tensor| !all.contains_key(*tensor)) {
        Some(missing) => {
            let file = map[missing].as_str().unwrap_or_default();
            let (missing, file) = (printable(missing), printable(file));
            let why = format!("the tensor `{missing}` should be in {file} and is not there");
            Err(invalid(&path, why))
        }
        None => Ok(all),
    }
}

/// Whether a name is that of a file in the same folder.
fn is_beside(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
        && !name.contains(['/', '\\', '\0'])
        && name.ends_with(".safetensors")
}

/// The tensors of a file, which stay in it.
fn read(path: &Path) -> Result<BTreeMap<String, Tensor>> {
    let bytes = MappedFile::open(path)?.bytes();
    // The library checks lengths and offsets: tensors follow one another without gaps, to the end of the file.
    let (length, header) = SafeTensors::read_metadata(&bytes)
        .map_err(|error| invalid(path, format!("not a whole safetensors file: {error}")))?;
    let data = bytes.slice(8 + length..);
    let tensor = |info: &TensorInfo| {
        let (start, end) = info.data_offsets;
        Tensor { dtype: info.dtype, dims: info.shape.clone(), bytes: data.slice(start..end) }
    };
    let tensors: BTreeMap<String, Tensor> =
        header.tensors().into_iter().map(|(name, info)| (name, tensor(info))).collect();
    // Of two entries with the same name the library keeps the last.
    if entries(&bytes[8..8 + length]) != tensors.len() + usize::from(header.metadata().is_some()) {
        return Err(invalid(path, "its header has an entry twice"));
    }
    Ok(tensors)
}

/// The entries of an object in valid JSON.
fn entries(json: &[u8]) -> usize {
    let (mut depth, mut count, mut is_text, mut is_escaped) = (0usize, 0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 1 => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted_outside_texts() {
        assert_eq!(entries(br#"{"a:\"": {"b": [1, {"c": 2}]}, "d": ":"}"#), 2);
        assert_eq!(entries(b"{}"), 0);
    }

    #[test]
    fn names_stay_in_the_folder() {
        assert!(is_beside("model-00001-of-00002.safetensors"));
        for name in [
            "../a.safetensors",
            "/a.safetensors",
            "a/b.safetensors",
            "a\\b.safetensors",
            "..",
            ".",
            "",
            "a.bin",
        ] {
            assert!(!is_beside(name), "{name}");
        }
    }
}
