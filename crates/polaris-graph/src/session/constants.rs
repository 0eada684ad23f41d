//! Constants on devices: uploaded once, shared by all plans and runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use polaris_core::{Layout, Shape};
use polaris_onnx::{Tensor, ValueId};
use polaris_ops::conv::{ByteConvolution, ByteProblem, PackedConvolution};
use polaris_ops::matmul::PackedMatrix;
use polaris_ops::{Array, Convolution};

use super::runner::Engine;
use crate::Result;
use crate::plan::{Side, dtype_of};

/// Arrays of a graph's constants.
#[derive(Debug)]
pub(crate) struct Constants {
    engine: Arc<Engine>,
    arrays: Mutex<HashMap<(ValueId, Side), Array>>,
    matrices: Mutex<HashMap<(ValueId, bool), Arc<PackedMatrix>>>,
    weights: Mutex<HashMap<ValueId, Arc<PackedConvolution>>>,
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
        let mut arrays = self.arrays.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(array) = arrays.get(&(id, side)) {
            return Ok(array.clone());
        }
        let array = self.upload(tensor, side)?;
        arrays.insert((id, side), array.clone());
        Ok(array)
    }

    /// A matrix (all axes but the first two have one element), possibly turned, as the second factor of products on the CPU. It is packed from a copy
    /// that nobody keeps.
    pub fn matrix(&self, id: ValueId, tensor: &Tensor, turned: bool) -> Result<Arc<PackedMatrix>> {
        let mut matrices = self.matrices.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(matrix) = matrices.get(&(id, turned)) {
            return Ok(Arc::clone(matrix));
        }
        let array = self.upload(&tensor.reshaped(&tensor.shape()[..2])?, Side::Cpu)?;
        let array = if turned { array.permute(&[1, 0])? } else { array };
        let matrix = Arc::new(PackedMatrix::new(array.dtype(), &array)?);
        matrices.insert((id, turned), Arc::clone(&matrix));
        Ok(matrix)
    }

    /// The weight of a convolution on the CPU, if there is a packed form of it.
    pub fn weight(
        &self,
        id: ValueId,
        tensor: &Tensor,
        problem: &Convolution,
    ) -> Result<Option<Arc<PackedConvolution>>> {
        let mut weights = self.weights.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(weight) = weights.get(&id) {
            return Ok(Some(Arc::clone(weight)));
        }
        let array = self.upload(tensor, Side::Cpu)?;
        if !PackedConvolution::exists_for(problem, &array) {
            return Ok(None);
        }
        let weight = Arc::new(PackedConvolution::new(problem, &array)?);
        weights.insert(id, Arc::clone(&weight));
        Ok(Some(weight))
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
        let mut weights = self.byte_weights.lock().unwrap_or_else(PoisonError::into_inner);
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
