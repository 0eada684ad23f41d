//! A buffer and how an array lies in it.

use std::ops::Range;

use polaris_core::{DType, Element, Error as CoreError, Layout, Shape};
use polaris_runtime::{Buffer, DeviceRef};

use crate::{Result, copy};

/// An array of any layout on any device. Cloning and viewing share the memory.
#[derive(Debug, Clone)]
pub struct Array {
    buffer: Buffer,
    layout: Layout,
}

impl Array {
    /// A layout over a buffer.
    ///
    /// # Errors
    /// `OutOfBounds` if the layout leaves the buffer.
    pub fn new(buffer: Buffer, layout: Layout) -> Result<Self> {
        if layout.end() > buffer.len() {
            let (reaches, holds) = (layout.end(), buffer.len());
            return Err(CoreError::OutOfBounds { op: "array", reaches, holds }.into());
        }
        Ok(Self { buffer, layout })
    }

    /// A dense array with whatever its memory holds.
    ///
    /// # Errors
    /// If there is no room.
    pub fn empty(device: &DeviceRef, dtype: DType, shape: Shape) -> Result<Self> {
        let buffer = Buffer::shaped(device, device.queue(), dtype, shape)?;
        Ok(Self { buffer, layout: Layout::contiguous(shape) })
    }

    /// A dense array of these values.
    ///
    /// # Errors
    /// `LengthMismatch` if the shape holds another number of them, or if there is no room.
    pub fn from_slice<T: Element>(
        device: &DeviceRef,
        dims: &[usize],
        values: &[T],
    ) -> Result<Self> {
        let shape = Shape::new(dims)?;
        if shape.elements() != values.len() {
            let (expected, found) = (shape.elements(), values.len());
            let op = "from_slice";
            return Err(polaris_runtime::Error::LengthMismatch { op, expected, found }.into());
        }
        let array = Self::empty(device, T::DTYPE, shape)?;
        array.buffer.write(values)?;
        Ok(array)
    }

    /// The memory.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Where the elements lie in it.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        self.layout.shape()
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.layout.elements()
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.buffer.dtype()
    }

    /// The device.
    pub fn device(&self) -> &DeviceRef {
        self.buffer.device()
    }

    /// The stretch of its block of memory, in bytes, from its first to its last element.
    pub(crate) fn extent(&self) -> Range<usize> {
        let at = |element: usize| self.buffer.byte_offset() + element * self.dtype().size();
        at(self.layout.offset())..at(self.layout.end())
    }

    /// Whether the stretches of memory of the two meet. Arrays of one block may well lie apart.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (self.extent(), other.extent());
        self.buffer.shares_memory_with(&other.buffer) && a.start < b.end && b.start < a.end
    }

    /// The axes in another order, sharing the memory.
    ///
    /// # Errors
    /// If `axes` is not a permutation.
    pub fn permute(&self, axes: &[usize]) -> Result<Self> {
        Ok(Self { buffer: self.buffer.clone(), layout: self.layout.permute(axes)? })
    }

    /// Every `step`-th index of a range of one axis, sharing the memory.
    ///
    /// # Errors
    /// If the range leaves the axis.
    pub fn slice(&self, axis: usize, range: Range<usize>, step: usize) -> Result<Self> {
        Ok(Self { buffer: self.buffer.clone(), layout: self.layout.slice(axis, range, step)? })
    }

    /// Repeated to a larger shape, sharing the memory.
    ///
    /// # Errors
    /// If NumPy's rule does not allow it.
    pub fn broadcast_to(&self, shape: &Shape) -> Result<Self> {
        let layout = self.layout.broadcast_to("broadcast_to", shape)?;
        Ok(Self { buffer: self.buffer.clone(), layout })
    }

    /// The elements in row-major order, copied to the host.
    ///
    /// # Errors
    /// `DTypeMismatch`, or a failed copy.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let dense =
            if self.layout.is_contiguous() { self.clone() } else { copy::contiguous(self)? };
        let start = dense.layout.offset();
        Ok(dense.buffer.view(start..start + dense.elements())?.to_vec()?)
    }
}
