//! Depthwise int8 convolutions with instructions that multiply and sum four bytes of each lane: taps of 64 channels are
//! interleaved in registers, four at a time. Taps beyond the border are read from a line of zero points.

use std::arch::x86_64::*;

use polaris_runtime::cpu::CpuDevice;

use super::Job;
use super::pack::{BLOCK, in_block};
use crate::matmul::cpu::whole;

/// Multiplications that are worth a second thread.
const GRAIN: usize = 256 * 1024;
/// Taps in a step.
const TAPS: usize = 4;
/// Sums of a vector, and vectors of a block.
const LANES: usize = 16;
const VECTORS: usize = BLOCK / LANES;

/// What the lines of all threads share.
struct Work<'a> {
    job: &'a Job<'a>,
    /// Steps of four taps.
    steps: usize,
    /// Corrections and factors of all blocks, in the order of the weights.
    corrections: Vec<i32>,
    factors: Vec<f32>,
    /// What taps beyond the border are, of all channels.
    border: Vec<u8>,
}

pub fn run(cpu: &CpuDevice, job: &Job, steps: usize) {
    let [rows, columns] = &job.geometry.lengths;
    let channels = job.geometry.groups;
    let blocks = channels.div_ceil(BLOCK);
    let mut work = Work {
        job,
        steps,
        corrections: vec![0; blocks * BLOCK],
        factors: vec![0.0; blocks * BLOCK],
        border: vec![job.packed.zero ^ job.image.flip; blocks * BLOCK],
    };
    for channel in 0..channels {
        let at = channel / BLOCK * BLOCK + in_block(channel % BLOCK);
        work.corrections[at] = job.packed.corrections[channel];
        work.factors[at] = job.packed.factors[channel];
    }
    let lines = job.geometry.images * rows.output;
    let each = columns.output * steps * TAPS * blocks * BLOCK;
    cpu.pool().for_chunks(lines, GRAIN / each.max(1) + 1, |chunk| {
        let mut taps = Taps::new(&work);
        for line in chunk {
            // SAFETY: the weight has this form only where these instructions are, and lines are disjoint.
            unsafe {
                match job.image.flip {
                    0 => compute::<false>(&work, line, &mut taps),
                    _ => compute::<true>(&work, line, &mut taps),
                }
            }
        }
    });
}

/// Where the taps of a position lie.
struct Taps {
    /// First channels, and how far they are from those of the next position.
    starts: Vec<*const u8>,
    moves: Vec<usize>,
}

impl Taps {
    fn new(work: &Work) -> Self {
        let count = work.steps * TAPS;
        Self { starts: vec![work.border.as_ptr(); count], moves: vec![0; count] }
    }

    /// Those of a position.
    fn find(&mut self, work: &Work, [image, row, column]: [usize; 3]) {
        let job = work.job;
        let [rows, columns] = &job.geometry.lengths;
        let [images, _, row_stride, column_stride] = job.image.strides;
        for down in 0..rows.kernel {
            let from_row = (row * rows.stride + down * rows.dilation).checked_sub(rows.padding);
            let from_row = from_row.filter(|&row| row < rows.input);
            for across in 0..columns.kernel {
                let from = (column * columns.stride + across * columns.dilation)
                    .checked_sub(columns.padding)
                    .filter(|&column| column < columns.input);
                let tap = down * columns.kernel + across;
                (self.starts[tap], self.moves[tap]) = match (from_row, from) {
                    (Some(row), Some(column)) => {
                        let at = image * images + row * row_stride + column * column_stride;
                        let start = job.image.start.get().wrapping_add(at).cast_const();
                        (start, columns.stride * column_stride)
                    }
                    _ => (work.border.as_ptr(), 0),
                };
            }
        }
    }

    /// Those of the next position, if both see the same columns of the kernel.
    fn advance(&mut self) {
        for (start, by) in self.starts.iter_mut().zip(&self.moves) {
            *start = start.wrapping_add(*by);
        }
    }
}

/// A row of an image's result.
///
/// # Safety
/// The processor must have the instructions, and the row be this thread's alone.
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")]
unsafe fn compute<const FLIP: bool>(work: &Work, line: usize, taps: &mut Taps) {
    let job = work.job;
    let columns = &job.geometry.lengths[1];
    let channels = job.geometry.groups;
    let reach = (columns.kernel - 1) * columns.dilation + 1;
    // Positions whose taps are all inside the columns of the image.
    let is_whole = |column: usize| {
        let start = column * columns.stride;
        start >= columns.padding && start + reach <= columns.input + columns.padding
    };
    let mut was_whole = false;
    for column in 0..columns.output {
        let place = job.place(line * columns.output + column);
        let is_whole = is_whole(column);
        match was_whole && is_whole {
            true => taps.advance(),
            false => taps.find(work, place),
        }
        was_whole = is_whole;
        let to = job.target.start.get().wrapping_add(job.target(place));
        for first in (0..channels).step_by(BLOCK) {
            // SAFETY: by the caller's word; taps and results of these channels are there.
            unsafe {
                match channels - first >= BLOCK {
                    true => block::<FLIP, true>(work, taps, first, BLOCK, to),
                    false => block::<FLIP, false>(work, taps, first, channels - first, to),
                }
            }
        }
    }
}

/// Some channels of a position.
///
/// # Safety
/// As for `compute`.
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")]
#[inline]
unsafe fn block<const FLIP: bool, const WHOLE: bool>(
    work: &Work,
    taps: &Taps,
    first: usize,
    count: usize,
    to: *mut u8,
) {
    let (job, bounds) = (work.job, work.job.packed.limits.bounds());
    let mask = u64::MAX >> (BLOCK - count);
    // SAFETY: blocks have that many corrections, factors and weights, and taps the channels of the mask.
    unsafe {
        let load = |tap: usize| {
            let at = taps.starts.get_unchecked(tap).wrapping_add(first);
            let bytes = match WHOLE {
                true => _mm512_loadu_si512(at.cast()),
                false => _mm512_maskz_loadu_epi8(mask, at.cast()),
            };
            match FLIP {
                true => _mm512_xor_si512(bytes, _mm512_set1_epi8(i8::MIN)),
                false => bytes,
            }
        };
        let corrections = work.corrections.as_ptr().add(first);
        let factors = work.factors.as_ptr().add(first);
        let vector = |start: *const i32, k: usize| _mm512_loadu_si512(start.add(k * LANES).cast());
        let mut sums: [__m512i; VECTORS] = std::array::from_fn(|k| vector(corrections, k));
        let mut weights = job.weights.get().cast::<i32>().add(first * work.steps).cast_const();
        for step in 0..work.steps {
            let [a, b, c, d] = std::array::from_fn(|tap| load(step * TAPS + tap));
            let (low, high) = (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b));
            let (low2, high2) = (_mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d));
            let quads = [
                _mm512_unpacklo_epi16(low, low2),
                _mm512_unpackhi_epi16(low, low2),
                _mm512_unpacklo_epi16(high, high2),
                _mm512_unpackhi_epi16(high, high2),
            ];
            for (k, (sum, quad)) in sums.iter_mut().zip(quads).enumerate() {
                *sum = _mm512_dpbusd_epi32(*sum, quad, vector(weights, k));
            }
            weights = weights.add(BLOCK);
        }
        let last = _mm512_set1_epi32(0xff);
        let bytes: [__m512i; VECTORS] = std::array::from_fn(|k| {
            _mm512_and_si512(whole(sums[k], vector(factors.cast(), k), &bounds), last)
        });
        // Each packs pairs within sixteens, which puts channels in order again.
        let bytes = _mm512_packus_epi16(
            _mm512_packus_epi32(bytes[0], bytes[1]),
            _mm512_packus_epi32(bytes[2], bytes[3]),
        );
        let stride = job.target.strides[1];
        let to = to.wrapping_add(first * stride);
        match (stride == 1, WHOLE) {
            (true, true) => _mm512_storeu_si512(to.cast(), bytes),
            (true, false) => _mm512_mask_storeu_epi8(to.cast(), mask, bytes),
            (false, _) => {
                let mut all = [0u8; BLOCK];
                _mm512_storeu_si512(all.as_mut_ptr().cast(), bytes);
                for (at, &byte) in all[..count].iter().enumerate() {
                    *to.add(at * stride) = byte;
                }
            }
        }
    }
}

// SAFETY: the pointers are read only.
unsafe impl Sync for Work<'_> {}
