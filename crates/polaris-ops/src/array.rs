//! An array: a buffer and the layout in it.

use std::ops::Range;

use polaris_core::{DType, Element, Error as CoreError, Layout, Shape};
use polaris_runtime::{Buffer, DeviceRef};

use crate::format::{Block, Format, Panels, Stored};
use crate::{Error, Result, copy};

/// An array of any layout on any device. Cloning and viewing share the memory.
///
/// Most arrays are dense: their elements are of a data type, one beside the other. Weights may be in another
/// [`Format`]; operations that do not read it are given the expanded elements.
#[derive(Debug, Clone)]
pub struct Array {
    buffer: Buffer,
    layout: Layout,
    format: Format,
}

/// What an array is, without its memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArrayType {
    /// The type of its elements.
    pub dtype: DType,
    /// How they are stored.
    pub format: Format,
    /// Where they lie.
    pub layout: Layout,
}

impl ArrayType {
    /// Bytes that the elements take in memory; those that a view repeats count once.
    pub fn bytes(&self) -> usize {
        if self.layout.elements() == 0 {
            return 0;
        }
        let lengths = self.layout.shape().iter().zip(self.layout.strides());
        let distinct: usize =
            lengths.filter(|(_, stride)| **stride > 0).map(|(&length, _)| length).product();
        match self.format {
            Format::Block(block) => distinct.div_ceil(block.elements()) * block.bytes(),
            Format::Dense | Format::Panels(_) => distinct * self.dtype.size(),
        }
    }
}

impl AsRef<Self> for Array {
    fn as_ref(&self) -> &Self {
        self
    }
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
        Ok(Self { buffer, layout, format: Format::Dense })
    }

    /// A layout over blocks: element `i` of the buffer is in block `i / elements of a block`.
    ///
    /// # Errors
    /// If the buffer is not one of whole blocks of bytes, or the layout leaves it.
    pub fn of_blocks(buffer: Buffer, layout: Layout, block: Block) -> Result<Self> {
        // Kernels count elements from the beginning of the memory, not of a part of it.
        let is_part = buffer.device().as_opencl().is_some() && buffer.byte_offset() != 0;
        let whole = buffer.len().is_multiple_of(block.bytes());
        if buffer.dtype() != DType::U8 || !whole || is_part {
            let (dtype, bytes) = (buffer.dtype(), buffer.bytes());
            let what = format!(
                "a buffer of {bytes} bytes as {dtype} does not hold whole blocks of {} bytes; give u8 in \
                 memory of its own",
                block.bytes()
            );
            return Err(Error::InvalidParameter { op: block.name(), what });
        }
        let holds = buffer.len() / block.bytes() * block.elements();
        if layout.end() > holds {
            let (op, reaches) = (block.name(), layout.end());
            return Err(CoreError::OutOfBounds { op, reaches, holds }.into());
        }
        Ok(Self { buffer, layout, format: Format::Block(block) })
    }

    /// A weight in panels, which only the operations that they are made for read.
    pub(crate) fn of_panels(buffer: Buffer, shape: Shape, panels: Panels) -> Self {
        Self { buffer, layout: Layout::contiguous(shape), format: Format::Panels(panels) }
    }

    /// Another view of the same memory, in the same format.
    ///
    /// # Errors
    /// `OutOfBounds` if the layout leaves the buffer; panels have no view but the whole.
    pub fn with_layout(&self, layout: Layout) -> Result<Self> {
        match self.format {
            Format::Dense => Self::new(self.buffer.clone(), layout),
            Format::Block(block) => Self::of_blocks(self.buffer.clone(), layout, block),
            Format::Panels(_) if layout == self.layout => Ok(self.clone()),
            Format::Panels(panels) => Err(panels.no_view()),
        }
    }

    /// The same place in another buffer, which holds the same.
    pub(crate) fn in_buffer(&self, buffer: Buffer) -> Self {
        Self { buffer, ..*self }
    }

    /// A dense array with whatever its memory holds.
    ///
    /// # Errors
    /// If there is no room.
    pub fn empty(device: &DeviceRef, dtype: DType, shape: Shape) -> Result<Self> {
        let buffer = Buffer::shaped(device, device.queue(), dtype, shape)?;
        Ok(Self { buffer, layout: Layout::contiguous(shape), format: Format::Dense })
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

    /// The type of its elements; in another format than dense, the type that they expand to.
    pub fn dtype(&self) -> DType {
        match self.format {
            Format::Dense => self.buffer.dtype(),
            Format::Block(_) => DType::F32,
            Format::Panels(panels) => panels.dtype,
        }
    }

    /// How its elements are stored.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether its elements are stored as they are.
    pub fn is_dense(&self) -> bool {
        self.format == Format::Dense
    }

    /// What it is, without its memory.
    pub fn array_type(&self) -> ArrayType {
        ArrayType { dtype: self.dtype(), format: self.format, layout: self.layout }
    }

    /// What kernels read: elements of a type, or of blocks.
    pub(crate) fn stored(&self) -> Stored {
        match self.format {
            Format::Block(block) => Stored::Block(block),
            Format::Dense | Format::Panels(_) => Stored::Dense(self.dtype()),
        }
    }

    /// The first element, counted from the beginning of the memory that kernels are given.
    pub(crate) fn first_element(&self) -> usize {
        match self.format {
            Format::Dense => self.buffer.byte_offset() / self.dtype().size() + self.layout.offset(),
            Format::Block(_) | Format::Panels(_) => self.layout.offset(),
        }
    }

    /// The device.
    pub fn device(&self) -> &DeviceRef {
        self.buffer.device()
    }

    /// The stretch of its block of memory, in bytes, from its first to its last element.
    pub(crate) fn extent(&self) -> Range<usize> {
        let start = self.buffer.byte_offset();
        if !self.is_dense() {
            return start..start + self.buffer.bytes();
        }
        let at = |element: usize| start + element * self.dtype().size();
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
        self.with_layout(self.layout.permute(axes)?)
    }

    /// Every `step`-th index of a range of one axis, sharing the memory.
    ///
    /// # Errors
    /// If the range leaves the axis.
    pub fn slice(&self, axis: usize, range: Range<usize>, step: usize) -> Result<Self> {
        self.with_layout(self.layout.slice(axis, range, step)?)
    }

    /// Repeated to a larger shape, sharing the memory.
    ///
    /// # Errors
    /// If NumPy's rule does not allow it.
    pub fn broadcast_to(&self, shape: &Shape) -> Result<Self> {
        self.with_layout(self.layout.broadcast_to("broadcast_to", shape)?)
    }

    /// The elements in row-major order, copied to the host.
    ///
    /// # Errors
    /// `DTypeMismatch`, or a failed copy.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let is_in_order = self.layout.is_contiguous() && self.is_dense();
        let dense = if is_in_order { self.clone() } else { copy::contiguous(self)? };
        let start = dense.layout.offset();
        Ok(dense.buffer.view(start..start + dense.elements())?.to_vec()?)
    }
}
