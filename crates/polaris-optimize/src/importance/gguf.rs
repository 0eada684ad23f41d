//! Importance in GGUF: for a tensor `X` there are `X.in_sum2`, the sums of squares, `f32` `[matrices, columns]`, and
//! `X.counts`, the rows, `f32` `[matrices, 1]`.

use std::collections::BTreeMap;

use bytes::Bytes;
use polaris_gguf::{Gguf, Tensor, TensorType, Writer};

use super::{ColumnSums, Importance, USUAL_WINDOW, check};
use crate::{Error, Result};

const TYPE: &str = "general.type";
const IMATRIX: &str = "imatrix";
const TEXTS: &str = "imatrix.datasets";
const WINDOWS: &str = "imatrix.chunk_count";
const WINDOW: &str = "imatrix.chunk_size";
/// What a run was to see; others ignore it.
const RUN: &str = "polaris.imatrix.run";
const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";

pub(super) fn read(bytes: Bytes) -> Result<Importance> {
    let gguf = Gguf::from_bytes(bytes)?;
    let metadata = gguf.metadata();
    if let Some(found) = metadata.get::<&str>(TYPE)?
        && found != IMATRIX
    {
        let found = polaris_core::printable(found);
        return Err(Error::NoImportance { why: format!("it is a GGUF file of type `{found}`") });
    }
    let mut result = Importance {
        window: metadata
            .get::<u32>(WINDOW)?
            .filter(|&window| window > 0)
            .unwrap_or(USUAL_WINDOW as u32) as usize,
        windows: metadata.get::<u32>(WINDOWS)?.unwrap_or(0) as usize,
        run: metadata.get::<u64>(RUN)?,
        texts: metadata
            .list::<&str>(TEXTS)?
            .unwrap_or_default()
            .into_iter()
            .map(str::to_owned)
            .collect(),
        ..Importance::default()
    };
    let mut pairs: BTreeMap<&str, [Option<Tensor<'_>>; 2]> = BTreeMap::new();
    for tensor in gguf.tensors() {
        let name = tensor.name();
        for (at, ending) in [SUMS, COUNTS].into_iter().enumerate() {
            if let Some(name) = name.strip_suffix(ending) {
                pairs.entry(name).or_default()[at] = Some(tensor.clone());
            }
        }
    }
    if pairs.is_empty() {
        let why = format!("it is a GGUF file without tensors `*{SUMS}`");
        return Err(Error::NoImportance { why });
    }
    for (name, pair) in pairs {
        let shown = polaris_core::printable(name);
        let [Some(sums), Some(counts)] = pair else {
            let why = format!("`{shown}` does not have both `{SUMS}` and `{COUNTS}`");
            return Err(Error::NoImportance { why });
        };
        for tensor in [&sums, &counts] {
            if tensor.ty() != TensorType::F32 {
                let (name, ty) = (polaris_core::printable(tensor.name()), tensor.ty());
                return Err(Error::NoImportance {
                    why: format!("`{name}` is {ty}; expected is F32"),
                });
            }
        }
        let rows: Vec<f32> = counts.to_f32()?;
        if let Some(count) = rows.iter().find(|count| !(count.is_finite() && **count >= 0.0)) {
            let why = format!("`{shown}` has {count} as a count of rows");
            return Err(Error::NoImportance { why });
        }
        let sums = ColumnSums {
            squares: sums.to_f32()?.into_iter().map(f64::from).collect(),
            rows: rows.into_iter().map(|count| count.round() as u64).collect(),
        };
        check(&shown, &sums)?;
        result.insert(name, sums);
    }
    Ok(result)
}

pub(super) fn write(importance: &Importance) -> Result<Writer<'static>> {
    let mut writer = Writer::new();
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let texts: Vec<&str> = importance.texts.iter().map(String::as_str).collect();
    writer.set(TYPE, IMATRIX)?;
    writer.set(TEXTS, &texts[..])?;
    writer.set(WINDOWS, number(importance.windows))?;
    writer.set(WINDOW, number(importance.window))?;
    if let Some(run) = importance.run {
        writer.set(RUN, run)?;
    }
    for (name, sums) in importance.tensors() {
        let rows = sums.rows.len();
        let mut add = |ending: &str, dims: [usize; 2], values: &mut dyn Iterator<Item = f64>| {
            let mut bytes = Vec::with_capacity(4 * dims[0] * dims[1]);
            for value in values {
                let narrow = value as f32;
                if !narrow.is_finite() {
                    return Err(Error::Activations { tensor: name.to_owned(), sum: value });
                }
                bytes.extend(narrow.to_le_bytes());
            }
            writer.tensor(&format!("{name}{ending}"), &dims, TensorType::F32, bytes)?;
            Ok(())
        };
        add(SUMS, [rows, sums.squares.len() / rows], &mut sums.squares.iter().copied())?;
        add(COUNTS, [rows, 1], &mut sums.rows.iter().map(|&count| count as f64))?;
    }
    Ok(writer)
}
