//! Sensitivities on disk: measured once, used for every budget, and continued where a measurement was stopped.

use std::collections::BTreeMap;
use std::path::Path;

use polaris_gguf::Gguf;
use serde::{Deserialize, Serialize};

use super::{Candidate, Sensitivity};
use crate::fnv::Fnv;
use crate::{Error, PlannedTensor, Result};

const SCHEMA: &str = "polaris.sensitivities/1";
/// The most bytes of a file; a thousand tensors take about one MB.
const LARGEST: u64 = 256 << 20;
/// Bytes of each tensor that [`Origin`] looks at.
const LOOKED_AT: usize = 4096;

#[derive(Serialize, Deserialize)]
struct File {
    schema: String,
    origin: String,
    tensors: Vec<Sensitivity>,
}

/// What sensitivities were measured of: a model and a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(String);

impl Origin {
    /// From the tensors of a model (their names, types, shapes and first bytes) and the windows of a text.
    pub fn new(gguf: &Gguf, windows: &[Vec<u32>]) -> Self {
        let mut hash = Fnv::default();
        for tensor in gguf.tensors() {
            hash.add(tensor.name().as_bytes());
            hash.add(format!(" {} {} ", tensor.ty(), tensor.shape()).as_bytes());
            let data = tensor.data();
            hash.add(&data[..data.len().min(LOOKED_AT)]);
        }
        for window in windows {
            hash.add(&window.len().to_le_bytes());
            window.iter().for_each(|token| hash.add(&token.to_le_bytes()));
        }
        Self(format!("{:016x}", hash.0))
    }
}

/// What a file has of some tensors, if there is one.
///
/// # Errors
/// If it cannot be read, is no such file, or is of another model or text.
pub fn load(path: &Path, origin: &Origin, tensors: &[PlannedTensor]) -> Result<Vec<Sensitivity>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let wrong = |what: String| Error::SensitivityFile { path: path.to_owned(), what };
    let text = polaris_files::read_text(path, LARGEST).map_err(|error| wrong(error.to_string()))?;
    let file: File = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if file.schema != SCHEMA {
        return Err(wrong(format!("its schema is `{}`, not `{SCHEMA}`", file.schema)));
    }
    if file.origin != origin.0 {
        return Err(wrong("it was measured of another model or text".to_owned()));
    }
    let mut known = BTreeMap::new();
    for entry in file.tensors {
        let Some(tensor) = tensors.iter().find(|tensor| tensor.name == entry.name) else {
            let what = format!("the model has no tensor `{}`", entry.name);
            return Err(wrong(what));
        };
        let row = tensor.dims.last().copied().unwrap_or(1);
        let is_right = |found: &Candidate| {
            let is_number = found.divergence.is_finite() && found.divergence >= 0.0;
            let bytes = found.ty.bytes_of(&tensor.dims);
            is_number && row.is_multiple_of(found.ty.block_elements()) && bytes == Some(found.bytes)
        };
        if entry.candidates.is_empty() || !entry.candidates.iter().all(is_right) {
            return Err(wrong(format!("what it says of `{}` cannot be", entry.name)));
        }
        known.insert(entry.name.clone(), entry);
    }
    // In the order of the model, as they are measured.
    let in_order = tensors.iter().filter_map(|tensor| known.remove(&tensor.name));
    Ok(in_order.collect())
}

/// Writes what was measured so far.
///
/// # Errors
/// If it cannot be written.
pub fn save(path: &Path, origin: &Origin, tensors: &[Sensitivity]) -> Result<()> {
    let (schema, origin) = (SCHEMA.to_owned(), origin.0.clone());
    let file = File { schema, origin, tensors: tensors.to_vec() };
    let wrong = |what: String| Error::SensitivityFile { path: path.to_owned(), what };
    let text = serde_json::to_vec_pretty(&file).map_err(|error| wrong(error.to_string()))?;
    polaris_files::write_atomic(path, &text).map_err(|error| wrong(error.to_string()))
}

/// Types of tensors by their names.
pub(super) mod name {
    use polaris_gguf::TensorType;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub fn serialize<S: Serializer>(ty: &TensorType, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(ty.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<TensorType, D::Error> {
        let name = String::deserialize(from)?;
        let found = TensorType::ALL.into_iter().find(|ty| ty.name() == name);
        found.ok_or_else(|| de::Error::custom(format!("{name:?} is no type of tensors")))
    }
}
