//! Typed, shared views of device memory.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use polaris_core::{DType, Element, Shape};

use crate::memory::host::host_start;
use crate::memory::{Block, HostMemory, HostMut, HostRef};
use crate::queue::{MemoryRange, PendingDownload, Queue};
use crate::{DeviceRef, Error, Result};

/// Elements of one type in a device's memory. Cloning and slicing share the memory.
#[derive(Debug, Clone)]
pub struct Buffer {
    block: Arc<Block>,
    dtype: DType,
    byte_offset: usize,
    len: usize,
}

impl Buffer {
    /// A buffer of `len` elements whose home is this queue. Its contents are whatever was there.
    ///
    /// # Errors
    /// `OutOfMemory` or `AllocationTooLarge`.
    pub fn allocate(
        device: &DeviceRef,
        queue: &Arc<dyn Queue>,
        dtype: DType,
        len: usize,
    ) -> Result<Self> {
        let bytes = len.checked_mul(dtype.size()).filter(|&bytes| bytes <= isize::MAX as usize);
        let bytes = bytes.ok_or_else(|| polaris_core::Error::TooLarge {
            what: format!("a buffer of {len} elements of {dtype}"),
        })?;
        let shape = Shape::new(&[len]).map_err(|_| Error::AllocationTooLarge {
            device: device.id(),
            asked: bytes as u64,
            max: device.capabilities().max_allocation_bytes,
        })?;
        Self::shaped(device, queue, dtype, shape)
    }

    /// A buffer for the elements of an array. The shape is only remembered: it is told when there is
    /// no more memory.
    ///
    /// # Errors
    /// `OutOfMemory` or `AllocationTooLarge`.
    pub fn shaped(
        device: &DeviceRef,
        queue: &Arc<dyn Queue>,
        dtype: DType,
        shape: Shape,
    ) -> Result<Self> {
        let block = Arc::new(Block::allocate(device, queue, dtype, shape)?);
        Ok(Self { block, dtype, byte_offset: 0, len: shape.elements() })
    }

    /// A buffer that holds these values: on the CPU without a copy, elsewhere by an upload.
    ///
    /// # Errors
    /// As for an upload.
    pub fn from_vec<T: Element>(device: &DeviceRef, values: Vec<T>) -> Result<Self> {
        let len = values.len();
        if device.as_cpu().is_none() || len == 0 {
            return crate::DeviceExt::upload(device, &values);
        }
        let memory = Box::new(HostMemory::from_vec(values));
        let block = Arc::new(Block::wrap(device, memory));
        Ok(Self { block, dtype: T::DTYPE, byte_offset: 0, len })
    }

    /// A read-only buffer of bytes that are shared, such as a part of a mapped file: on the CPU without a copy if they
    /// are aligned for the type, elsewhere by an upload. Writing to it is the error `BufferBusy`.
    ///
    /// # Errors
    /// `LengthMismatch` if the bytes are not whole elements, or as for an upload.
    pub fn from_shared(device: &DeviceRef, dtype: DType, bytes: Bytes) -> Result<Self> {
        let len = bytes.len() / dtype.size();
        if !bytes.len().is_multiple_of(dtype.size()) {
            let expected = (len + 1) * dtype.size();
            let (op, found) = ("from_shared", bytes.len());
            return Err(Error::LengthMismatch { op, expected, found });
        }
        let is_aligned = bytes.as_ptr().addr().is_multiple_of(dtype.size());
        if device.as_cpu().is_none() || !is_aligned || len == 0 {
            let buffer = Self::allocate(device, device.queue(), dtype, len)?;
            buffer.write_bytes(&bytes)?;
            return Ok(buffer);
        }
        let memory = Box::new(HostMemory::from_shared(bytes));
        let block = Arc::new(Block::wrap_read_only(device, memory));
        Ok(Self { block, dtype, byte_offset: 0, len })
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.len * self.dtype.size()
    }

    /// Where it lies.
    pub fn device(&self) -> &DeviceRef {
        self.block.device()
    }

    /// The queue it was allocated for, to which work on it goes by default.
    pub fn queue(&self) -> &Arc<dyn Queue> {
        self.block.queue()
    }

    /// The first byte within the block.
    pub fn byte_offset(&self) -> usize {
        self.byte_offset
    }

    /// Whether the two share memory (not necessarily the same elements).
    pub fn shares_memory_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.block, &other.block)
    }

    /// Some of the elements, sharing the memory.
    ///
    /// # Errors
    /// `OutOfBounds` if the range leaves the buffer.
    pub fn view(&self, range: Range<usize>) -> Result<Self> {
        if range.start > range.end || range.end > self.len {
            let reaches = range.end.max(range.start);
            return Err(
                polaris_core::Error::OutOfBounds { op: "view", reaches, holds: self.len }.into()
            );
        }
        let byte_offset = self.byte_offset + range.start * self.dtype.size();
        Ok(Self { block: Arc::clone(&self.block), byte_offset, len: range.len(), ..*self })
    }

    /// Bytes of the buffer as elements of any type, sharing the memory: for arenas that hold several
    /// arrays.
    ///
    /// # Errors
    /// `OutOfBounds` if the elements leave the buffer or do not begin at a multiple of their size.
    pub fn elements_at(&self, byte: usize, dtype: DType, len: usize) -> Result<Self> {
        let end = len.checked_mul(dtype.size()).and_then(|bytes| bytes.checked_add(byte));
        let byte_offset = self.byte_offset + byte;
        match end {
            Some(end) if end <= self.bytes() && byte_offset.is_multiple_of(dtype.size()) => {
                Ok(Self { block: Arc::clone(&self.block), dtype, byte_offset, len })
            }
            _ => {
                let (reaches, holds) = (end.unwrap_or(usize::MAX), self.bytes());
                Err(polaris_core::Error::OutOfBounds { op: "elements_at", reaches, holds }.into())
            }
        }
    }

    /// Copies values into the buffer. They may be reused at once.
    ///
    /// # Errors
    /// `DTypeMismatch`, `LengthMismatch`, or a failed copy.
    pub fn write<T: Element>(&self, values: &[T]) -> Result<()> {
        self.check_dtype::<T>("write")?;
        self.check_len("write", values.len())?;
        if self.is_empty() {
            return Ok(());
        }
        self.host_write_while(|| {
            self.queue().upload(bytemuck::cast_slice(values), self.range()).map(drop)
        })
    }

    /// The values, copied to the host once all earlier work of the queue is done.
    ///
    /// # Errors
    /// `DTypeMismatch` or a failed copy.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let mut values = vec![T::zeroed(); self.len];
        self.read_into(&mut values)?;
        Ok(values)
    }

    /// Copies the values to the host once all earlier work of the queue is done.
    ///
    /// # Errors
    /// `DTypeMismatch`, `LengthMismatch` or a failed copy.
    pub fn read_into<T: Element>(&self, values: &mut [T]) -> Result<()> {
        self.check_dtype::<T>("read")?;
        self.check_len("read", values.len())?;
        if self.is_empty() {
            return Ok(());
        }
        self.host_read_while(|| {
            self.queue().download(self.range(), bytemuck::cast_slice_mut(values))
        })
    }

    /// Copies the elements' bytes to the host, whatever their type, once all earlier work of the queue
    /// is done.
    ///
    /// # Errors
    /// `LengthMismatch` in bytes, or a failed copy.
    pub fn read_bytes(&self, bytes: &mut [u8]) -> Result<()> {
        if bytes.len() != self.bytes() {
            let (expected, found) = (self.bytes(), bytes.len());
            return Err(Error::LengthMismatch { op: "read_bytes", expected, found });
        }
        if self.is_empty() {
            return Ok(());
        }
        self.host_read_while(|| self.queue().download(self.range(), bytes))
    }

    /// Overwrites the elements' bytes, whatever their type.
    ///
    /// # Errors
    /// `LengthMismatch` in bytes, or a failed copy.
    pub fn write_bytes(&self, bytes: &[u8]) -> Result<()> {
        if bytes.len() != self.bytes() {
            let (expected, found) = (self.bytes(), bytes.len());
            return Err(Error::LengthMismatch { op: "write_bytes", expected, found });
        }
        if self.is_empty() {
            return Ok(());
        }
        self.host_write_while(|| self.queue().upload(bytes, self.range()).map(drop))
    }

    /// Starts copying the bytes to the host.
    ///
    /// # Errors
    /// If the copy cannot be started.
    pub fn start_read(&self) -> Result<PendingDownload> {
        self.host_read_while(|| self.queue().start_download(self.range()))
    }

    /// Copies all elements into another buffer of the same type and length, on any device.
    ///
    /// # Errors
    /// `DTypeMismatch`, `LengthMismatch`, `BufferBusy` if the two overlap, or a failed copy.
    pub fn copy_to(&self, target: &Self) -> Result<()> {
        if self.dtype != target.dtype {
            let (lhs, rhs) = (self.dtype, target.dtype);
            return Err(polaris_core::Error::DTypeMismatch { op: "copy", lhs, rhs }.into());
        }
        target.check_len("copy", self.len)?;
        if self.is_empty() {
            return Ok(());
        }
        if self.shares_memory_with(target) {
            let (a, b) = (self.byte_offset, target.byte_offset);
            if a.abs_diff(b) < self.bytes() {
                return Err(Error::BufferBusy { op: "copy", by: "read" });
            }
            return target
                .host_write_while(|| target.queue().copy(self.range(), target.range()).map(drop));
        }
        if Arc::ptr_eq(self.device(), target.device()) {
            return self.host_read_while(|| {
                target.host_write_while(|| {
                    self.block.used_on(target.queue().id());
                    if self.queue().id() == target.queue().id() {
                        return target.queue().copy(self.range(), target.range()).map(drop);
                    }
                    target.queue().wait_for(&self.queue().record()?)?;
                    let copied = target.queue().copy(self.range(), target.range())?;
                    // Later work on the source must not overtake the copy.
                    self.queue().wait_for(&copied)
                })
            });
        }
        if let Some(start) = host_start(self.block.memory()) {
            return self.host_read_while(|| {
                // SAFETY: the range lies inside the block, which is registered as being read.
                let bytes = unsafe {
                    std::slice::from_raw_parts(start.as_ptr().add(self.byte_offset), self.bytes())
                };
                target.host_write_while(|| target.queue().upload(bytes, target.range()).map(drop))
            });
        }
        if let Some(start) = host_start(target.block.memory()) {
            return target.host_write_while(|| {
                // SAFETY: the range lies inside the block, which is registered as being written.
                let bytes = unsafe {
                    let first = start.as_ptr().add(target.byte_offset);
                    std::slice::from_raw_parts_mut(first, target.bytes())
                };
                self.host_read_while(|| self.queue().download(self.range(), bytes))
            });
        }
        let mut bytes = vec![0; self.bytes()];
        self.host_read_while(|| self.queue().download(self.range(), &mut bytes))?;
        target.host_write_while(|| target.queue().upload(&bytes, target.range()).map(drop))
    }

    /// Sets every element to one value.
    ///
    /// # Errors
    /// `DTypeMismatch` or a failed fill.
    pub fn fill<T: Element>(&self, value: T) -> Result<()> {
        self.check_dtype::<T>("fill")?;
        if self.is_empty() {
            return Ok(());
        }
        self.host_write_while(|| {
            self.queue().fill(bytemuck::bytes_of(&value), self.range()).map(drop)
        })
    }

    /// The elements of a CPU buffer, without a copy.
    ///
    /// # Errors
    /// `NotHostMemory`, `DTypeMismatch`, or `BufferBusy` while someone writes.
    pub fn host_slice<T: Element>(&self) -> Result<HostRef<'_, T>> {
        self.check_dtype::<T>("host_slice")?;
        HostRef::new(&self.block, self.host_address()?, self.len)
    }

    /// The elements of a CPU buffer for writing, without a copy.
    ///
    /// # Errors
    /// `NotHostMemory`, `DTypeMismatch`, or `BufferBusy` while someone reads or writes.
    pub fn host_slice_mut<T: Element>(&self) -> Result<HostMut<'_, T>> {
        self.check_dtype::<T>("host_slice_mut")?;
        HostMut::new(&self.block, self.host_address()?, self.len)
    }

    pub(crate) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    fn host_address(&self) -> Result<std::ptr::NonNull<u8>> {
        let start = host_start(self.block.memory())
            .ok_or_else(|| Error::NotHostMemory { device: self.device().id() })?;
        // SAFETY: a buffer's offset lies inside its block.
        Ok(unsafe { start.add(self.byte_offset) })
    }

    fn range(&self) -> MemoryRange<'_> {
        MemoryRange { memory: self.block.memory(), offset: self.byte_offset, bytes: self.bytes() }
    }

    fn host_read_while<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        self.block.begin_host_read("read")?;
        let result = work();
        self.block.end_host_read();
        result
    }

    fn host_write_while<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        self.block.begin_host_write("write")?;
        let result = work();
        self.block.end_host_write();
        result
    }

    fn check_dtype<T: Element>(&self, op: &'static str) -> Result<()> {
        if self.dtype == T::DTYPE {
            return Ok(());
        }
        Err(polaris_core::Error::DTypeMismatch { op, lhs: self.dtype, rhs: T::DTYPE }.into())
    }

    fn check_len(&self, op: &'static str, found: usize) -> Result<()> {
        if self.len == found {
            return Ok(());
        }
        Err(Error::LengthMismatch { op, expected: self.len, found })
    }
}
