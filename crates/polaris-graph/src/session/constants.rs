//! Constants on devices: uploaded once, shared by all plans and runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use polaris_core::Shape;
use polaris_onnx::{Tensor, ValueId};
use polaris_ops::Array;

use super::runner::Engine;
use crate::Result;
use crate::plan::{Side, dtype_of};

/// Arrays of a graph's constants.
#[derive(Debug)]
pub(crate) struct Constants {
    engine: Arc<Engine>,
    arrays: Mutex<HashMap<(ValueId, Side), Array>>,
}

impl Constants {
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { engine, arrays: Mutex::default() }
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
