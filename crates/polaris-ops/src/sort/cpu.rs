//! Sorting on the CPU: each lane by one thread, as integers that hold an element's place in the order
//! and its index. All of them differ, so that any sort keeps the order of equal elements.

use polaris_core::DType;
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::ArgSort;
use crate::cpu::blocks::{Compute, ComputeType, Row};
use crate::cpu::map::SendPointer;
use crate::lanes::Lanes;
use crate::{Array, Result};

/// Fewer elements than this are not worth a second thread.
const GRAIN: usize = 2 * 1024;

/// A compute type whose numbers have keys: unsigned integers in the same order.
trait Keyed: ComputeType {
    /// The key; of types of at most 32 bits it fits in as many.
    fn key(self, is_narrow: bool) -> u64;
}

impl Keyed for f32 {
    fn key(self, _: bool) -> u64 {
        // One of the two zeros becomes the other.
        let bits = (self + 0.0).to_bits();
        let key = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
        if self.is_nan() { u32::MAX.into() } else { key.into() }
    }
}

impl Keyed for f64 {
    fn key(self, _: bool) -> u64 {
        let bits = (self + 0.0).to_bits();
        let key = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
        if self.is_nan() { u64::MAX } else { key }
    }
}

impl Keyed for i64 {
    fn key(self, is_narrow: bool) -> u64 {
        if is_narrow { (self as i32 as u32 ^ 1 << 31).into() } else { self as u64 ^ 1 << 63 }
    }
}

/// A key with an index in its lowest bits.
trait Entry: Copy + Ord + Send + Sync {
    fn new(key: u64, index: usize) -> Self;
    fn index(self) -> i64;
}

/// Keys and indices of 32 bits.
impl Entry for u64 {
    fn new(key: u64, index: usize) -> Self {
        key << 32 | index as u64
    }

    fn index(self) -> i64 {
        i64::from(self as u32)
    }
}

impl Entry for u128 {
    fn new(key: u64, index: usize) -> Self {
        u128::from(key) << 64 | index as u128
    }

    fn index(self) -> i64 {
        self as i64
    }
}

pub fn run(op: &ArgSort, cpu: &CpuDevice, x: &Array, output: &Array) -> Result<()> {
    let is_narrow = x.dtype().size() <= 4;
    let fits = is_narrow && u32::try_from(x.shape()[op.axis]).is_ok();
    match (Compute::of(x.dtype()), fits) {
        (Compute::F32, true) => sort::<f32, u64>(op, cpu, x, output),
        (Compute::F32, false) => sort::<f32, u128>(op, cpu, x, output),
        (Compute::F64, _) => sort::<f64, u128>(op, cpu, x, output),
        (Compute::I64, true) => sort::<i64, u64>(op, cpu, x, output),
        (Compute::I64, false) => sort::<i64, u128>(op, cpu, x, output),
    }
}

fn sort<C: Keyed, E: Entry>(
    op: &ArgSort,
    cpu: &CpuDevice,
    x: &Array,
    output: &Array,
) -> Result<()> {
    let lanes = op.lanes(x, output)?;
    let kept = output.shape()[op.axis];
    let buffers = [x.buffer()];
    let operands = HostOperands::new("argsort", &buffers, output.buffer())?;
    let (to, from) = (SendPointer(operands.output()), SendPointer(operands.input(0).cast_mut()));
    let Lanes { length, strides: [to_stride, from_stride], .. } = lanes;
    let (dtype, is_narrow) = (x.dtype(), x.dtype().size() <= 4);
    // What turns keys around: those of narrow types leave the upper bits alone.
    let all = if is_narrow { u64::from(u32::MAX) } else { u64::MAX };
    let turn = if op.descending { all } else { 0 };
    cpu.pool().for_chunks(lanes.count(), (GRAIN / length).max(1), |chunk| {
        let mut scratch = vec![C::default(); length];
        let mut entries: Vec<E> = Vec::with_capacity(length);
        let mut indices = vec![0i64; kept];
        for lane in chunk {
            let [to_start, from_start] = lanes.starts.point(lane);
            // SAFETY: the lane lies inside its buffer, which is registered as read and is not the
            // output.
            let values = unsafe {
                let start = from.get().add(from_start * dtype.size());
                Row { start, dtype, stride: from_stride }.load(0, length, &mut scratch)
            };
            entries.clear();
            let keys = values.iter().map(|value| value.key(is_narrow) ^ turn);
            entries.extend(keys.enumerate().map(|(index, key)| E::new(key, index)));
            let first = match kept < length / 2 {
                // Those that are kept come to the front before they are sorted.
                true => entries.select_nth_unstable(kept).0,
                false => &mut entries[..],
            };
            first.sort_unstable();
            for (index, entry) in indices.iter_mut().zip(first) {
                *index = entry.index();
            }
            // SAFETY: the lane lies inside the output, which is registered as written, and belongs to
            // one thread.
            unsafe {
                let start = to.get().add(to_start * DType::I64.size());
                Row { start, dtype: DType::I64, stride: to_stride }.store(0, &indices);
            }
        }
    });
    Ok(())
}
