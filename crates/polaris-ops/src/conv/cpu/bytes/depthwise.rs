//! Depthwise int8 convolutions. Sums of so few small integers are exact in `f32`, in which every processor multiplies
//! and adds fast.

use std::ops::Range;

use polaris_runtime::cpu::CpuDevice;

use super::Job;
use super::finish::{store, store_all};
use crate::cpu::simd::multiversion;

/// Channels whose accumulators are in registers at a time.
const CHANNELS: usize = 32;
/// Multiplications that are worth a second thread.
const GRAIN: usize = 64 * 1024;

pub fn run(cpu: &CpuDevice, job: &Job) {
    let [rows, columns] = &job.geometry.lengths;
    let lines = job.geometry.images * rows.output;
    let work = columns.output * rows.kernel * columns.kernel * job.geometry.groups;
    cpu.pool().for_chunks(lines, GRAIN / work.max(1) + 1, |chunk| {
        for line in chunk {
            compute(job.packed.packing.level(), job, line);
        }
    });
}

multiversion! {
    /// One row of an image's result. The caller vouches that it is this thread's alone, and that all
    /// memory is registered.
    fn compute<>(job: &Job<'_>, line: usize) {
        let channels = job.geometry.groups;
        let columns = job.geometry.lengths[1].output;
        for column in 0..columns {
            let place = job.place(line * columns + column);
            let mut first = 0;
            while first < channels {
                let count = CHANNELS.min(channels - first);
                // SAFETY: by the caller's word.
                unsafe {
                    match count == CHANNELS {
                        true => position::<true>(job, place, first..first + count),
                        false => position::<false>(job, place, first..first + count),
                    }
                }
                first += count;
            }
        }
    }
}

/// Some channels of a position.
///
/// # Safety
/// As for `compute`.
#[inline(always)]
unsafe fn position<const WHOLE: bool>(
    job: &Job<'_>,
    [image, row, column]: [usize; 3],
    channels: Range<usize>,
) {
    let (geometry, packed) = (job.geometry, job.packed);
    let [rows, columns] = &geometry.lengths;
    let count = if WHOLE { CHANNELS } else { channels.len() };
    let [images, _, row_stride, column_stride] = job.image.strides;
    let (flip, zero) = (job.image.flip, f32::from(packed.zero));
    let weights = job.weights.get().cast::<f32>().cast_const();
    let mut sums = [0.0f32; CHANNELS];
    for down in 0..rows.kernel {
        let from = (row * rows.stride + down * rows.dilation).checked_sub(rows.padding);
        let Some(from_row) = from.filter(|&row| row < rows.input) else { continue };
        for across in 0..columns.kernel {
            let from =
                (column * columns.stride + across * columns.dilation).checked_sub(columns.padding);
            let Some(from_column) = from.filter(|&column| column < columns.input) else { continue };
            let at = image * images + from_row * row_stride + from_column * column_stride;
            let tap = down * columns.kernel + across;
            // SAFETY: the tap lies inside the image, and there is a weight for each channel of it.
            unsafe {
                let x = job.image.start.get().add(at + channels.start);
                let weight = weights.add(tap * geometry.groups + channels.start);
                for (at, sum) in sums[..count].iter_mut().enumerate() {
                    *sum += (f32::from(*x.add(at) ^ flip) - zero) * *weight.add(at);
                }
            }
        }
    }
    let mut whole = [0i32; CHANNELS];
    for (at, whole) in whole[..count].iter_mut().enumerate() {
        *whole = (sums[at] as i32).wrapping_add(packed.corrections[channels.start + at]);
    }
    let stride = job.target.strides[1];
    let to = job.target([image, row, column]) + channels.start * stride;
    let to = job.target.start.get().wrapping_add(to);
    let factors = &packed.factors[channels];
    // SAFETY: by the caller's word.
    unsafe {
        match factors.first_chunk() {
            Some(factors) if WHOLE && stride == 1 => store_all(&whole, factors, packed.limits, to),
            _ => store(&whole[..count], factors, packed.limits, to, stride),
        }
    }
}
