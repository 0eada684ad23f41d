//! Named tensors in the safetensors format, written so that a file is whole or not there.

use std::collections::HashMap;
use std::path::Path;

use polaris_core::{DType, Shape};
use polaris_ops::Array;
use polaris_runtime::{Buffer, DeviceRef};
use polaris_tensor::Tensor;
use safetensors::tensor::{SafeTensors, TensorView};

use crate::{Error, Result};

/// Writes tensors and some words about them: to a temporary file, to the disk, and only then under
/// the file's name. Whatever happens, the old file or the new one is there.
///
/// # Errors
/// `File` if the disk is full or the place cannot be written.
pub fn write(
    path: &Path,
    tensors: &[(String, Tensor)],
    words: &HashMap<String, String>,
) -> Result<()> {
    let mut parts = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        parts.push((name.as_str(), tensor.dims().to_vec(), tensor.dtype(), bytes_of(tensor)?));
    }
    let views = parts
        .iter()
        .map(|(name, dims, dtype, bytes)| {
            let dtype = file_type(*dtype).ok_or_else(|| {
                Error::file(path, format!("`{name}` is {dtype}, which the format does not have"))
            })?;
            let view = TensorView::new(dtype, dims.clone(), bytes);
            Ok((*name, view.map_err(|error| Error::file(path, error))?))
        })
        .collect::<Result<Vec<_>>>()?;
    let bytes = safetensors::serialize(views, Some(words.clone()));
    write_atomically(path, &bytes.map_err(|error| Error::file(path, error))?)
}

/// Writes a file so that it is whole or not there; folders that are missing are made.
///
/// # Errors
/// `File` if the disk is full or the place cannot be written.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    folder.and_then(|()| polaris_data::write_atomic(path, bytes)).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::StorageFull => "; free some space: what was there is still there",
            _ => "",
        };
        Error::file(path, format!("{error}{hint}"))
    })
}

/// Tensors by name, and the words about them.
pub type Contents = (HashMap<String, Tensor>, HashMap<String, String>);

/// Reads tensors to a device, and the words about them.
///
/// # Errors
/// `File` if it cannot be read or is not whole, or there is no room.
pub fn read(path: &Path, device: &DeviceRef) -> Result<Contents> {
    let bytes = std::fs::read(path).map_err(|error| Error::file(path, error))?;
    decode(path, &bytes, device)
}

/// Reads the words alone.
///
/// # Errors
/// `File` if it cannot be read or is not whole.
pub fn read_words(path: &Path) -> Result<HashMap<String, String>> {
    words_of(path, &std::fs::read(path).map_err(|error| Error::file(path, error))?)
}

fn words_of(path: &Path, bytes: &[u8]) -> Result<HashMap<String, String>> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| broken(path, error))?;
    Ok(header.metadata().clone().unwrap_or_default())
}

fn broken(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::file(path, format!("this is no whole file of safetensors: {error}"))
}

/// As [`read`], from the bytes of a file; its path is for messages.
///
/// # Errors
/// As for [`read`].
pub fn decode(path: &Path, bytes: &[u8], device: &DeviceRef) -> Result<Contents> {
    let words = words_of(path, bytes)?;
    let file = SafeTensors::deserialize(bytes).map_err(|error| broken(path, error))?;
    let mut tensors = HashMap::new();
    for (name, view) in file.iter() {
        let dtype = own_type(view.dtype()).ok_or_else(|| {
            Error::file(path, format!("`{name}` is {:?}, which is not supported", view.dtype()))
        })?;
        let tensor = tensor_of(device, dtype, view.shape(), view.data())?;
        tensors.insert(name.to_owned(), tensor);
    }
    Ok((tensors, words))
}

const TYPES: &[(DType, safetensors::Dtype)] = &[
    (DType::F32, safetensors::Dtype::F32),
    (DType::F64, safetensors::Dtype::F64),
    (DType::F16, safetensors::Dtype::F16),
    (DType::BF16, safetensors::Dtype::BF16),
    (DType::I64, safetensors::Dtype::I64),
    (DType::I32, safetensors::Dtype::I32),
    (DType::I8, safetensors::Dtype::I8),
    (DType::U8, safetensors::Dtype::U8),
    (DType::Bool, safetensors::Dtype::BOOL),
];

fn file_type(dtype: DType) -> Option<safetensors::Dtype> {
    TYPES.iter().find(|(own, _)| *own == dtype).map(|(_, file)| *file)
}

fn own_type(dtype: safetensors::Dtype) -> Option<DType> {
    TYPES.iter().find(|(_, file)| *file == dtype).map(|(own, _)| *own)
}

/// The elements in row-major order, little-endian.
pub(crate) fn bytes_of(tensor: &Tensor) -> Result<Vec<u8>> {
    let dense = tensor.detach().contiguous()?;
    let (array, size) = (dense.array(), dense.dtype().size());
    let start = array.layout().offset();
    let part = array.buffer().view(start..start + array.elements())?;
    let mut bytes = vec![0; array.elements() * size];
    part.read_bytes(&mut bytes)?;
    Ok(bytes)
}

fn tensor_of(device: &DeviceRef, dtype: DType, dims: &[usize], bytes: &[u8]) -> Result<Tensor> {
    let shape = Shape::new(dims)?;
    let buffer = Buffer::shaped(device, device.queue(), dtype, shape)?;
    buffer.write_bytes(bytes)?;
    let layout = polaris_core::Layout::contiguous(shape);
    Ok(Tensor::new(Array::new(buffer, layout)?))
}
