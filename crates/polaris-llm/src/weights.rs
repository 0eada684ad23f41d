//! The tensors of a model on a device, in the formats that its file has.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use polaris_core::{DType, Layout, Shape};
use polaris_gguf::TensorType;
use polaris_ops::{Array, Block};
use polaris_runtime::{Buffer, DeviceExt, DeviceRef};

use crate::form::Form;
use crate::{Error, Result};

/// A tensor as a file has it.
#[derive(Debug, Clone)]
pub struct SourceTensor {
    /// How its elements are stored.
    pub ty: TensorType,
    /// Its dimensions, outermost first.
    pub dims: Vec<usize>,
    /// Its bytes, which may be in several places that follow one another.
    pub parts: Vec<Bytes>,
    /// How they become the tensor.
    pub form: Form,
}

impl SourceTensor {
    /// Its bytes in all.
    pub fn bytes(&self) -> usize {
        let stored = || self.parts.iter().map(Bytes::len).sum();
        match self.form {
            Form::Plain => stored(),
            _ => self.ty.bytes_of(&self.dims).unwrap_or_else(stored),
        }
    }
}

/// The tensors of a model by name, on a device.
pub struct Weights {
    device: DeviceRef,
    arrays: BTreeMap<String, Array>,
    /// Those that are made of others.
    made: HashSet<String>,
    /// Those that someone asked for.
    used: Mutex<HashSet<String>>,
}

impl std::fmt::Debug for Weights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Weights({} on {})", self.arrays.len(), self.device.id())
    }
}

/// The block format of a type, if it is one.
pub fn block_of(ty: TensorType) -> Option<Block> {
    Block::ALL.into_iter().find(|block| block.name().eq_ignore_ascii_case(ty.name()))
}

impl Weights {
    /// Brings tensors to a device. On the CPU they stay where they are, in the mapped file; `progress` is told how many
    /// bytes are there.
    ///
    /// # Errors
    /// If there is no room.
    pub fn load(
        device: &DeviceRef,
        tensors: &BTreeMap<String, SourceTensor>,
        ignored: &'static [&'static str],
        mut progress: impl FnMut(usize) -> Result<()>,
    ) -> Result<Self> {
        let mut arrays = BTreeMap::new();
        let mut done = 0;
        let is_ignored = |name: &str| {
            let of_layer = |ending: &&str| {
                name.strip_suffix(*ending)
                    .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            };
            ignored.iter().any(of_layer)
        };
        for (name, tensor) in tensors.iter().filter(|(name, _)| !is_ignored(name)) {
            arrays.insert(name.clone(), load(device, tensor)?);
            done += tensor.bytes();
            progress(done)?;
        }
        Ok(Self { device: device.clone(), arrays, made: HashSet::new(), used: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device.
    pub fn device(&self) -> &DeviceRef {
        &self.device
    }

    /// Adds a tensor that is made of others.
    pub fn insert(&mut self, name: String, array: Array) {
        self.made.insert(name.clone());
        self.arrays.insert(name, array);
    }

    /// The tensor of the file that an array is, or is a part of: it shares its memory. On the CPU each tensor has a block of
    /// memory to itself.
    pub fn origin(&self, array: &Array) -> Option<(&str, &Array)> {
        let is_it = |(name, whole): &(&String, &Array)| {
            whole.buffer().shares_memory_with(array.buffer()) && !self.made.contains(*name)
        };
        self.arrays.iter().find(is_it).map(|(name, whole)| (name.as_str(), whole))
    }

    /// Whether there is a tensor of a name.
    pub fn has(&self, name: &str) -> bool {
        self.arrays.contains_key(name)
    }

    /// The tensor of a name, if there is one.
    pub fn find(&self, name: &str) -> Option<&Array> {
        let array = self.arrays.get(name)?;
        let mut used = self.lock();
        if !used.contains(name) {
            used.insert(name.to_owned());
        }
        Some(array)
    }

    /// The tensor of a name that must be there.
    ///
    /// # Errors
    /// If it is not.
    pub fn require(&self, name: &str) -> Result<&Array> {
        self.find(name).ok_or_else(|| Error::model(format!("the tensor `{name}` is missing")))
    }

    /// The tensor of a name, which must have a shape if it is there.
    ///
    /// # Errors
    /// If it has another shape.
    pub fn find_shaped(&self, name: &str, dims: &[usize]) -> Result<Option<&Array>> {
        let Some(array) = self.find(name) else { return Ok(None) };
        let found = array.shape().dims();
        let is_same = found == dims
            || dims.len() == 1
                && array.elements() == dims[0]
                && found.iter().any(|&dim| dim == dims[0]);
        match is_same {
            true => Ok(Some(array)),
            false => Err(Error::TensorShape {
                name: name.to_owned(),
                found: format!("{found:?}"),
                expected: format!("{dims:?}"),
            }),
        }
    }

    /// The names of all tensors, with how many elements they have.
    pub fn elements(&self) -> impl Iterator<Item = (&str, usize)> {
        self.arrays.iter().map(|(name, array)| (name.as_str(), array.elements()))
    }

    /// Says that tensors whose names begin so are known and not needed.
    pub fn ignore(&self, is_known: impl Fn(&str) -> bool) {
        let mut used = self.lock();
        used.extend(self.arrays.keys().filter(|name| is_known(name)).cloned());
    }

    /// Tensors that nobody has asked for.
    pub fn unused(&self) -> Vec<&str> {
        let used = self.lock();
        self.arrays.keys().filter(|name| !used.contains(*name)).map(String::as_str).collect()
    }
}

/// A tensor on a device: matrices as they are stored, vectors as `f32`.
fn load(device: &DeviceRef, tensor: &SourceTensor) -> Result<Array> {
    let shape = Shape::new(&tensor.dims)?;
    let parts = tensor.form.apply(&tensor.dims, &tensor.parts)?;
    let is_vector = tensor.dims.iter().filter(|&&dim| dim > 1).count() <= 1;
    let dtype = match tensor.ty {
        TensorType::F32 => DType::F32,
        TensorType::F16 => DType::F16,
        TensorType::BF16 => DType::BF16,
        ty => {
            let Some(block) = block_of(ty) else {
                return Err(Error::model(format!("tensors of type {ty} are not supported")));
            };
            let buffer = buffer(device, DType::U8, &parts)?;
            return Ok(Array::of_blocks(buffer, Layout::contiguous(shape), block)?);
        }
    };
    if is_vector && dtype != DType::F32 {
        let bytes: Vec<u8> = parts.concat();
        let values = polaris_gguf::dequantize(tensor.ty, &bytes)?;
        return Ok(Array::from_slice(device, &tensor.dims, &values)?);
    }
    let buffer = buffer(device, dtype, &parts)?;
    Ok(Array::new(buffer, Layout::contiguous(shape))?)
}

/// The bytes of a tensor in one buffer: where they are, if that is one place on the CPU.
fn buffer(device: &DeviceRef, dtype: DType, parts: &[Bytes]) -> Result<Buffer> {
    if let [bytes] = parts {
        return Ok(Buffer::from_shared(device, dtype, bytes.clone())?);
    }
    let bytes: usize = parts.iter().map(Bytes::len).sum();
    let buffer = device.allocate(dtype, bytes / dtype.size())?;
    let mut at = 0;
    for part in parts {
        let elements = part.len() / dtype.size();
        buffer.view(at..at + elements)?.write_bytes(part)?;
        at += elements;
    }
    Ok(buffer)
}
