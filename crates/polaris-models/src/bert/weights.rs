//! The weights of an encoder, from a file of safetensors.

use std::path::{Path, PathBuf};

use half::{bf16, f16};
use polaris_onnx::{ElementType, Tensor};
use polaris_runtime::MappedFile;
use safetensors::{Dtype, SafeTensors};

use crate::{Error, Result};

/// By this name the weights of an encoder are found, whatever stands before it.
const FIRST: &str = "embeddings.word_embeddings.weight";

/// Named tensors. Those that are used as they are stay in the file.
#[derive(Debug)]
pub struct Weights {
    path: PathBuf,
    /// What all names of the encoder begin with, as in `bert.`.
    prefix: String,
    tensors: Vec<(String, Tensor)>,
}

impl Weights {
    /// Opens a file.
    ///
    /// # Errors
    /// If it is not a whole file of safetensors, or not of an encoder of the BERT family.
    pub fn open(path: &Path) -> Result<Self> {
        // A map of anything but a regular file could block, or never end.
        polaris_files::open(path).map_err(|error| Error::io(path, error))?;
        let file = MappedFile::open(path).map_err(polaris_graph::Error::from)?;
        let bytes = file.bytes();
        let broken = |why: String| Error::file(path, why);
        let header = SafeTensors::deserialize(&bytes)
            .map_err(|error| broken(format!("not a complete safetensors file: {error}")))?;
        let mut tensors = Vec::new();
        for (name, view) in header.iter() {
            let element = match view.dtype() {
                Dtype::F32 => ElementType::F32,
                Dtype::F16 => ElementType::F16,
                Dtype::BF16 => ElementType::BF16,
                Dtype::F64 => ElementType::F64,
                // Positions and other numbers that no layer computes with.
                _ => continue,
            };
            let part = bytes.slice_ref(view.data());
            let tensor = Tensor::from_bytes(element, view.shape(), part)?;
            tensors.push((name.to_owned(), tensor));
        }
        let prefix = tensors.iter().find_map(|(name, _)| name.strip_suffix(FIRST));
        let prefix = prefix.map(str::to_owned).ok_or_else(|| {
            broken(format!(
                "it has no `{FIRST}`, so it is not an encoder of the BERT family; export the model as ONNX and \
                 give the .onnx file"
            ))
        })?;
        Ok(Self { path: path.to_owned(), prefix, tensors })
    }

    /// How many tokens there are vectors for.
    pub fn vocabulary(&self) -> Option<usize> {
        let table = self.find(&format!("{}{FIRST}", self.prefix));
        table.and_then(|table| table.shape().first().copied())
    }

    /// A weight in `f32`, of this shape; 0 stands for any length.
    ///
    /// # Errors
    /// If it is missing or of another shape.
    pub fn get(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let full = format!("{}{name}", self.prefix);
        let tensor = self.find(&full).ok_or_else(|| {
            Error::file(
                &self.path,
                format!("the weight `{full}` is missing; check that the file belongs to this config.json"),
            )
        })?;
        let fits = tensor.rank() == shape.len()
            && tensor
                .shape()
                .iter()
                .zip(shape)
                .all(|(&found, &wanted)| wanted == 0 || found == wanted);
        if !fits {
            let found = tensor.shape();
            let why = format!("`{full}` has shape {found:?}; config.json expects {shape:?}");
            return Err(Error::file(&self.path, why));
        }
        single(tensor)
    }

    /// A matrix of a linear layer, `[out, in]` in the file, as the right factor of a product.
    ///
    /// # Errors
    /// As for [`Weights::get`].
    pub fn right_factor(&self, name: &str, rows: usize, columns: usize) -> Result<Tensor> {
        let tensor = self.get(name, &[columns, rows])?;
        Ok(Tensor::new(&[rows, columns], transposed(&tensor.values::<f32>()?, columns, rows))?)
    }

    /// Old files call the two of a normalisation `gamma` and `beta`.
    fn find(&self, name: &str) -> Option<&Tensor> {
        let of = |name: &str| self.tensors.iter().find(|(other, _)| other == name).map(|(_, t)| t);
        of(name).or_else(|| {
            let old = name
                .strip_suffix("LayerNorm.weight")
                .map(|layer| format!("{layer}LayerNorm.gamma"))
                .or_else(|| {
                    name.strip_suffix("LayerNorm.bias").map(|l| format!("{l}LayerNorm.beta"))
                });
            old.and_then(|old| of(&old))
        })
    }
}

/// The same numbers in `f32`.
fn single(tensor: &Tensor) -> Result<Tensor> {
    let values: Vec<f32> = match tensor.element() {
        ElementType::F16 => tensor.values::<f16>()?.iter().map(|x| x.to_f32()).collect(),
        ElementType::BF16 => tensor.values::<bf16>()?.iter().map(|x| x.to_f32()).collect(),
        ElementType::F64 => tensor.values::<f64>()?.iter().map(|&x| x as f32).collect(),
        _ => return Ok(tensor.clone()),
    };
    Ok(Tensor::new(tensor.shape(), values)?)
}

/// Columns as rows, in squares that stay in the L1 cache.
fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    const SIDE: usize = 32;
    let mut turned = vec![0.0; values.len()];
    for top in (0..rows).step_by(SIDE) {
        for left in (0..columns).step_by(SIDE) {
            for row in top..(top + SIDE).min(rows) {
                for column in left..(left + SIDE).min(columns) {
                    turned[column * rows + row] = values[row * columns + column];
                }
            }
        }
    }
    turned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposition() {
        let (rows, columns) = (70, 33);
        let values: Vec<f32> = (0..rows * columns).map(|value| value as f32).collect();
        let turned = transposed(&values, rows, columns);
        for row in 0..rows {
            for column in 0..columns {
                assert_eq!(turned[column * rows + row], values[row * columns + column]);
            }
        }
    }
}
