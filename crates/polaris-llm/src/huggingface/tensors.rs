//! Tensors by GGUF's names: renamed by the tables, several put together where GGUF has one.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use polaris_core::{ErrorKind, printable};
use polaris_gguf::TensorType;
use safetensors::Dtype;

use super::files::{Tensor, invalid};
use super::table::{Name, Stored, Translation};
use crate::form::{Elements, Form, Rows};
use crate::weights::SourceTensor;
use crate::{Error, Result};

/// What may stand before the names of the decoder.
const PREFIXES: &[&str] = &["model.", "language_model.", "transformer."];
/// Parts of models that are not run: those for images.
const OTHER_PARTS: &[&str] = &["vision_tower.", "multi_modal_projector."];
/// Endings of tensors that hold no weights.
const BUFFERS: &[&str] = &["rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"];
/// What stands before the number of a layer.
const LAYERS: &[&str] = &["layers.", "h."];

/// Pieces of a tensor of GGUF, by their numbers.
#[derive(Default)]
struct Pieces {
    stored: Option<Stored>,
    is_list: bool,
    all: BTreeMap<usize, (String, Tensor)>,
}

/// The tensors of a model by GGUF's names.
pub(super) fn rename(
    translation: &Translation,
    layers: usize,
    stored: BTreeMap<String, Tensor>,
    folder: &Path,
) -> Result<BTreeMap<String, SourceTensor>> {
    let mut found: BTreeMap<String, Pieces> = BTreeMap::new();
    for (name, tensor) in stored {
        let mut short = name.as_str();
        while let Some(rest) = PREFIXES.iter().find_map(|prefix| short.strip_prefix(prefix)) {
            short = rest;
        }
        if OTHER_PARTS.iter().any(|part| short.starts_with(part))
            || BUFFERS.iter().any(|ending| short.ends_with(ending))
        {
            continue;
        }
        let places = match layer_of(short) {
            // Layers that predict further tokens.
            Some((number, _)) if number >= layers => continue,
            Some((number, rest)) => {
                let all = translation.layer.iter().flat_map(|names| names.iter());
                let place =
                    |place: Place| Place { name: format!("blk.{number}.{}", place.name), ..place };
                all.filter_map(|entry| find(entry, rest)).map(place).collect()
            }
            None => {
                translation.whole.iter().filter_map(|entry| find(entry, short)).collect::<Vec<_>>()
            }
        };
        if places.is_empty() {
            let (name, model_type) = (printable(&name), translation.model_type);
            let why = format!("the tensor `{name}` is not known in models of type {model_type}");
            return Err(invalid(folder, why));
        }
        for place in places {
            let pieces = found.entry(place.name).or_default();
            let is_same = pieces.stored.is_none_or(|stored| stored == place.stored);
            pieces.stored = Some(place.stored);
            pieces.is_list |= place.number.is_some() && !place.stored.is_packed();
            let piece = (name.clone(), tensor.clone());
            let before = pieces.all.insert(place.number.unwrap_or(0), piece);
            if before.is_some() || !is_same {
                let why = format!("the tensor `{}` is there twice", printable(&name));
                return Err(invalid(folder, why));
            }
        }
    }
    found.into_iter().map(|(name, pieces)| Ok((name, pieces.join(folder)?))).collect()
}

/// The number of a layer, and the name within it.
fn layer_of(name: &str) -> Option<(usize, &str)> {
    let rest = LAYERS.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    let (number, rest) = rest.split_once('.')?;
    Some((number.parse().ok()?, rest))
}

/// Where a tensor belongs.
struct Place {
    name: String,
    number: Option<usize>,
    stored: Stored,
}

/// Where a tensor belongs if an entry is for it.
fn find(entry: &Name, name: &str) -> Option<Place> {
    let Name(from, to, stored) = *entry;
    if to.contains('.') {
        let (rest, number) = match stored.is_packed() {
            true => match name.strip_suffix("_blocks") {
                Some(rest) => (rest, Some(0)),
                None => (name.strip_suffix("_scales")?, Some(1)),
            },
            false => (name, None),
        };
        return (rest == from).then(|| Place { name: to.to_owned(), number, stored });
    }
    let (module, ending) = name.rsplit_once('.')?;
    let stored = match ending {
        "weight" => stored,
        // Those of a list must become one tensor all the same.
        "bias" if stored == Stored::Float => stored,
        "bias" => Stored::Same,
        _ => return None,
    };
    let number = match from.split_once('*') {
        None => {
            if module != from {
                return None;
            }
            None
        }
        Some((before, after)) => {
            Some(module.strip_prefix(before)?.strip_suffix(after)?.parse().ok()?)
        }
    };
    Some(Place { name: format!("{to}.{ending}"), number, stored })
}

impl Stored {
    fn is_packed(self) -> bool {
        matches!(self, Self::Packed | Self::PackedGate | Self::PackedUp)
    }

    fn rows(self) -> Rows {
        match self {
            Self::Gate | Self::GateBias | Self::PackedGate => Rows { first: 0, step: 2 },
            Self::Up | Self::UpBias | Self::PackedUp => Rows { first: 1, step: 2 },
            _ => Rows::ALL,
        }
    }
}

impl Pieces {
    /// One tensor.
    fn join(self, folder: &Path) -> Result<SourceTensor> {
        let stored = self.stored.unwrap_or(Stored::Same);
        let Some((name, first)) = self.all.values().next().cloned() else {
            return Err(invalid(folder, "a tensor has no part"));
        };
        let wrong =
            |why: String| invalid(folder, format!("the tensor `{}` {why}", printable(&name)));
        let count = self.all.len();
        if let Some(missing) = (0..count).find(|number| !self.all.contains_key(number)) {
            return Err(wrong(format!("is one of {count}, but number {missing} is missing")));
        }
        let is_same = |tensor: &Tensor| tensor.dtype == first.dtype && tensor.dims == first.dims;
        if !stored.is_packed() && !self.all.values().all(|(_, tensor)| is_same(tensor)) {
            return Err(wrong(format!("has another type or shape than one of its {count}")));
        }
        if let Some((name, empty)) = self.all.values().find(|(_, tensor)| tensor.bytes.is_empty()) {
            let why = format!("the tensor `{}` has the shape {:?}", printable(name), empty.dims);
            return Err(invalid(folder, format!("{why}; expected are elements")));
        }
        let parts: Vec<Bytes> = self.all.values().map(|(_, tensor)| tensor.bytes.clone()).collect();
        let rows = stored.rows();
        if stored.is_packed() {
            let dims = packed_dims(&self.all, rows).ok_or_else(|| {
                wrong("is no MXFP4 of blocks [.., 16] and scales beside them, both U8".to_owned())
            })?;
            return Ok(SourceTensor {
                ty: TensorType::MXFP4,
                dims,
                parts,
                form: Form::Mxfp4(rows),
            });
        }
        let ty = type_of(&name, first.dtype, folder)?;
        let mut dims = first.dims.clone();
        if self.is_list {
            dims.insert(0, count);
        }
        let plain = Elements { stored: ty, width: 1, rows, transposed: false, plus: None };
        let rank = dims.len();
        let form = match stored {
            Stored::Same => None,
            Stored::Float => {
                (ty != TensorType::F32).then_some(Elements { plus: Some(0.0), ..plain })
            }
            Stored::OneLess => Some(Elements { plus: Some(1.0), ..plain }),
            Stored::GateBias | Stored::UpBias => {
                let last = dims.last_mut().ok_or_else(|| wrong("is a number".to_owned()))?;
                *last /= 2;
                Some(Elements { plus: Some(0.0), ..plain })
            }
            _ if rank < 2 => {
                return Err(wrong(format!("has the shape {dims:?}; expected is a matrix")));
            }
            _ => {
                dims.swap(rank - 2, rank - 1);
                dims[rank - 2] /= rows.step;
                Some(Elements { width: dims[rank - 1], transposed: true, ..plain })
            }
        };
        let is_float = form.is_some_and(|form| form.plus.is_some());
        let ty = if is_float { TensorType::F32 } else { ty };
        Ok(SourceTensor { ty, dims, parts, form: form.map_or(Form::Plain, Form::Elements) })
    }
}

/// The dimensions of a tensor in MXFP4 of two parts, blocks and scales.
fn packed_dims(pieces: &BTreeMap<usize, (String, Tensor)>, rows: Rows) -> Option<Vec<usize>> {
    let (blocks, scales) = (&pieces.get(&0)?.1, &pieces.get(&1)?.1);
    let (&last, rest) = blocks.dims.split_last()?;
    let is_right = last == 16 && rest == scales.dims && rest.len() >= 2;
    if !is_right || blocks.dtype != Dtype::U8 || scales.dtype != Dtype::U8 {
        return None;
    }
    let mut dims = rest.to_vec();
    let rank = dims.len();
    dims[rank - 1] = dims[rank - 1].checked_mul(32)?;
    dims[rank - 2] /= rows.step;
    Some(dims)
}

fn type_of(name: &str, dtype: Dtype, folder: &Path) -> Result<TensorType> {
    Ok(match dtype {
        Dtype::F32 => TensorType::F32,
        Dtype::F16 => TensorType::F16,
        Dtype::BF16 => TensorType::BF16,
        other => {
            let name = printable(name);
            let reason =
                format!("the tensor `{name}` is of type {other}; supported are F32, F16 and BF16");
            let (path, kind) = (folder.to_owned(), ErrorKind::Unsupported);
            return Err(Error::File { path, reason, kind });
        }
    })
}
