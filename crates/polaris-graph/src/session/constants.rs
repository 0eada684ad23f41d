//! Constants on devices: uploaded once, shared by all plans and runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use polaris_core::{DType, Layout, Shape};
use polaris_onnx::{Tensor, ValueId};
use polaris_ops::conv::{ByteConvolution, ByteProblem, PackedConvolution};
use polaris_ops::matmul::PackedMatrix;
use polaris_ops::{Array, Convolution};

use super::packs::{Key, content_hash};
use super::runner::{Engine, lock};
use crate::Result;
use crate::cost::fingerprint;
use crate::plan::{Side, dtype_of};

/// What was packed, with the keys under which it is kept on disk.
type Packed<Id, T> = Mutex<HashMap<Id, (Key, Arc<T>)>>;

/// Arrays of a graph's constants.
#[derive(Debug)]
pub(crate) struct Constants {
    engine: Arc<Engine>,
    arrays: Mutex<HashMap<(ValueId, Side), Array>>,
    matrices: Packed<(ValueId, bool), PackedMatrix>,
    weights: Packed<ValueId, PackedConvolution>,
    /// By what they make: scales and biases are part of them.
    byte_weights: Mutex<HashMap<ValueId, Arc<ByteConvolution>>>,
}

impl Constants {
    pub fn new(engine: Arc<Engine>) -> Self {
        Self {
            engine,
            arrays: Mutex::default(),
            matrices: Mutex::default(),
            weights: Mutex::default(),
            byte_weights: Mutex::default(),
        }
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

    /// A matrix (all axes but the first two have one element), possibly turned, as the second factor of
    /// products on the CPU. It is packed from a copy that nobody keeps, or was packed before.
    pub fn matrix(&self, id: ValueId, tensor: &Tensor, turned: bool) -> Result<Arc<PackedMatrix>> {
        let mut matrices = lock(&self.matrices);
        if let Some((_, matrix)) = matrices.get(&(id, turned)) {
            return Ok(Arc::clone(matrix));
        }
        let key = self.key_of(tensor, if turned { "turned" } else { "matrix" })?;
        let dtype = DType::F32;
        let kept = self.engine.packs.get(&key).and_then(|bytes| {
            let &[rows, columns, ..] = tensor.shape() else { return None };
            let dims = if turned { [columns, rows] } else { [rows, columns] };
            let device = self.engine.device(Side::Cpu);
            let matrix =
                PackedMatrix::from_bytes(device, dtype, &Shape::new(&dims).ok()?, &bytes).ok();
            self.engine.packs.release(&bytes);
            matrix
        });
        let matrix = match kept {
            Some(matrix) => matrix,
            None => {
                let array = self.upload(&tensor.reshaped(&tensor.shape()[..2])?, Side::Cpu)?;
                let array = if turned { array.permute(&[1, 0])? } else { array };
                PackedMatrix::new(array.dtype(), &array)?
            }
        };
        let matrix = Arc::new(matrix);
        matrices.insert((id, turned), (key, Arc::clone(&matrix)));
        Ok(matrix)
    }

    /// The weight of a convolution on the CPU, if there is a packed form of it.
    pub fn weight(
        &self,
        id: ValueId,
        tensor: &Tensor,
        problem: &Convolution,
    ) -> Result<Option<Arc<PackedConvolution>>> {
        let mut weights = lock(&self.weights);
        if let Some((_, weight)) = weights.get(&id) {
            return Ok(Some(Arc::clone(weight)));
        }
        let shape = Shape::new(tensor.shape())?;
        if !PackedConvolution::exists_for(problem, DType::F32, &shape) {
            return Ok(None);
        }
        let key = self.key_of(tensor, "convolution")?;
        let kept = self.engine.packs.get(&key).and_then(|bytes| {
            let device = self.engine.device(Side::Cpu);
            let weight = PackedConvolution::from_bytes(device, problem, &shape, &bytes).ok();
            self.engine.packs.release(&bytes);
            weight
        });
        let weight = match kept {
            Some(weight) => weight,
            None => PackedConvolution::new(problem, &self.upload(tensor, Side::Cpu)?)?,
        };
        let weight = Arc::new(weight);
        weights.insert(id, (key, Arc::clone(&weight)));
        Ok(Some(weight))
    }

    /// Keeps on disk what was packed, if something of it is not there yet. A disk that is full is no
    /// reason to stop.
    pub fn keep_packs(&self) {
        let (matrices, weights) = (lock(&self.matrices), lock(&self.weights));
        let matrices: HashMap<Key, &PackedMatrix> =
            matrices.values().map(|(key, matrix)| (*key, &**matrix)).collect();
        let weights: HashMap<Key, &PackedConvolution> =
            weights.values().map(|(key, weight)| (*key, &**weight)).collect();
        let keys: Vec<Key> = matrices.keys().chain(weights.keys()).copied().collect();
        let elements = |shape: &Shape| shape.elements() * DType::F32.size();
        let bytes = matrices.values().map(|matrix| elements(matrix.shape())).sum::<usize>()
            + weights.values().map(|weight| elements(weight.shape())).sum::<usize>();
        if !self.engine.packs.lacks(&keys, bytes) {
            return;
        }
        let load = |key: &Key| -> Result<Vec<u8>> {
            Ok(match (matrices.get(key), weights.get(key)) {
                (Some(matrix), _) => matrix.to_bytes()?.unwrap_or_default(),
                (None, Some(weight)) => weight.to_bytes()?,
                (None, None) => Vec::new(),
            })
        };
        if let Err(error) = self.engine.packs.save(&keys, load) {
            log::warn!("packed weights are not kept: {error}");
        }
    }

    /// What a tensor holds, and how it is packed. Pages of a file that were looked at are let go of again.
    fn key_of(&self, tensor: &Tensor, form: &str) -> Result<Key> {
        let form = format!("{form} {:?}", tensor.shape());
        let bytes = tensor.bytes()?;
        let key = content_hash(bytes, fingerprint(form.as_bytes()));
        self.engine.files.iter().for_each(|file| file.release(bytes));
        Ok(key)
    }

    /// A convolution of bytes on the CPU that makes a value, if it has a form for that. The weight of a
    /// product, `[k, n]`, is that of a convolution of one axis if it is turned.
    pub fn byte_weight(
        &self,
        made: ValueId,
        tensor: &Tensor,
        turned: bool,
        problem: &ByteProblem<'_>,
    ) -> Result<Option<Arc<ByteConvolution>>> {
        let mut weights = lock(&self.byte_weights);
        let known = weights.get(&made);
        if let Some(weight) = known.filter(|weight| *weight.problem() == problem.problem) {
            return Ok(Some(Arc::clone(weight)));
        }
        let mut array = self.upload(tensor, Side::Cpu)?;
        if let (true, &[k, n]) = (turned, tensor.shape()) {
            let layout = Layout::new(Shape::new(&[n, k, 1])?, &[1, n, 1], 0)?;
            array = Array::new(array.buffer().clone(), layout)?;
        }
        let weight = ByteConvolution::new(problem, &array)?.map(Arc::new);
        if let Some(weight) = &weight {
            weights.insert(made, Arc::clone(weight));
        }
        Ok(weight)
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
