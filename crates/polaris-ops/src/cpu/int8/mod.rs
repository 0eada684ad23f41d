//! Products of weights in blocks with rows that are rounded to bytes.
//!
//! Weights are unpacked into small unsigned integers with a scale and a minimum for each 16 or 32 (`Levels`); rows of the
//! other factor into signed bytes with a scale for each 32 (`activations.rs`). Products of both are summed in integers
//! within a group, and scaled groups in `f32`. The instruction that multiplies four unsigned bytes with four signed ones
//! does 64 products at once, four times as many as `f32` has lanes.
//!
//! Few tokens are multiplied with rows of the weight as they lie in the file (`dots.rs`), many with panels of sixteen
//! rows (`panels.rs`). Nothing is repacked beforehand: unpacking a panel takes a few percent of the time from some dozens
//! of tokens on, and for one token reading memory takes longer.

pub(crate) mod activations;
pub(crate) mod dots;
pub(crate) mod floats;
pub(crate) mod panels;
mod products;
#[cfg(test)]
mod tests;
mod vectors;
#[cfg(target_arch = "x86_64")]
mod x86;

use polaris_blocks::CHUNK;
use polaris_runtime::cpu::SimdLevel;

/// Bytes that are fetched together.
const LINE: usize = 64;

/// Rows of a weight: where the first begins, bytes from one to the next, and how many there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WeightRows {
    pub start: *const u8,
    pub stride: usize,
    pub count: usize,
}

/// The element that a chunk of a row begins with. The last one ends where the row ends, and may repeat elements of the one
/// before it, which are zero in that chunk of A. Rows that are shorter than a chunk are filled up.
fn chunk_start(chunk: usize, k: usize) -> usize {
    (chunk * CHUNK).min(k.saturating_sub(CHUNK))
}

/// The blocks of a row that is shorter than a chunk, filled up with zeros; the largest chunk is one of Q8_0.
fn filled_up(blocks: &[u8]) -> [u8; 8 * 34] {
    let mut whole = [0; _];
    whole[..blocks.len()].copy_from_slice(blocks);
    whole
}

/// What kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instructions {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX-512 with products of four bytes.
    #[cfg(target_arch = "x86_64")]
    Vnni,
}

impl Instructions {
    /// The best of a level that was found on this processor.
    pub fn of(level: SimdLevel) -> Self {
        match level {
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 if is_x86_feature_detected!("avx512vnni") => Self::Vnni,
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => Self::Avx512,
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 => Self::Avx2,
            _ => Self::Plain,
        }
    }
}
