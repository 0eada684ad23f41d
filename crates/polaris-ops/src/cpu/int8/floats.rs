//! Rows of a weight as floats, for products whose other factor is not rounded.

use polaris_blocks::{Blocks, CHUNK, Levels, Plain};

use super::vectors::{ROWS, Vectors};
#[cfg(target_arch = "x86_64")]
use super::x86::{Avx2, Vnni};
use super::{Instructions, LINE, WeightRows, chunk_start, filled_up};
use crate::cpu::fetch::fetch_once;

/// How far ahead weights are fetched, as in `dots.rs`.
const AHEAD: usize = 4096;

/// The most tokens of [`Dots`]: with more, weights that are decoded once for all of them are multiplied faster.
pub(crate) const TOKENS: usize = 4;

/// The dot products of rows of a weight with rows of floats in whole chunks ([`Tokens`]); those of a token are `stride`
/// apart from those of the next.
pub(crate) type Dots =
    unsafe fn(rows: WeightRows, k: usize, tokens: Tokens, to: *mut f32, stride: usize);

/// Rows of floats in whole chunks: what the last one repeats, or is filled up with, is zero ([`chunk_start`]).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tokens(pub *const f32);

impl Tokens {
    /// Elements that rows of `k` take.
    pub fn stride(k: usize) -> usize {
        k.next_multiple_of(CHUNK)
    }

    /// Writes a row.
    pub fn write(row: &[f32], to: &mut [f32]) {
        let k = row.len();
        let whole = k / CHUNK * CHUNK;
        let (chunks, last) = to.split_at_mut(whole);
        chunks.copy_from_slice(&row[..whole]);
        let first = chunk_start(whole / CHUNK, k);
        for (at, to) in last.iter_mut().enumerate() {
            let from = first + at;
            *to = if from >= whole { row.get(from).copied().unwrap_or(0.0) } else { 0.0 };
        }
    }
}

/// With `S` accumulators for each token, so that additions do not wait for one another.
///
/// # Safety
/// The rows must be readable for `k` elements, which are whole blocks, there must be `T` tokens, and the target have room.
#[inline(always)]
unsafe fn dots<B: Blocks, V: Vectors, const T: usize, const S: usize>(
    simd: V,
    rows: WeightRows,
    k: usize,
    tokens: Tokens,
    to: *mut f32,
    stride: usize,
) {
    for first in (0..rows.count).step_by(ROWS) {
        let count = ROWS.min(rows.count - first);
        let mut lanes = [[[0.0; 16]; ROWS]; T];
        for row in 0..count {
            let mut sums = [[simd.no_floats(); S]; T];
            for chunk in 0..k.div_ceil(CHUNK) {
                // SAFETY: by the caller's word, here and below.
                unsafe {
                    let weights = rows.start.add((first + row) * rows.stride);
                    let x = tokens.0.add(chunk * CHUNK);
                    let add = |at: usize, weights: V::Floats| {
                        for (token, sums) in sums.iter_mut().enumerate() {
                            let x = x.add(token * Tokens::stride(k) + 16 * at);
                            sums[at % S] = simd.add_products(sums[at % S], weights, x);
                        }
                    };
                    each_sixteen::<B, V>(simd, weights, k, chunk_start(chunk, k), add);
                }
            }
            for (lanes, sums) in lanes.iter_mut().zip(sums) {
                for sum in sums {
                    let mut each = [0.0; 16];
                    // SAFETY: there is room for sixteen.
                    unsafe { simd.store_floats(sum, each.as_mut_ptr()) };
                    lanes[row].iter_mut().zip(each).for_each(|(lane, each)| *lane += each);
                }
            }
        }
        for (token, lanes) in lanes.iter().enumerate() {
            let totals = simd.totals(lanes);
            // SAFETY: see above.
            unsafe {
                let to = to.add(token * stride + first);
                std::ptr::copy_nonoverlapping(totals.as_ptr(), to, count);
            }
        }
    }
}

/// Rows of a weight, at most `width`, as a panel: of each of their `k` elements those of all rows, and zeros up to `width`.
pub(crate) type Pack = unsafe fn(rows: WeightRows, k: usize, panel: *mut f32, width: usize);

/// From one row to the next before they are transposed: not a power of two, with which rows would share a few sets of the
/// cache.
const ASIDE: usize = CHUNK + 16;

/// # Safety
/// The rows must be readable for `k` elements, which are whole blocks, and the panel writable.
#[inline(always)]
unsafe fn pack<B: Blocks, V: Vectors>(
    simd: V,
    rows: WeightRows,
    k: usize,
    panel: *mut f32,
    width: usize,
) {
    for lane in (0..width).step_by(ROWS) {
        let count = rows.count.saturating_sub(lane).min(ROWS);
        let lanes = ROWS.min(width - lane);
        let mut aside = [0.0f32; ASIDE * ROWS];
        for chunk in 0..k.div_ceil(CHUNK) {
            let first = chunk_start(chunk, k);
            // SAFETY: by the caller's word.
            unsafe {
                for row in 0..count {
                    let weights = rows.start.add((lane + row) * rows.stride);
                    let to = aside.as_mut_ptr().add(row * ASIDE);
                    let store = |at: usize, weights| simd.store_floats(weights, to.add(16 * at));
                    each_sixteen::<B, V>(simd, weights, k, first, store);
                }
                for element in (0..CHUNK.min(k)).step_by(ROWS) {
                    let from = aside.as_ptr().add(element).cast();
                    let to = panel.add((first + element) * width + lane).cast();
                    if lanes == ROWS {
                        simd.transpose(from, ASIDE * size_of::<f32>(), to, width);
                        continue;
                    }
                    let mut turned = [0u32; ROWS * ROWS];
                    simd.transpose(from, ASIDE * size_of::<f32>(), turned.as_mut_ptr(), ROWS);
                    for (i, turned) in turned.as_chunks::<ROWS>().0.iter().enumerate() {
                        let to = to.add(i * width);
                        std::ptr::copy_nonoverlapping(turned.as_ptr(), to, lanes);
                    }
                }
            }
        }
    }
}

/// Decodes the chunk of a row that begins with some element, sixteen weights at a time. A row that is shorter is filled up.
///
/// # Safety
/// The row must be readable for `k` elements.
#[inline(always)]
unsafe fn each_sixteen<B: Blocks, V: Vectors>(
    simd: V,
    row: *const u8,
    k: usize,
    first: usize,
    each: impl FnMut(usize, V::Floats),
) {
    let chunk_bytes = CHUNK / B::ELEMENTS * B::BYTES;
    // SAFETY: by the caller's word.
    unsafe {
        if B::ELEMENTS < CHUNK && k < CHUNK {
            let bytes = k / B::ELEMENTS * B::BYTES;
            let blocks = filled_up(std::slice::from_raw_parts(row, bytes));
            return decode::<B, V>(simd, &blocks[..chunk_bytes], each);
        }
        let start = row.add(first / B::ELEMENTS * B::BYTES);
        for line in (0..chunk_bytes).step_by(LINE) {
            fetch_once(start.wrapping_add(AHEAD + line));
        }
        decode::<B, V>(simd, std::slice::from_raw_parts(start, chunk_bytes), each);
    }
}

#[inline(always)]
fn decode<B: Blocks, V: Vectors>(simd: V, blocks: &[u8], mut each: impl FnMut(usize, V::Floats)) {
    let Levels { levels, scales, minima } = B::levels(simd, blocks);
    // From memory each scale reaches all lanes with the instruction that multiplies.
    let mut factors = [[0.0f32; 16]; 2];
    // SAFETY: there is room for sixteen.
    unsafe {
        simd.store_floats(scales, factors[0].as_mut_ptr());
        if B::GROUP == 16 {
            simd.store_floats(minima, factors[1].as_mut_ptr());
        }
    }
    for (quarter, levels) in levels.into_iter().enumerate() {
        for sixteen in 0..4 {
            let at = 4 * quarter + sixteen;
            let (scale, minimum) = match B::GROUP {
                16 => (factors[0][at], factors[1][at]),
                _ => (factors[0][at / 2], factors[0][8 + at / 2]),
            };
            each(at, simd.weights(levels, sixteen, scale, minimum));
        }
    }
}

/// The kernels of a format.
#[derive(Clone, Copy)]
pub(crate) struct FloatKernels {
    /// For one to [`TOKENS`] tokens.
    pub dots: [Dots; TOKENS],
    pub pack: Pack,
}

/// Kernels compiled for some instructions, with so many accumulators for each of one to four tokens.
macro_rules! compiled {
    ($name:ident, $simd:expr, [$($accumulators:literal)*] $(, $features:literal)?) => {
        mod $name {
            use super::*;

            /// # Safety
            /// As for `dots`; the processor must have the instructions.
            $(#[target_feature(enable = $features)])?
            unsafe fn dots<B: Blocks, const T: usize, const S: usize>(
                rows: WeightRows,
                k: usize,
                tokens: Tokens,
                to: *mut f32,
                stride: usize,
            ) {
                // SAFETY: by the caller's word.
                unsafe { super::dots::<B, _, T, S>($simd, rows, k, tokens, to, stride) }
            }

            /// # Safety
            /// As for `pack`; the processor must have the instructions.
            $(#[target_feature(enable = $features)])?
            unsafe fn pack<B: Blocks>(rows: WeightRows, k: usize, panel: *mut f32, width: usize) {
                // SAFETY: by the caller's word.
                unsafe { super::pack::<B, _>($simd, rows, k, panel, width) }
            }

            pub fn kernels<B: Blocks>() -> FloatKernels {
                const S: [usize; TOKENS] = [$($accumulators),*];
                FloatKernels {
                    dots: [
                        dots::<B, 1, { S[0] }>,
                        dots::<B, 2, { S[1] }>,
                        dots::<B, 3, { S[2] }>,
                        dots::<B, 4, { S[3] }>,
                    ],
                    pack: pack::<B>,
                }
            }
        }
    };
}

compiled!(plain, Plain, [1 1 1 1]);
#[cfg(target_arch = "x86_64")]
compiled!(avx2, Avx2::new(), [2 2 1 1], "avx2,fma,f16c,bmi2");
#[cfg(target_arch = "x86_64")]
compiled!(
    vnni,
    Vnni::new(),
    [4 4 2 2],
    "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c,bmi2"
);

/// The best kernels of a format for some instructions.
pub(crate) fn kernels<B: Blocks>(instructions: Instructions) -> FloatKernels {
    match instructions {
        #[cfg(target_arch = "x86_64")]
        Instructions::Vnni => vnni::kernels::<B>(),
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 | Instructions::Avx2 => avx2::kernels::<B>(),
        Instructions::Plain => plain::kernels::<B>(),
    }
}
