//! Blocks before their elements are multiplied: small integers, with a scale and a minimum for each 16 or 32.

use crate::Simd;
use crate::bits::part;

/// Elements whose levels are made at a time: one block of the K family, eight of the others.
pub const CHUNK: usize = 256;

/// A chunk for products of integers: each element is its level times the scale of its group, minus the group's minimum.
#[derive(Debug, Clone, Copy)]
pub struct Levels<S: Simd> {
    /// A level for each element.
    pub levels: [S::Bytes; CHUNK / 64],
    /// Of groups of 16, what levels are multiplied by. Of groups of 32, the same of eight groups, and then what is
    /// subtracted in each: one vector for both halves what has to be done for a chunk.
    pub scales: S::Floats,
    /// Of groups of 16, what is subtracted. Of groups of 32, nothing that counts.
    pub minima: S::Floats,
}

impl<S: Simd> Levels<S> {
    /// Groups of 32, with eight scales and then eight minima.
    #[inline(always)]
    pub(crate) fn by_32(levels: [S::Bytes; CHUNK / 64], factors: S::Floats) -> Self {
        Self { levels, scales: factors, minima: factors }
    }

    /// Groups of 32 whose minima are a multiple of their scales, which are there twice.
    #[inline(always)]
    pub(crate) fn centred_by_32(
        simd: S,
        levels: [S::Bytes; CHUNK / 64],
        scales: S::Floats,
        centre: f32,
    ) -> Self {
        Self::by_32(levels, simd.times_each(scales, [1.0, centre]))
    }
}

/// Each byte less 32, as signed bytes; they must be below 128.
#[inline(always)]
pub(crate) fn less_32(bytes: u128) -> u128 {
    const EACH: u128 = u128::MAX / 255;
    // No byte borrows from the next.
    ((bytes | (128 * EACH)) - 32 * EACH) ^ (128 * EACH)
}

/// What an expression gives for each of so many numbers. `array::from_fn` would be a function of its own, into which
/// vector instructions are not always inlined.
macro_rules! each_of {
    ($count:literal, $number:ident => $of:expr) => {{
        let $number = 0;
        let mut all = [$of; $count];
        for $number in 1..$count {
            all[$number] = $of;
        }
        all
    }};
}

pub(crate) use each_of;

/// The number of two bytes at a place of each of eight blocks.
#[inline(always)]
pub fn each_i16(blocks: &[u8], bytes: usize, at: usize) -> [i16; 8] {
    each_of!(8, block => i16::from_le_bytes(*part(blocks, block * bytes + at)))
}

/// What an expression gives for parts of eight blocks of so many bytes, in pairs of blocks.
macro_rules! pairs {
    ($blocks:expr, $bytes:expr, $at:expr, $a:ident, $b:ident => $of:expr) => {
        each_of!(4, pair => {
            let $a = part($blocks, 2 * pair * $bytes + $at);
            let $b = part($blocks, (2 * pair + 1) * $bytes + $at);
            $of
        })
    };
}

pub(crate) use pairs;

/// Sixteen bytes of each of eight blocks, as numbers of four bits.
#[inline(always)]
pub(crate) fn nibbles<S: Simd>(simd: S, blocks: &[u8], bytes: usize, at: usize) -> [S::Bytes; 4] {
    pairs!(blocks, bytes, at, a, b => simd.nibbles(a, b))
}

/// The same, and what a table has in the places that they name.
#[inline(always)]
pub(crate) fn looked_up<S: Simd>(
    simd: S,
    table: &[u8; 16],
    blocks: &[u8],
    bytes: usize,
    at: usize,
) -> [S::Bytes; 4] {
    pairs!(blocks, bytes, at, a, b => simd.look_up(table, simd.nibbles(a, b)))
}

/// Sixteen bytes and four of fifth bits of each of eight blocks.
#[inline(always)]
pub(crate) fn fives<S: Simd>(
    simd: S,
    blocks: &[u8],
    bytes: usize,
    fifth: usize,
    at: usize,
) -> [S::Bytes; 4] {
    let fifths = pairs!(blocks, bytes, fifth, a, b => simd.fifths(*a, *b));
    let nibbles = nibbles(simd, blocks, bytes, at);
    each_of!(4, pair => simd.or(nibbles[pair], fifths[pair]))
}

/// Groups of 16 whose minima are a multiple of their scales.
#[inline(always)]
pub(crate) fn centred<S: Simd>(
    simd: S,
    levels: [S::Bytes; 4],
    scales: S::Floats,
    centre: f32,
) -> Levels<S> {
    Levels { levels, scales, minima: simd.times(scales, centre) }
}

#[cfg(test)]
mod tests {
    use polaris_core::random::SplitMix64;

    use super::*;
    use crate::{Block, Blocks, Plain, with_block_type};

    #[test]
    fn levels_give_what_is_decoded() {
        let mut random = SplitMix64::new(7);
        for block in Block::ALL {
            let each = CHUNK / block.elements();
            for _ in 0..20 {
                let mut bytes: Vec<u8> =
                    (0..each * block.bytes()).map(|_| random.bits() as u8).collect();
                // Scales that are numbers.
                let values: Vec<f32> = (0..CHUNK).map(|i| (i as f32 * 0.7).sin()).collect();
                let mut good = bytes.clone();
                block.encode_nearest(&values, &mut good).unwrap();
                keep_scales(block, &good, &mut bytes);
                let mut decoded = [0.0; CHUNK];
                block.decode(&bytes, &mut decoded);
                let (Levels { levels, scales, minima }, group) = with_block_type!(block, B => {
                    let made = B::levels(Plain, &bytes);
                    let highest = made.levels.as_flattened().iter().copied().map(u16::from).max();
                    assert!(highest.is_some_and(|level| level <= B::HIGHEST.into()), "{block}");
                    (made, B::GROUP)
                });
                for (i, &expected) in decoded.iter().enumerate() {
                    let (scale, min) = match group {
                        16 => (scales[i / 16], minima[i / 16]),
                        _ => (scales[i / 32], scales[8 + i / 32]),
                    };
                    let found = scale * f32::from(levels.as_flattened()[i]) - min;
                    let near = (scale * f32::from(u8::MAX)).abs() * 1e-6 + min.abs() * 1e-6;
                    assert!((found - expected).abs() <= near, "{block} {i}: {found} {expected}");
                }
            }
        }
    }

    /// Takes what blocks have in half precision from good ones.
    fn keep_scales(block: Block, good: &[u8], bytes: &mut [u8]) {
        let places = match block {
            Block::Q2_K => 80..84,
            Block::Q3_K => 108..110,
            Block::Q6_K => 208..210,
            Block::MXFP4 => 0..1,
            Block::Q4_1 | Block::Q5_1 | Block::Q4_K | Block::Q5_K => 0..4,
            _ => 0..2,
        };
        let each = block.bytes();
        for (good, bytes) in good.chunks_exact(each).zip(bytes.chunks_exact_mut(each)) {
            bytes[places.clone()].copy_from_slice(&good[places.clone()]);
        }
    }
}
