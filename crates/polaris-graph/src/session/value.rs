//! What sessions take and give.

use std::sync::Arc;

use polaris_core::Shape;
use polaris_onnx::{Dim, Tensor, Type, Value};
use polaris_ops::{Array, copy};
use polaris_runtime::DeviceRef;

use super::context::dense_part;
use crate::Result;
use crate::plan::{Side, dtype_of, element_of};

/// An input or output of a run.
#[derive(Debug, Clone)]
pub enum SessionValue {
    /// On the host: a tensor of any type of ONNX, a sequence or an optional.
    Host(Value),
    /// In the memory of a device. Where the session computes there, it is read where it lies.
    Device(Array),
}

impl From<Value> for SessionValue {
    fn from(value: Value) -> Self {
        Self::Host(value)
    }
}

impl From<Array> for SessionValue {
    fn from(array: Array) -> Self {
        Self::Device(array)
    }
}

impl SessionValue {
    /// Its type.
    pub fn ty(&self) -> Type {
        match self {
            Self::Host(value) => value.ty(),
            Self::Device(array) => {
                let dims = array.shape().iter().map(|&length| Dim::Known(length)).collect();
                Type::Tensor(element_of(array.dtype()), Some(dims))
            }
        }
    }

    /// The value on the host; copied there if it lies on a device.
    ///
    /// # Errors
    /// If the copy fails.
    pub fn into_host(self) -> Result<Value> {
        match self {
            Self::Host(value) => Ok(value),
            Self::Device(array) => Ok(Value::Tensor(read(&copy::contiguous(&array)?)?)),
        }
    }

    /// The array on a device; copied there if it lies elsewhere.
    ///
    /// # Errors
    /// If it is no tensor of a type that devices have, or there is no room.
    pub fn into_device(self, device: &DeviceRef) -> Result<Array> {
        let value = match self {
            Self::Device(array) if Arc::ptr_eq(array.device(), device) => return Ok(array),
            other => other.into_host()?,
        };
        let tensor = value.tensor()?;
        let dtype = dtype_of(tensor.element()).ok_or_else(|| {
            let what =
                format!("tensors of {} on a device; take them on the host", tensor.element());
            polaris_onnx::Error::unsupported(what)
        })?;
        let array = Array::empty(device, dtype, Shape::new(tensor.shape())?)?;
        array.buffer().write_bytes(tensor.bytes()?)?;
        Ok(array)
    }

    /// The side whose device it lies on.
    pub(super) fn side(&self, devices: &[Option<DeviceRef>; 2]) -> Option<Side> {
        let Self::Device(array) = self else { return None };
        let is_there = |side: &Side| {
            devices[side.index()].as_ref().is_some_and(|device| Arc::ptr_eq(device, array.device()))
        };
        Side::ALL.into_iter().find(is_there)
    }
}

/// A dense array as a tensor.
pub(super) fn read(array: &Array) -> Result<Tensor> {
    let part = dense_part(array)?;
    let mut bytes = vec![0; part.bytes()];
    part.read_bytes(&mut bytes)?;
    Ok(Tensor::from_bytes(element_of(array.dtype()), array.shape(), bytes.into())?)
}
