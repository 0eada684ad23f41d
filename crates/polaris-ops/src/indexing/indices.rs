//! What is common to all arrays of indices: their types, their values on the host, and the error for
//! one that lies outside its axis.

use std::sync::atomic::{AtomicUsize, Ordering};

use polaris_core::{Collapsed, DType, Error as CoreError};
use polaris_runtime::cpu::CpuDevice;

use crate::cpu::map::SendPointer;
use crate::{Array, Error, Result};

/// Fewer indices than this are not worth a second thread.
const GRAIN: usize = 32 * 1024;

/// An axis and who looks things up along it, for messages.
#[derive(Debug, Clone, Copy)]
pub struct Axis {
    pub op: &'static str,
    pub axis: usize,
    pub length: usize,
}

/// Refuses arrays that are not indices.
pub fn check_dtype(op: &'static str, index: &Array) -> Result<()> {
    match index.dtype() {
        DType::I32 | DType::I64 => Ok(()),
        dtype => {
            let hint = "indices are i32 or i64";
            Err(CoreError::UnsupportedDType { op, dtype, hint }.into())
        }
    }
}

impl Axis {
    /// The error for the index at a position of the array, in row-major order. It is read from the
    /// array, wherever that lies.
    pub fn out_of_range(&self, index: &Array, position: usize) -> Error {
        let [at] = Collapsed::new(index.shape(), [index.layout()]).point(position);
        let read = || -> Result<i64> {
            let one = index.buffer().view(at..at + 1)?;
            Ok(match index.dtype() {
                DType::I32 => one.to_vec::<i32>()?[0].into(),
                _ => one.to_vec::<i64>()?[0],
            })
        };
        match read() {
            Ok(index) => self.error(index, position),
            Err(error) => error,
        }
    }

    fn error(&self, index: i64, position: usize) -> Error {
        let Self { op, axis, length } = *self;
        Error::IndexOutOfRange { op, index, position, axis, length }
    }

    /// Looks at every index. `memory` is the array's on the host, registered as read, and `I` the
    /// type of its elements.
    pub fn check_host<I: Copy + Into<i64>>(
        &self,
        cpu: &CpuDevice,
        index: &Array,
        memory: SendPointer,
    ) -> Result<()> {
        let space = Collapsed::new(index.shape(), [index.layout()]);
        let (length, [stride]) = space.inner();
        let pieces = length.div_ceil(GRAIN);
        let rows = space.elements() / length.max(1);
        let first_bad = AtomicUsize::new(usize::MAX);
        cpu.pool().for_chunks(rows * pieces, (GRAIN / length.max(1)).max(1), |chunk| {
            for item in chunk {
                let (row, first) = (item / pieces, item % pieces * GRAIN);
                let [at] = space.row(row);
                let is_bad = |&i: &usize| {
                    // SAFETY: the layout was checked against its buffer, which is registered as read.
                    let value = unsafe { *memory.get().cast::<I>().add(at + i * stride) };
                    value.into() as u64 >= self.length as u64
                };
                if let Some(i) = (first..length.min(first + GRAIN)).find(is_bad) {
                    first_bad.fetch_min(row * length + i, Ordering::Relaxed);
                }
            }
        });
        match first_bad.into_inner() {
            usize::MAX => Ok(()),
            // SAFETY: as above.
            position => Err(unsafe { self.out_of_range_on_host::<I>(index, memory, position) }),
        }
    }

    /// As `out_of_range`, while the memory is in use: in an arena, where the neighbours of indices are
    /// being written, these cannot be read through their buffer.
    ///
    /// # Safety
    /// `memory` must be the array's, registered as read, and `I` the type of its elements.
    pub unsafe fn out_of_range_on_host<I: Copy + Into<i64>>(
        &self,
        index: &Array,
        memory: SendPointer,
        position: usize,
    ) -> Error {
        let [at] = Collapsed::new(index.shape(), [index.layout()]).point(position);
        // SAFETY: the layout was checked against its buffer; the rest by the caller's word.
        let value = unsafe { *memory.get().cast::<I>().add(at) };
        self.error(value.into(), position)
    }
}

/// Calls a function with the Rust type of an array of indices as its last type argument.
macro_rules! with_index_type {
    ($index:expr, $f:ident :: <$type:ty> ( $($arg:expr),* $(,)? )) => {
        match $index.dtype() {
            polaris_core::DType::I32 => $f::<$type, i32>($($arg),*),
            _ => $f::<$type, i64>($($arg),*),
        }
    };
}

pub(super) use with_index_type;
