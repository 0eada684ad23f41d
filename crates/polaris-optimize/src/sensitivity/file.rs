//! Sensitivities on disk: measured once, used for every budget, and continued where a measurement was stopped.

use std::path::Path;

use polaris_gguf::Gguf;
use serde::{Deserialize, Serialize};

use super::Sensitivity;
use crate::{Error, Result};

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
    pub fn new(gguf: &Gguf, windows: &[&[u32]]) -> Self {
        let mut sum = 0xcbf2_9ce4_8422_2325u64;
        let mut mix = |bytes: &[u8]| {
            for &byte in bytes {
                sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        for tensor in gguf.tensors() {
            mix(tensor.name().as_bytes());
            mix(format!(" {} {} ", tensor.ty(), tensor.shape()).as_bytes());
            let data = tensor.data();
            mix(&data[..data.len().min(LOOKED_AT)]);
        }
        for window in windows {
            mix(&window.len().to_le_bytes());
            window.iter().for_each(|token| mix(&token.to_le_bytes()));
        }
        Self(format!("{sum:016x}"))
    }
}

/// What a file has, if there is one.
///
/// # Errors
/// If it cannot be read, is no such file, or is of another model or text.
pub fn load(path: &Path, origin: &Origin) -> Result<Vec<Sensitivity>> {
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
    let is_number = |value: f64| value.is_finite() && value >= 0.0;
    let is_whole = |entry: &Sensitivity| {
        let candidates = &entry.candidates;
        !candidates.is_empty() && candidates.iter().all(|found| is_number(found.divergence))
    };
    match file.tensors.iter().find(|entry| !is_whole(entry)) {
        Some(entry) => Err(wrong(format!("`{}` has no divergences", entry.name))),
        None => Ok(file.tensors),
    }
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
