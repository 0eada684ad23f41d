//! Named tensors in the safetensors format, with a checksum, written so that a file is whole or not there.
//!
//! Equal tensors and metadata make equal files: the header's keys are sorted.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;

use polaris_core::{DType, Shape};
use polaris_files::AtomicFile;
use polaris_ops::Array;
use polaris_runtime::{Buffer, DeviceRef};
use polaris_tensor::Tensor;
use safetensors::tensor::SafeTensors;
use serde_json::{Value, json};

use crate::checksum;
use crate::{Error, Result};

/// The largest file that is read: more than any device's memory holds.
const LARGEST: u64 = 1 << 38;

/// Key/value pairs about the tensors of a file.
pub type Metadata = BTreeMap<String, String>;

/// Writes tensors and metadata: to a temporary file, to the disk, and only then under
/// the file's name. Whatever happens, the old file or the new one is there.
///
/// # Errors
/// `File` if the disk is full or the place cannot be written.
pub fn write(path: &Path, tensors: &[(String, Tensor)], metadata: &Metadata) -> Result<()> {
    let mut parts = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let dtype = file_type(tensor.dtype()).ok_or_else(|| {
            let dtype = tensor.dtype();
            Error::file(path, format!("`{name}` is {dtype}, which the format does not have"))
        })?;
        parts.push((name.as_str(), dtype, tensor));
    }
    // Large elements first, so that all of them are aligned.
    parts.sort_by(|(name, dtype, _), (other_name, other, _)| {
        other.bitsize().cmp(&dtype.bitsize()).then(name.cmp(other_name))
    });
    let mut metadata = metadata.clone();
    metadata.insert(checksum::KEY.to_owned(), checksum::NONE_YET.to_owned());
    let mut header = BTreeMap::from([("__metadata__", json!(metadata))]);
    let (mut offset, mut data) = (0, Vec::with_capacity(parts.len()));
    for (name, dtype, tensor) in parts {
        let bytes = bytes_of(tensor)?;
        let end = offset + bytes.len();
        let entry: Value =
            json!({ "dtype": dtype, "shape": tensor.dims(), "data_offsets": [offset, end] });
        if header.insert(name, entry).is_some() {
            return Err(Error::file(path, format!("two tensors have the name `{name}`")));
        }
        offset = end;
        data.push(bytes);
    }
    let mut head = serde_json::to_vec(&header).map_err(|error| Error::file(path, error))?;
    head.resize(head.len().next_multiple_of(8), b' ');
    head.splice(0..0, (head.len() as u64).to_le_bytes());
    checksum::fill_in(&mut head, &data);
    let all = || {
        let mut file = create(path)?;
        file.write_all(&head)?;
        data.iter().try_for_each(|bytes| file.write_all(bytes))?;
        file.finish()
    };
    all().map_err(|error| unwritten(path, &error))
}

/// Writes a file so that it is whole or not there; folders that are missing are made.
///
/// # Errors
/// `File` if the disk is full or the place cannot be written.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let all = || {
        let mut file = create(path)?;
        file.write_all(bytes)?;
        file.finish()
    };
    all().map_err(|error| unwritten(path, &error))
}

fn create(path: &Path) -> std::io::Result<AtomicFile> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    AtomicFile::create(path)
}

fn unwritten(path: &Path, error: &std::io::Error) -> Error {
    let advice = polaris_files::write_advice(error);
    Error::io_in_words(path, error, format!("cannot be written: {error}{advice}"))
}

/// Tensors by name, and the metadata.
pub type Contents = (HashMap<String, Tensor>, Metadata);

/// Reads tensors to a device, and the metadata. A checksum that the file has must be right.
///
/// # Errors
/// `File` if it cannot be read or is not whole, or there is no room.
pub fn read(path: &Path, device: &DeviceRef) -> Result<Contents> {
    decode(path, &bytes_in(path)?, device)
}

/// Reads the metadata alone; a checksum that the file has must be right.
///
/// # Errors
/// `File` if it cannot be read or is not whole.
pub fn read_metadata(path: &Path) -> Result<Metadata> {
    metadata_of(path, &bytes_in(path)?)
}

fn bytes_in(path: &Path) -> Result<Vec<u8>> {
    polaris_files::read(path, LARGEST).map_err(|error| Error::io(path, &error))
}

fn metadata_of(path: &Path, bytes: &[u8]) -> Result<Metadata> {
    let (length, header) =
        SafeTensors::read_metadata(bytes).map_err(|error| broken(path, error))?;
    let metadata: Metadata = header.metadata().clone().unwrap_or_default().into_iter().collect();
    if let Some(stated) = metadata.get(checksum::KEY) {
        let (head, data) = bytes.split_at(length + 8);
        checksum::check(head, data, stated).map_err(|why| Error::file(path, why))?;
    }
    Ok(metadata)
}

fn broken(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::file(path, format!("this is no whole file of safetensors: {error}"))
}

/// As [`read`], from the bytes of a file; its path is for messages.
///
/// # Errors
/// As for [`read`].
pub fn decode(path: &Path, bytes: &[u8], device: &DeviceRef) -> Result<Contents> {
    let metadata = metadata_of(path, bytes)?;
    let file = SafeTensors::deserialize(bytes).map_err(|error| broken(path, error))?;
    let mut tensors = HashMap::new();
    for (name, view) in file.iter() {
        let dtype = own_type(view.dtype()).ok_or_else(|| {
            Error::file(path, format!("`{name}` is {:?}, which is not supported", view.dtype()))
        })?;
        let tensor = tensor_of(device, dtype, view.shape(), view.data())?;
        tensors.insert(name.to_owned(), tensor);
    }
    Ok((tensors, metadata))
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
