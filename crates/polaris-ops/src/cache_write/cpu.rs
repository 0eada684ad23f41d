//! Writing into a cache on the CPU.

use std::collections::HashMap;

use polaris_core::{DType, f16};
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::{CpuDevice, SimdLevel};

use super::{NAME, Sizes};
use crate::cpu::blocks::{BLOCK, Row};
use crate::cpu::map::SendPointer;
use crate::cpu::simd::multiversion;
use crate::format::{Block, Blocks, Stored};
use crate::{Array, Error, Result};

/// Fewer elements than this are not worth a second thread.
const GRAIN: usize = 16 * 1024;

/// The slot of each token that is written.
fn checked(slots: &[i32], length: usize) -> Result<Vec<(usize, usize)>> {
    let mut written = Vec::with_capacity(slots.len());
    let mut first = HashMap::with_capacity(slots.len());
    for (token, &slot) in slots.iter().enumerate() {
        let Ok(at) = usize::try_from(slot) else {
            continue;
        };
        if at >= length {
            let index = i64::from(slot);
            return Err(Error::IndexOutOfRange {
                op: NAME,
                index,
                position: token,
                axis: 0,
                length,
            });
        }
        if let Some(other) = first.insert(at, token) {
            let what = format!("tokens {other} and {token} would both be written to slot {slot}");
            return Err(Error::InvalidParameter { op: NAME, what });
        }
        written.push((token, at));
    }
    Ok(written)
}

pub(super) fn write(
    cpu: &CpuDevice,
    [tokens, heads, depth]: Sizes,
    slots: &Array,
    x: &Array,
    output: &Array,
) -> Result<()> {
    let block_size = output.shape()[1];
    let buffers = [slots.buffer(), x.buffer()];
    let operands = HostOperands::new(NAME, &buffers, output.buffer())?;
    let slot = |token: usize| {
        let at = slots.layout().offset() + token * slots.layout().strides()[0];
        // SAFETY: the layout was checked against its buffer, which is registered as read.
        unsafe { *operands.input(0).cast::<i32>().add(at) }
    };
    let slots: Vec<i32> = (0..tokens).map(slot).collect();
    let written = checked(&slots, output.shape()[0].saturating_mul(block_size))?;
    let [from, to] = [SendPointer(operands.input(1).cast_mut()), SendPointer(operands.output())];
    let (x, cache, stored) = (x.layout(), output.layout(), output.stored());
    cpu.pool().for_chunks(written.len() * heads, (GRAIN / depth.max(1)).max(1), |chunk| {
        let mut scratch = [0.0f32; BLOCK];
        for item in chunk {
            let ((token, slot), head) = (written[item / heads], item % heads);
            let from_row = x.offset() + token * x.strides()[0] + head * x.strides()[1];
            let to_row = cache.offset()
                + slot / block_size * cache.strides()[0]
                + slot % block_size * cache.strides()[1]
                + head * cache.strides()[2];
            let start = from.get().wrapping_add(from_row * size_of::<f32>());
            let source = Row { start, dtype: DType::F32, stride: x.strides()[2] };
            let target =
                Target { start: to.get(), stored, row: to_row, stride: cache.strides()[3] };
            for first in (0..depth).step_by(BLOCK) {
                let count = BLOCK.min(depth - first);
                // SAFETY: the layouts were checked against their buffers and slots against the cache; the
                // buffers are registered, and each slot is written by one thread.
                unsafe {
                    let elements = source.load(first, count, &mut scratch);
                    target.store(cpu.simd(), first, elements);
                }
            }
        }
    });
    Ok(())
}

/// A row of the cache.
struct Target {
    /// The memory of the cache.
    start: *mut u8,
    stored: Stored,
    /// Its first element there.
    row: usize,
    stride: usize,
}

impl Target {
    /// Writes some elements from `first` on; of a block format whole blocks.
    ///
    /// # Safety
    /// They must lie inside the memory, which nobody else may use.
    unsafe fn store(&self, level: SimdLevel, first: usize, elements: &[f32]) {
        let block = match self.stored {
            Stored::Dense(dtype) => {
                let start = self.start.wrapping_add(self.row * dtype.size());
                // SAFETY: by the caller's word.
                return unsafe { Row { start, dtype, stride: self.stride }.store(first, elements) };
            }
            Stored::Block(block) => block,
        };
        let at = (self.row + first) / block.elements() * block.bytes();
        let bytes = elements.len() / block.elements() * block.bytes();
        // SAFETY: by the caller's word.
        let to = unsafe { std::slice::from_raw_parts_mut(self.start.add(at), bytes) };
        match block {
            Block::Q4_0 => encode::<polaris_blocks::Q4_0>(level, elements, to),
            _ => encode::<polaris_blocks::Q8_0>(level, elements, to),
        }
    }
}

multiversion! {
    /// Whole blocks of elements; one that cannot be encoded becomes NaN.
    fn encode<B: Blocks>(elements: &[f32], blocks: &mut [u8]) {
        for (from, to) in elements.chunks_exact(B::ELEMENTS).zip(blocks.chunks_exact_mut(B::BYTES)) {
            // Without a branch for each element, so that the loop is one of vectors.
            let is_finite = from.iter().fold(true, |all, x| all & x.is_finite());
            if !is_finite || B::encode_nearest(from, to).is_err() {
                to.fill(0);
                to[..2].copy_from_slice(&f16::NAN.to_le_bytes());
            }
        }
    }
}
