//! Constants on devices: uploaded once, shared by all plans and runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use polaris_core::Shape;
use polaris_onnx::{Tensor, ValueId};
use polaris_ops::format::{Format, Role};
use polaris_ops::matmul::Precision;
use polaris_ops::{Array, weight};

use super::engine::{Engine, lock};
use super::packs::{Key, content_hash};
use crate::Result;
use crate::cost::fingerprint;
use crate::passes::Integers;
use crate::plan::{Side, dtype_of};

/// How a constant is used by the operation that it is prepared for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Usage {
    pub role: Role,
    /// A matrix whose rows are columns.
    pub turned: bool,
}

/// What was prepared, with the keys under which it is kept on disk.
type Prepared = HashMap<(ValueId, Side, Usage), (Key, Array)>;

/// Arrays of a graph's constants.
#[derive(Debug)]
pub(crate) struct Constants {
    engine: Arc<Engine>,
    arrays: Mutex<HashMap<(ValueId, Side), Array>>,
    weights: Mutex<Prepared>,
    /// Matrices of integers in blocks, by what their dequantisation makes.
    blocks: Mutex<HashMap<(ValueId, Side), Array>>,
}

impl Constants {
    pub fn new(engine: Arc<Engine>) -> Self {
        Self {
            engine,
            arrays: Mutex::default(),
            weights: Mutex::default(),
            blocks: Mutex::default(),
        }
    }

    /// How activations are multiplied with weights in blocks.
    pub fn precision(&self) -> Precision {
        self.engine.precision
    }

    /// The array of a constant; of a shared one always the same.
    pub fn array(&self, id: ValueId, tensor: &Tensor, side: Side, shared: bool) -> Result<Array> {
        if !shared {
            return self.upload(tensor, side);
        }
        let mut arrays = lock(&self.arrays);
        if let Some(array) = arrays.get(&(id, side)) {
            return Ok(array.clone());
        }
        let array = self.upload(tensor, side)?;
        arrays.insert((id, side), array.clone());
        Ok(array)
    }

    /// A matrix of integers in blocks along its last axis, if there is a format that has it exactly.
    pub fn blocks(
        &self,
        id: ValueId,
        side: Side,
        integers: &Integers<'_>,
    ) -> Result<Option<Array>> {
        let mut blocks = lock(&self.blocks);
        if let Some(array) = blocks.get(&(id, side)) {
            return Ok(Some(array.clone()));
        }
        let Some((block, bytes)) =
            integers.block().and_then(|block| Some((block, integers.pack(block)?)))
        else {
            return Ok(None);
        };
        let array = weight::from_blocks(self.engine.device(side), &integers.dims(), &bytes, block)?;
        blocks.insert((id, side), array.clone());
        Ok(Some(array))
    }

    /// A constant in the form that a side likes best for a use; `None` if there is none but the array. It is prepared
    /// from a copy that nobody keeps, or was prepared before, in this process or in another.
    pub fn weight(
        &self,
        id: ValueId,
        side: Side,
        usage: Usage,
        tensor: impl FnOnce() -> Result<Option<Tensor>>,
    ) -> Result<Option<Array>> {
        let mut weights = lock(&self.weights);
        if let Some((_, weight)) = weights.get(&(id, side, usage)) {
            return Ok(Some(weight.clone()));
        }
        let Some(tensor) = tensor()? else { return Ok(None) };
        let Some(dtype) = dtype_of(tensor.element()) else { return Ok(None) };
        let mut dims = tensor.shape().to_vec();
        if usage.turned {
            dims.reverse();
        }
        let (shape, role, device) = (Shape::new(&dims)?, usage.role, self.engine.device(side));
        if weight::format_of(role, device, dtype, &shape) == Format::Dense {
            return Ok(None);
        }
        let key = self.key_of(&tensor, &usage)?;
        let kept = self.engine.packs.get(&key).and_then(|bytes| {
            let weight = weight::restore(role, device, dtype, &shape, &bytes).ok();
            self.engine.packs.release(&bytes);
            weight
        });
        let weight = match kept {
            Some(weight) => weight,
            None => {
                let array = self.upload(&tensor, side)?;
                let array = if usage.turned { array.permute(&[1, 0])? } else { array };
                weight::prepare(role, &array)?
            }
        };
        weights.insert((id, side, usage), (key, weight.clone()));
        Ok(Some(weight))
    }

    /// Keeps on disk what was prepared, if something of it is not there yet. A disk that is full is no
    /// reason to stop.
    pub fn keep_packs(&self) {
        let weights = lock(&self.weights);
        let weights: HashMap<Key, &Array> =
            weights.values().map(|(key, weight)| (*key, weight)).collect();
        let keys: Vec<Key> = weights.keys().copied().collect();
        let bytes = weights.values().map(|weight| weight.buffer().bytes()).sum();
        if !self.engine.packs.lacks(&keys, bytes) {
            return;
        }
        let load = |key: &Key| -> Result<Vec<u8>> {
            Ok(weights
                .get(key)
                .map(|weight| weight::to_bytes(weight))
                .transpose()?
                .unwrap_or_default())
        };
        if let Err(error) = self.engine.packs.save(&keys, load) {
            log::warn!("cannot cache prepacked weights: {error}");
        }
    }

    /// What a tensor holds, and how it is packed. Pages of a file that were looked at are let go of again.
    fn key_of(&self, tensor: &Tensor, usage: &Usage) -> Result<Key> {
        let form = format!("{usage:?} {} {:?}", tensor.element(), tensor.shape());
        let bytes = tensor.bytes()?;
        let key = content_hash(bytes, fingerprint(form.as_bytes()));
        self.engine.files.iter().for_each(|file| file.release(bytes));
        Ok(key)
    }

    /// A new array of a tensor's elements.
    pub fn upload(&self, tensor: &Tensor, side: Side) -> Result<Array> {
        let element = tensor.element();
        let dtype = dtype_of(element).ok_or_else(|| {
            polaris_onnx::Error::unsupported(format!("arrays of {element} on devices"))
        })?;
        let array = Array::empty(self.engine.device(side), dtype, Shape::new(tensor.shape())?)?;
        let bytes = tensor.bytes()?;
        array.buffer().write_bytes(bytes)?;
        for file in &self.engine.files {
            file.release(bytes);
        }
        Ok(array)
    }
}
