//! Other ways to see the same elements, and moving them between devices and types.

use std::ops::Range;
use std::sync::Arc;

use polaris_core::{DType, Error as CoreError, Layout, Shape};
use polaris_ops::{Array, copy, fill};
use polaris_runtime::{DeviceExt, DeviceRef};

use crate::axis::resolve_all;
use crate::{Axis, Error, Result, Tensor};

/// What can be done with the gradient of a view whose forward only rearranged elements.
type Back = dyn Fn(&Tensor) -> Result<Tensor> + Send + Sync;

impl Tensor {
    /// A result that shares this tensor's memory.
    fn view(&self, name: &'static str, array: Array, back: Box<Back>) -> Self {
        let result = Self::sharing(array, Arc::clone(self.storage()));
        Self::record(name, result, &[self], |_| {
            move |gradient: &Self, _: &[bool]| Ok(vec![Some(back(gradient)?)])
        })
    }

    /// The same elements in another shape, without a copy where their places allow it.
    ///
    /// # Errors
    /// If the shape holds another number of elements, or there is no room for a copy.
    pub fn reshape(&self, dims: &[usize]) -> Result<Self> {
        let shape = Shape::new(dims)?;
        if shape.elements() != self.elements() {
            let (lhs, rhs) = (*self.shape(), shape);
            let hint = "both must have the same number of elements";
            return Err(CoreError::ShapeMismatch { op: "reshape", lhs, rhs, hint }.into());
        }
        let before = *self.shape();
        let back: Box<Back> = Box::new(move |gradient| gradient.reshape(before.dims()));
        if let Some(layout) = self.array().layout().reshape(&shape) {
            let array = Array::new(self.array().buffer().clone(), layout)?;
            return Ok(self.view("reshape", array, back));
        }
        let dense = copy::contiguous(self.array())?;
        let array = Array::new(dense.buffer().clone(), Layout::contiguous(shape))?;
        Ok(Self::record("reshape", Self::new(array), &[self], |_| {
            move |gradient: &Self, _: &[bool]| Ok(vec![Some(back(gradient)?)])
        }))
    }

    /// All axes in one.
    ///
    /// # Errors
    /// As for [`reshape`](Self::reshape).
    pub fn flatten(&self) -> Result<Self> {
        self.reshape(&[self.elements()])
    }

    /// The axes in another order: axis `i` of the result is axis `axes[i]` of this tensor.
    ///
    /// # Errors
    /// If `axes` is not a permutation.
    pub fn permute(&self, axes: &[impl Axis]) -> Result<Self> {
        let axes = &resolve_all("permute", axes, self.rank())?;
        let array = self.array().permute(axes)?;
        let mut inverse = vec![0; axes.len()];
        axes.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
        let back = Box::new(move |gradient: &Self| gradient.permute(&inverse));
        Ok(self.view("permute", array, back))
    }

    /// Two axes in each other's place.
    ///
    /// # Errors
    /// If an axis does not exist.
    pub fn transpose(&self, first: impl Axis, second: impl Axis) -> Result<Self> {
        let rank = self.rank();
        let mut axes: Vec<usize> = (0..rank).collect();
        axes.swap(first.resolve("transpose", rank)?, second.resolve("transpose", rank)?);
        self.permute(&axes)
    }

    /// A new axis of length 1, which stands at this place in the result: -1 puts it last.
    ///
    /// # Errors
    /// If the axis would lie beyond the end.
    pub fn unsqueeze(&self, axis: impl Axis) -> Result<Self> {
        let axis = axis.resolve("unsqueeze", self.rank() + 1)?;
        let mut dims = self.dims().to_vec();
        dims.insert(axis, 1);
        self.reshape(&dims)
    }

    /// Without an axis of length 1.
    ///
    /// # Errors
    /// If the axis does not exist or has another length.
    pub fn squeeze(&self, axis: impl Axis) -> Result<Self> {
        let axis = axis.resolve("squeeze", self.rank())?;
        let length = self.dims()[axis];
        if length != 1 {
            let what = format!("axis {axis} has length {length}; only length 1 can be left out");
            return Err(Error::InvalidParameter { op: "squeeze", what });
        }
        let mut dims = self.dims().to_vec();
        dims.remove(axis);
        self.reshape(&dims)
    }

    /// Repeated to a larger shape, without a copy.
    ///
    /// # Errors
    /// If NumPy's rule does not allow it.
    pub fn broadcast_to(&self, dims: &[usize]) -> Result<Self> {
        let array = self.array().broadcast_to(&Shape::new(dims)?)?;
        let before = *self.shape();
        let back = Box::new(move |gradient: &Self| gradient.sum_to(&before));
        Ok(self.view("broadcast_to", array, back))
    }

    /// Each index of an axis so many times, one copy beside the other.
    ///
    /// # Errors
    /// If the axis does not exist, or there is no room.
    pub fn repeat_interleave(&self, times: usize, axis: impl Axis) -> Result<Self> {
        let axis = axis.resolve("repeat_interleave", self.rank())?;
        let mut dims = self.dims().to_vec();
        dims.insert(axis + 1, times);
        let repeated = self.unsqueeze(axis + 1)?.broadcast_to(&dims)?;
        dims[axis] *= times;
        dims.remove(axis + 1);
        repeated.reshape(&dims)
    }

    /// A range of one axis, without a copy.
    ///
    /// # Errors
    /// If the range leaves the axis.
    pub fn narrow(&self, axis: impl Axis, range: Range<usize>) -> Result<Self> {
        let axis = axis.resolve("narrow", self.rank())?;
        self.slice(axis, range, 1)
    }

    /// Every `step`-th index of a range of one axis, without a copy.
    ///
    /// # Errors
    /// If the range leaves the axis.
    pub fn slice(&self, axis: impl Axis, range: Range<usize>, step: usize) -> Result<Self> {
        let axis = axis.resolve("slice", self.rank())?;
        let array = self.array().slice(axis, range.clone(), step)?;
        let before = *self.shape();
        let back = Box::new(move |gradient: &Self| {
            let whole = Self::zeros(gradient.device(), before.dims(), gradient.dtype())?;
            copy::into(gradient.array(), &whole.array().slice(axis, range.clone(), step)?)?;
            Ok(whole)
        });
        Ok(self.view("slice", array, back))
    }

    /// One index of an axis, which is gone in the result.
    ///
    /// # Errors
    /// If the index lies beyond the axis.
    pub fn select(&self, axis: impl Axis, index: usize) -> Result<Self> {
        let axis = axis.resolve("select", self.rank())?;
        self.narrow(axis, index..index.saturating_add(1))?.squeeze(axis)
    }

    /// Dense in row-major order; the tensor itself if it is.
    ///
    /// # Errors
    /// If there is no room.
    pub fn contiguous(&self) -> Result<Self> {
        if self.array().layout().is_contiguous() {
            return Ok(self.clone());
        }
        let result = Self::new(copy::contiguous(self.array())?);
        Ok(Self::record("contiguous", result, &[self], |_| {
            |gradient: &Self, _: &[bool]| Ok(vec![Some(gradient.clone())])
        }))
    }

    /// In another type. Gradients flow between floating-point types.
    ///
    /// # Errors
    /// If there is no room.
    pub fn to_dtype(&self, dtype: DType) -> Result<Self> {
        let before = self.dtype();
        if dtype == before {
            return Ok(self.clone());
        }
        let result = Self::new(copy::cast(self.array(), dtype)?);
        Ok(Self::record("to_dtype", result, &[self], |_| {
            move |gradient: &Self, _: &[bool]| Ok(vec![Some(gradient.to_dtype(before)?)])
        }))
    }

    /// On another device; the tensor itself if it is there.
    ///
    /// # Errors
    /// If there is no room, or the copy fails.
    pub fn to_device(&self, device: &DeviceRef) -> Result<Self> {
        if device.id() == self.device().id() {
            return Ok(self.clone());
        }
        let dense = copy::contiguous(self.array())?;
        let start = dense.layout().offset();
        let buffer = device.allocate(self.dtype(), self.elements())?;
        dense.buffer().view(start..start + self.elements())?.copy_to(&buffer)?;
        let result = Self::new(Array::new(buffer, Layout::contiguous(*self.shape()))?);
        let before = self.device().clone();
        Ok(Self::record("to_device", result, &[self], |_| {
            move |gradient: &Self, _: &[bool]| Ok(vec![Some(gradient.to_device(&before)?)])
        }))
    }

    /// Tensors one after the other along an axis that is there.
    ///
    /// # Errors
    /// If there are none, or shapes, types or devices do not fit.
    pub fn concatenate(tensors: &[&Self], axis: impl Axis) -> Result<Self> {
        let rank = tensors.first().map_or(0, |tensor| tensor.rank());
        let axis = match tensors.is_empty() {
            // The operation says what is wrong with no tensors.
            true => 0,
            false => axis.resolve("concatenate", rank)?,
        };
        let arrays: Vec<&Array> = tensors.iter().map(|tensor| tensor.array()).collect();
        let result = Self::new(copy::concatenate(&arrays, axis)?);
        let mut starts = vec![0];
        for tensor in tensors {
            starts.push(starts[starts.len() - 1] + tensor.dims()[axis]);
        }
        Ok(Self::record("concatenate", result, tensors, |_| {
            move |gradient: &Self, needed: &[bool]| {
                let part = |(range, &needed): (&[usize], &bool)| {
                    needed.then(|| gradient.narrow(axis, range[0]..range[1])).transpose()
                };
                starts.windows(2).zip(needed).map(part).collect()
            }
        }))
    }

    /// Tensors of one shape side by side along a new axis.
    ///
    /// # Errors
    /// As for [`concatenate`](Self::concatenate).
    pub fn stack(tensors: &[&Self], axis: impl Axis) -> Result<Self> {
        let wider = tensors.iter().map(|tensor| tensor.unsqueeze(axis));
        let wider: Vec<Self> = wider.collect::<Result<_>>()?;
        Self::concatenate(&wider.iter().collect::<Vec<_>>(), axis)
    }

    /// Pieces of an axis, each of this length but for the last, without a copy.
    ///
    /// # Errors
    /// If the axis does not exist, or the length is zero.
    pub fn split(&self, axis: impl Axis, length: usize) -> Result<Vec<Self>> {
        let axis = axis.resolve("split", self.rank())?;
        if length == 0 {
            let what = "pieces of length 0 never end; give at least 1".to_owned();
            return Err(Error::InvalidParameter { op: "split", what });
        }
        let end = self.dims()[axis];
        let pieces = (0..end).step_by(length);
        pieces.map(|start| self.narrow(axis, start..(start + length).min(end))).collect()
    }

    /// Zeros of this tensor's shape, type and device.
    ///
    /// # Errors
    /// If there is no room.
    pub fn zeros_like(&self) -> Result<Self> {
        Ok(Self::new(fill::full(self.device(), self.dtype(), *self.shape(), 0.0)?))
    }
}
