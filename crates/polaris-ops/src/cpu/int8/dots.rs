//! Rows of a weight times a few tokens: each chunk is unpacked into registers and the L1 cache, and multiplied with all
//! of them. A weight is read once, as it lies in the file.

use polaris_blocks::{Blocks, CHUNK, Plain};

use super::activations::Tile;
use super::vectors::{ROWS, Vectors};
#[cfg(target_arch = "x86_64")]
use super::x86::{Avx2, Vnni};
use super::{Instructions, LINE, WeightRows, chunk_start, filled_up};
use crate::cpu::fetch::fetch_once;

/// The most tokens. Each of them is read again for every row, which takes longer for more than to unpack panels.
pub(crate) const TOKENS: usize = 4;

/// How far ahead weights are fetched. Processors look ahead within a page, and unpacking leaves them too little time.
const AHEAD: usize = 4096;
/// The dot products of rows of a weight with tokens, which are tiles of one each; those of a token are `stride` apart from
/// those of the next.
pub(crate) type Dots =
    unsafe fn(rows: WeightRows, k: usize, tokens: &[Tile], to: *mut f32, stride: usize);

/// # Safety
/// The rows must be readable for `k` elements, which are whole blocks, the tokens be as long, and the target have room.
#[inline(always)]
unsafe fn dots<B: Blocks, V: Vectors, const T: usize>(
    simd: V,
    rows: WeightRows,
    k: usize,
    tokens: &[Tile],
    to: *mut f32,
    stride: usize,
) {
    let tokens: &[Tile; T] = tokens.first_chunk().expect("as many tokens as the kernel is for");
    for first in (0..rows.count).step_by(ROWS) {
        let count = ROWS.min(rows.count - first);
        let mut lanes = [[[0.0; 16]; ROWS]; T];
        for row in 0..count {
            // SAFETY: by the caller's word.
            let sums = unsafe {
                let weights = rows.start.add((first + row) * rows.stride);
                add_row::<B, V, T>(simd, weights, k, tokens)
            };
            for (lanes, sum) in lanes.iter_mut().zip(sums) {
                lanes[row] = simd.lanes(sum);
            }
        }
        for (token, lanes) in lanes.iter().enumerate() {
            let totals = simd.totals(lanes);
            // SAFETY: by the caller's word.
            unsafe {
                let to = to.add(token * stride + first);
                std::ptr::copy_nonoverlapping(totals.as_ptr(), to, count);
            }
        }
    }
}

/// The sums of one row with each token.
///
/// # Safety
/// As for `dots`.
#[inline(always)]
unsafe fn add_row<B: Blocks, V: Vectors, const T: usize>(
    simd: V,
    weights: *const u8,
    k: usize,
    tokens: &[Tile; T],
) -> [V::Sum; T] {
    let chunk_bytes = CHUNK / B::ELEMENTS * B::BYTES;
    let mut sums = [simd.no_sum(); T];
    // SAFETY: by the caller's word.
    unsafe {
        if B::ELEMENTS < CHUNK && (1..CHUNK).contains(&k) {
            let bytes = k / B::ELEMENTS * B::BYTES;
            let blocks = filled_up(std::slice::from_raw_parts(weights, bytes));
            add_chunk::<B, V, T>(simd, &mut sums, &blocks[..chunk_bytes], tokens, 0);
        } else {
            for chunk in 0..k.div_ceil(CHUNK) {
                let start = weights.add(chunk_start(chunk, k) / B::ELEMENTS * B::BYTES);
                for line in (0..chunk_bytes).step_by(LINE) {
                    fetch_once(start.wrapping_add(AHEAD + line));
                }
                let blocks = std::slice::from_raw_parts(start, chunk_bytes);
                add_chunk::<B, V, T>(simd, &mut sums, blocks, tokens, chunk);
            }
        }
    }
    sums
}

/// # Safety
/// The tokens must have this chunk.
#[inline(always)]
unsafe fn add_chunk<B: Blocks, V: Vectors, const T: usize>(
    simd: V,
    sums: &mut [V::Sum; T],
    blocks: &[u8],
    tokens: &[Tile; T],
    chunk: usize,
) {
    let levels = B::levels(simd, blocks);
    // SAFETY: by the caller's word.
    unsafe {
        for (sum, token) in sums.iter_mut().zip(tokens) {
            let part = token.part(chunk);
            *sum = match (B::HIGHEST, B::GROUP) {
                (0..128, 16) => simd.add_chunk::<false, 16>(*sum, &levels, part),
                (0..128, _) => simd.add_chunk::<false, 32>(*sum, &levels, part),
                (_, 16) => simd.add_chunk::<true, 16>(*sum, &levels, part),
                (_, _) => simd.add_chunk::<true, 32>(*sum, &levels, part),
            };
        }
    }
}

/// A kernel compiled for some instructions.
#[cfg(target_arch = "x86_64")]
macro_rules! compiled {
    ($name:ident, $simd:expr, $features:literal) => {
        /// # Safety
        /// As for `dots`; the processor must have the instructions.
        #[target_feature(enable = $features)]
        unsafe fn $name<B: Blocks, const T: usize>(
            rows: WeightRows,
            k: usize,
            tokens: &[Tile],
            to: *mut f32,
            stride: usize,
        ) {
            // SAFETY: by the caller's word.
            unsafe { dots::<B, _, T>($simd, rows, k, tokens, to, stride) }
        }
    };
}

/// One token after the other: kernels for several would be large, and hardly faster without vectors.
///
/// # Safety
/// As for `dots`.
unsafe fn plain<B: Blocks>(
    rows: WeightRows,
    k: usize,
    tokens: &[Tile],
    to: *mut f32,
    stride: usize,
) {
    for (number, token) in tokens.iter().enumerate() {
        // SAFETY: by the caller's word.
        unsafe {
            let to = to.add(number * stride);
            dots::<B, _, 1>(Plain, rows, k, std::slice::from_ref(token), to, stride);
        }
    }
}

#[cfg(target_arch = "x86_64")]
compiled!(avx2, Avx2::new(), "avx2,fma,f16c,bmi2");
#[cfg(target_arch = "x86_64")]
compiled!(vnni, Vnni::new(), "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c,bmi2");

/// The kernels of a format for one to [`TOKENS`] tokens.
pub(crate) fn kernels<B: Blocks>(instructions: Instructions) -> [Dots; TOKENS] {
    match instructions {
        #[cfg(target_arch = "x86_64")]
        Instructions::Vnni => [vnni::<B, 1>, vnni::<B, 2>, vnni::<B, 3>, vnni::<B, 4>],
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 | Instructions::Avx2 => {
            [avx2::<B, 1>, avx2::<B, 2>, avx2::<B, 3>, avx2::<B, 4>]
        }
        Instructions::Plain => [plain::<B>; TOKENS],
    }
}
