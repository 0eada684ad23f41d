//! The legacy formats: 32 weights, evenly spaced, with one scale `d` and in the `_1` formats a minimum `m`.
//!
//! | format | bytes of a block | weight |
//! |---|---|---|
//! | Q4_0 | d, 16 of nibbles | d(q − 8) |
//! | Q4_1 | d, m, 16 of nibbles | dq + m |
//! | Q5_0 | d, 4 of fifth bits, 16 of nibbles | d(q − 16) |
//! | Q5_1 | d, m, 4 of fifth bits, 16 of nibbles | dq + m |
//! | Q8_0 | d, 32 signed | dq |
//!
//! The lower nibble of byte j is weight j, the upper one weight j + 16; bit j of the fifth bits belongs to weight j.

use crate::bits::{bounds, extreme, half, inverse, part, whole, write_half};
use crate::levels::{each_of, fives, nibbles, pairs};
use crate::{Block, Blocks, CHUNK, Levels, Refusal, Simd, Values, search};

/// The numbers of 16 bytes of nibbles, made into weights.
#[inline(always)]
fn each_nibble(qs: &[u8; 16], y: &mut [f32; 32], weight: impl Fn(f32) -> f32) {
    for j in 0..16 {
        y[j] = weight(f32::from(qs[j] & 15));
        y[j + 16] = weight(f32::from(qs[j] >> 4));
    }
}

/// The same with fifth bits.
#[inline(always)]
fn each_of_five(fifth: &[u8; 4], qs: &[u8; 16], y: &mut [f32; 32], weight: impl Fn(f32) -> f32) {
    let fifth = u32::from_le_bytes(*fifth);
    for j in 0..16 {
        let (low, high) = (u32::from(qs[j] & 15), u32::from(qs[j] >> 4));
        y[j] = weight((low | (fifth >> j & 1) << 4) as i32 as f32);
        y[j + 16] = weight((high | (fifth >> (j + 16) & 1) << 4) as i32 as f32);
    }
}

/// A number of `0..=most`, from one that is rounded down. What cannot be converted is 0: that is what the package gives
/// on x86-64 where a scale is so small that its inverse is infinite. Such a scale is 0 in half precision, so that the
/// weights do not depend on it.
#[inline(always)]
fn truncated(value: f32, most: u8) -> u8 {
    if (0.0..256.0).contains(&value) { (value as u8).min(most) } else { 0 }
}

/// Packs numbers of four bits: weight j below weight j + 16.
#[inline(always)]
pub(crate) fn pack(q: impl Fn(usize) -> u8, out: &mut [u8]) {
    for (j, byte) in out.iter_mut().enumerate() {
        *byte = q(j) & 15 | q(j + 16) << 4;
    }
}

/// Packs the fifth bits of 32 numbers.
#[inline(always)]
pub(crate) fn pack_fifth(q: impl Fn(usize) -> u8, out: &mut [u8]) {
    for (j, byte) in out.iter_mut().enumerate() {
        *byte = (0..8).map(|bit| (q(8 * j + bit) >> 4 & 1) << bit).sum();
    }
}

/// The format of its name.
#[allow(non_camel_case_types)]
#[derive(Debug, Clone, Copy)]
pub struct Q4_0;

impl Blocks for Q4_0 {
    const BLOCK: Block = Block::Q4_0;
    const ELEMENTS: usize = 32;
    const BYTES: usize = 2 + 16;
    const GROUP: usize = 32;
    const HIGHEST: u8 = 15;
    const VALUES: Values = Values::Whole { lowest: -8, count: 16 };

    #[inline(always)]
    fn decode(block: &[u8], y: &mut [f32]) {
        let d = half(block, 0);
        each_nibble(part(block, 2), whole(y), |q| d * (q - 8.0));
    }

    #[inline(always)]
    fn levels<S: Simd>(simd: S, blocks: &[u8]) -> Levels<S> {
        let blocks = &blocks[..8 * Self::BYTES];
        let levels = nibbles(simd, blocks, Self::BYTES, 2);
        Levels::centred_by_32(simd, levels, simd.halves::<{ Self::BYTES }>(blocks, [0; 2]), 8.0)
    }

    fn write_numbers(numbers: &[u8], block: &mut [u8]) {
        pack(|j| numbers[j], &mut block[2..]);
    }

    #[inline(always)]
    fn encode_nearest(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
        // The weight of the largest magnitude becomes -8, of which there is no positive counterpart.
        let d = extreme(x) / -8.0;
        let id = inverse(d);
        write_half(out, 0, d, "scale")?;
        pack(|j| truncated(x[j] * id + 8.5, 15), &mut out[2..]);
        Ok(())
    }

    #[inline(always)]
    fn encode_best(
        x: &[f32; CHUNK],
        importance: Option<&[f32; CHUNK]>,
        out: &mut [u8],
    ) -> Result<(), Refusal> {
        search::q4_0(x, importance, out)
    }
}

/// The format of its name.
#[allow(non_camel_case_types)]
#[derive(Debug, Clone, Copy)]
pub struct Q4_1;

impl Blocks for Q4_1 {
    const BLOCK: Block = Block::Q4_1;
    const ELEMENTS: usize = 32;
    const BYTES: usize = 2 + 2 + 16;
    const GROUP: usize = 32;
    const HIGHEST: u8 = 15;
    const VALUES: Values = Values::Whole { lowest: 0, count: 16 };

    #[inline(always)]
    fn decode(block: &[u8], y: &mut [f32]) {
        let (d, m) = (half(block, 0), half(block, 2));
        each_nibble(part(block, 4), whole(y), |q| d * q + m);
    }

    #[inline(always)]
    fn levels<S: Simd>(simd: S, blocks: &[u8]) -> Levels<S> {
        let blocks = &blocks[..8 * Self::BYTES];
        let both = simd.halves::<{ Self::BYTES }>(blocks, [0, 2]);
        let levels = nibbles(simd, blocks, Self::BYTES, 4);
        Levels::by_32(levels, simd.times_each(both, [1.0, -1.0]))
    }

    fn write_numbers(numbers: &[u8], block: &mut [u8]) {
        pack(|j| numbers[j], &mut block[4..]);
    }

    fn encode_nearest(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
        let (min, max) = bounds(x);
        let d = (max - min) / 15.0;
        let id = inverse(d);
        write_half(out, 0, d, "scale")?;
        write_half(out, 2, min, "minimum")?;
        pack(|j| truncated((x[j] - min) * id + 0.5, 15), &mut out[4..]);
        Ok(())
    }

    #[inline(always)]
    fn encode_best(
        x: &[f32; CHUNK],
        importance: Option<&[f32; CHUNK]>,
        out: &mut [u8],
    ) -> Result<(), Refusal> {
        search::q4_1(x, importance, out)
    }
}

/// The format of its name.
#[allow(non_camel_case_types)]
#[derive(Debug, Clone, Copy)]
pub struct Q5_0;

impl Blocks for Q5_0 {
    const BLOCK: Block = Block::Q5_0;
    const ELEMENTS: usize = 32;
    const BYTES: usize = 2 + 4 + 16;
    const GROUP: usize = 32;
    const HIGHEST: u8 = 31;
    const VALUES: Values = Values::Whole { lowest: -16, count: 32 };

    #[inline(always)]
    fn decode(block: &[u8], y: &mut [f32]) {
        let d = half(block, 0);
        each_of_five(part(block, 2), part(block, 6), whole(y), |q| d * (q - 16.0));
    }

    #[inline(always)]
    fn levels<S: Simd>(simd: S, blocks: &[u8]) -> Levels<S> {
        let blocks = &blocks[..8 * Self::BYTES];
        let levels = fives(simd, blocks, Self::BYTES, 2, 6);
        Levels::centred_by_32(simd, levels, simd.halves::<{ Self::BYTES }>(blocks, [0; 2]), 16.0)
    }

    fn write_numbers(numbers: &[u8], block: &mut [u8]) {
        pack_fifth(|j| numbers[j], &mut block[2..6]);
        pack(|j| numbers[j], &mut block[6..]);
    }

    fn encode_nearest(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
        let d = extreme(x) / -16.0;
        let id = inverse(d);
        write_half(out, 0, d, "scale")?;
        let q = |j: usize| truncated(x[j] * id + 16.5, 31);
        pack_fifth(q, &mut out[2..6]);
        pack(q, &mut out[6..]);
        Ok(())
    }

    #[inline(always)]
    fn encode_best(
        x: &[f32; CHUNK],
        importance: Option<&[f32; CHUNK]>,
        out: &mut [u8],
    ) -> Result<(), Refusal> {
        search::q5_0(x, importance, out)
    }
}

/// The format of its name.
#[allow(non_camel_case_types)]
#[derive(Debug, Clone, Copy)]
pub struct Q5_1;

impl Blocks for Q5_1 {
    const BLOCK: Block = Block::Q5_1;
    const ELEMENTS: usize = 32;
    const BYTES: usize = 2 + 2 + 4 + 16;
    const GROUP: usize = 32;
    const HIGHEST: u8 = 31;
    const VALUES: Values = Values::Whole { lowest: 0, count: 32 };

    #[inline(always)]
    fn decode(block: &[u8], y: &mut [f32]) {
        let (d, m) = (half(block, 0), half(block, 2));
        each_of_five(part(block, 4), part(block, 8), whole(y), |q| d * q + m);
    }

    #[inline(always)]
    fn levels<S: Simd>(simd: S, blocks: &[u8]) -> Levels<S> {
        let blocks = &blocks[..8 * Self::BYTES];
        let both = simd.halves::<{ Self::BYTES }>(blocks, [0, 2]);
        let levels = fives(simd, blocks, Self::BYTES, 4, 8);
        Levels::by_32(levels, simd.times_each(both, [1.0, -1.0]))
    }

    fn write_numbers(numbers: &[u8], block: &mut [u8]) {
        pack_fifth(|j| numbers[j], &mut block[4..8]);
        pack(|j| numbers[j], &mut block[8..]);
    }

    fn encode_nearest(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
        let (min, max) = bounds(x);
        let d = (max - min) / 31.0;
        let id = inverse(d);
        write_half(out, 0, d, "scale")?;
        write_half(out, 2, min, "minimum")?;
        let q = |j: usize| truncated((x[j] - min) * id + 0.5, 31);
        pack_fifth(q, &mut out[4..8]);
        pack(q, &mut out[8..]);
        Ok(())
    }

    #[inline(always)]
    fn encode_best(
        x: &[f32; CHUNK],
        importance: Option<&[f32; CHUNK]>,
        out: &mut [u8],
    ) -> Result<(), Refusal> {
        search::q5_1(x, importance, out)
    }
}

/// The format of its name.
#[allow(non_camel_case_types)]
#[derive(Debug, Clone, Copy)]
pub struct Q8_0;

impl Blocks for Q8_0 {
    const BLOCK: Block = Block::Q8_0;
    const ELEMENTS: usize = 32;
    const BYTES: usize = 2 + 32;
    const GROUP: usize = 32;
    const HIGHEST: u8 = 255;
    const VALUES: Values = Values::Whole { lowest: -127, count: 255 };

    #[inline(always)]
    fn decode(block: &[u8], y: &mut [f32]) {
        let d = half(block, 0);
        // Read as a whole before anything is written: compilers that do not know bytes and elements to lie apart would
        // take one element at a time, five times slower.
        let qs: [u8; 32] = *part(block, 2);
        let mut elements = [0.0; 32];
        for j in 0..32 {
            elements[j] = d * f32::from(qs[j] as i8);
        }
        *whole(y) = elements;
    }

    #[inline(always)]
    fn levels<S: Simd>(simd: S, blocks: &[u8]) -> Levels<S> {
        let blocks = &blocks[..8 * Self::BYTES];
        let levels = pairs!(blocks, Self::BYTES, 2, a, b => simd.without_sign(simd.pair(a, b)));
        Levels::centred_by_32(simd, levels, simd.halves::<{ Self::BYTES }>(blocks, [0; 2]), 128.0)
    }

    fn write_numbers(numbers: &[u8], block: &mut [u8]) {
        for (byte, &number) in block[2..].iter_mut().zip(numbers) {
            *byte = number.wrapping_sub(127);
        }
    }

    #[inline(always)]
    fn encode_nearest(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
        let d = extreme(x).abs() / 127.0;
        let id = inverse(d);
        write_half(out, 0, d, "scale")?;
        for (out, &x) in out[2..].iter_mut().zip(x) {
            // Halves are rounded away from zero.
            let q = (x * id).round();
            *out = if q.is_finite() { q as i8 as u8 } else { 0 };
        }
        Ok(())
    }
}
