//! Memory of the host: 64-byte aligned blocks, and the guards through which they are accessed.
//!
//! Buffers are shared freely, so nothing in the types stops one thread from writing what another
//! reads. Each block therefore counts its readers and writers, and access that would conflict is
//! a structured error instead of a data race.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use bytes::Bytes;
use polaris_core::Element;

use crate::memory::{Block, Buffer, DeviceMemory, LiveBlocks};
use crate::{DeviceId, Error, Result};

/// A cache line, and the widest vector register.
const ALIGNMENT: usize = 64;

/// Initialised bytes of the host.
pub(crate) struct HostMemory {
    start: NonNull<u8>,
    owner: Owner,
}

enum Owner {
    Allocated(Layout),
    #[cfg(target_os = "linux")]
    /// Unmapped when dropped.
    Mapped(#[expect(dead_code, reason = "kept for its drop")] super::pages::Mapping),
    /// A vector or shared bytes that were handed over; kept alive here, accessed through `start`.
    Given {
        _given: Box<dyn Any + Send + Sync>,
    },
}

// SAFETY: the memory is plain bytes owned by this value; access goes through the block's guards.
unsafe impl Send for HostMemory {}
// SAFETY: as above; the type itself offers no access.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Zeroed memory, so that no one ever reads uninitialised bytes. The system hands out zeroed
    /// pages anyway; a block that is reused keeps its old contents.
    pub fn new(bytes: usize) -> Result<Self> {
        let out_of_memory = || Error::OutOfMemory {
            device: DeviceId::Cpu,
            asked: bytes as u64,
            used: 0,
            available: 0,
            live: LiveBlocks::default(),
        };
        #[cfg(target_os = "linux")]
        if bytes >= super::pages::WORTHWHILE {
            let mapping = super::pages::Mapping::new(bytes).ok_or_else(out_of_memory)?;
            return Ok(Self { start: mapping.start(), owner: Owner::Mapped(mapping) });
        }
        let layout =
            Layout::from_size_align(bytes.max(1), ALIGNMENT).map_err(|_| out_of_memory())?;
        // SAFETY: the layout has a size of at least one byte.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(out_of_memory)?;
        Ok(Self { start, owner: Owner::Allocated(layout) })
    }

    pub fn from_vec<T: Element>(mut vector: Vec<T>) -> Self {
        let start = NonNull::new(vector.as_mut_ptr().cast::<u8>())
            .expect("a vector's pointer should not be null");
        Self { start, owner: Owner::Given { _given: Box::new(vector) } }
    }

    /// Bytes that are shared with others, such as those of a mapped file. Nobody may write them.
    pub fn from_shared(bytes: Bytes) -> Self {
        let start = NonNull::new(bytes.as_ptr().cast_mut()).expect("bytes should have an address");
        Self { start, owner: Owner::Given { _given: Box::new(bytes) } }
    }

    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let Owner::Allocated(layout) = self.owner {
            // SAFETY: `start` was allocated with exactly this layout.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

impl DeviceMemory for HostMemory {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The first byte of a block of host memory.
pub(crate) fn host_start(memory: &dyn DeviceMemory) -> Option<NonNull<u8>> {
    memory.as_any().downcast_ref::<HostMemory>().map(HostMemory::start)
}

/// Shared access to the elements of a CPU buffer, without a copy.
pub struct HostRef<'a, T> {
    block: &'a Block,
    slice: &'a [T],
}

/// Exclusive access to the elements of a CPU buffer, without a copy.
pub struct HostMut<'a, T> {
    block: &'a Block,
    slice: &'a mut [T],
}

impl<'a, T: Element> HostRef<'a, T> {
    pub(crate) fn new(block: &'a Block, start: NonNull<u8>, len: usize) -> Result<Self> {
        block.begin_host_read("host_slice")?;
        // SAFETY: the buffer checked that `len` elements lie inside the block, which is
        // initialised, aligned for T, and cannot be written while the read is registered.
        let slice = unsafe { std::slice::from_raw_parts(start.as_ptr().cast(), len) };
        Ok(Self { block, slice })
    }
}

impl<'a, T: Element> HostMut<'a, T> {
    pub(crate) fn new(block: &'a Block, start: NonNull<u8>, len: usize) -> Result<Self> {
        block.begin_host_write("host_slice_mut")?;
        // SAFETY: as for HostRef, and no one else accesses the block while the write is registered.
        let slice = unsafe { std::slice::from_raw_parts_mut(start.as_ptr().cast(), len) };
        Ok(Self { block, slice })
    }
}

impl<T> Deref for HostRef<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.slice
    }
}

impl<T> Deref for HostMut<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.slice
    }
}

impl<T> DerefMut for HostMut<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.slice
    }
}

impl<T> Drop for HostRef<'_, T> {
    fn drop(&mut self) {
        self.block.end_host_read();
    }
}

impl<T> Drop for HostMut<'_, T> {
    fn drop(&mut self) {
        self.block.end_host_write();
    }
}

/// The memory of one CPU operation: registered as read or written for as long as this lives.
/// An input may be the output's own block (in-place work); the kernel then sees both pointers.
pub struct HostOperands<'a> {
    inputs: &'a [&'a Buffer],
    output: &'a Buffer,
    _not_send: PhantomData<*const ()>,
}

impl<'a> HostOperands<'a> {
    /// Registers the access.
    ///
    /// # Errors
    /// `BufferBusy` if someone else holds conflicting access, `NotHostMemory` if a buffer lies
    /// on another device.
    pub fn new(op: &'static str, inputs: &'a [&'a Buffer], output: &'a Buffer) -> Result<Self> {
        for buffer in inputs.iter().chain([&output]) {
            if host_start(buffer.block().memory()).is_none() {
                return Err(Error::NotHostMemory { device: buffer.device().id() });
            }
        }
        output.block().begin_host_write(op)?;
        for (i, input) in inputs.iter().enumerate() {
            if Arc::ptr_eq(input.block(), output.block()) {
                continue;
            }
            if let Err(error) = input.block().begin_host_read(op) {
                Self { inputs: &inputs[..i], output, _not_send: PhantomData }.release();
                return Err(error);
            }
        }
        Ok(Self { inputs, output, _not_send: PhantomData })
    }

    /// The first element of an input.
    pub fn input(&self, index: usize) -> *const u8 {
        start_of(self.inputs[index])
    }

    /// The first element of the output.
    pub fn output(&self) -> *mut u8 {
        start_of(self.output)
    }

    /// Ends the access by dropping `self`; named where the drop is the point.
    fn release(self) {}
}

fn start_of(buffer: &Buffer) -> *mut u8 {
    let start = host_start(buffer.block().memory()).expect("checked when the access began");
    // SAFETY: a buffer's offset lies inside its block.
    unsafe { start.as_ptr().add(buffer.byte_offset()) }
}

impl Drop for HostOperands<'_> {
    fn drop(&mut self) {
        for input in self.inputs {
            if !Arc::ptr_eq(input.block(), self.output.block()) {
                input.block().end_host_read();
            }
        }
        self.output.block().end_host_write();
    }
}
