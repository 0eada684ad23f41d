//! The K family: 256 weights in groups of 16 or 32, whose scales (and minima) are small integers, multiplied by one
//! `d` (and `dmin`) of the block.
//!
//! | format | bytes of a block | weight |
//! |---|---|---|
//! | Q2_K | 16 scales and minima, 64 of 2 bits, d, dmin | (d·sc)q − dmin·m, groups of 16 |
//! | Q3_K | 32 of high bits, 64 of 2 bits, 12 of scales, d | (d(sc − 32))(q − 4), groups of 16 |
//! | Q4_K | d, dmin, 12 of scales and minima, 128 of nibbles | (d·sc)q − dmin·m, groups of 32 |
//! | Q5_K | as Q4_K with 32 of fifth bits before the nibbles | (d·sc)q − dmin·m, groups of 32 |
//! | Q6_K | 128 of low nibbles, 64 of high 2 bits, 16 signed scales, d | (d·sc)(q − 32), groups of 16 |
//!
//! Fields of two bits: each 128 weights take 32 bytes, from the lowest bits up. Nibbles of Q4_K and Q5_K: each 64 weights
//! take 32 bytes, the lower nibbles first; those of Q6_K: each 128 weights take 64 bytes. Bit g of byte j of the third
//! bits of Q3_K and the fifth bits of Q5_K belongs to weight 32g + j. The encoders are in `k_encode.rs`.

use crate::bits::{half, part, whole};
use crate::levels::{centred, each_of, less_32};
use crate::{Block, Blocks, CHUNK, Levels, Refusal, Simd, Values, k_encode, search};

/// The same for each of the four groups whose fields share bytes. Where two fields make a weight, decoders make four
/// weights of a byte at a time: with constant shifts these loops vectorise.
#[inline(always)]
fn each(of: impl Fn(usize) -> f32) -> [f32; 4] {
    std::array::from_fn(of)
}

/// The lower four bits of each byte.
const NIBBLES: u128 = 0x0f0f_0f0f_0f0f_0f0f_0f0f_0f0f_0f0f_0f0f;

/// Four bytes as one number, so that what is done to it is done to each.
#[inline(always)]
fn word(packed: &[u8; 12], at: usize) -> u32 {
    u32::from_le_bytes(*part(packed, at))
}

/// The scales of Q3_K, raised by 32, a byte each: nibbles of the first 8 bytes, the two bits above them in the last 4.
#[inline(always)]
fn q3_scales(packed: &[u8; 12]) -> u128 {
    let [a, b, c] = [word(packed, 0), word(packed, 4), word(packed, 8)];
    let four = |low: u32, high: u32| u128::from(low & 0x0f0f_0f0f | (high & 0x0303_0303) << 4);
    four(a, c) | four(b, c >> 2) << 32 | four(a >> 4, c >> 4) << 64 | four(b >> 4, c >> 6) << 96
}

/// Scales and minima of the groups of Q4_K and Q5_K, six bits each, a byte each. The first four are the lower six bits of
/// bytes 0 to 3 and 4 to 7; of the others the lower four bits are the nibbles of bytes 8 to 11, and the upper two those
/// that were left.
#[inline(always)]
fn scales_and_minima(packed: &[u8; 12]) -> [u64; 2] {
    let [a, b, c] = [word(packed, 0), word(packed, 4), word(packed, 8)];
    let eight = |first: u32, low: u32| {
        let last = low & 0x0f0f_0f0f | first >> 2 & 0x3030_3030;
        u64::from(first & 0x3f3f_3f3f) | u64::from(last) << 32
    };
    [eight(a, c), eight(b, c >> 4)]
}

/// The fields of two bits of a pair of groups.
#[inline(always)]
fn two_bits<S: Simd>(simd: S, fields: &[u8; 64], pair: usize) -> S::Bytes {
    let shift = 4 * (pair % 2) as u32;
    simd.bits(simd.both(part(fields, 32 * (pair / 2))), [shift, shift + 2], 3)
}

/// The bits of the groups of a pair, where each group has its own.
#[inline(always)]
fn bits_of(pair: usize) -> [u32; 2] {
    [2 * pair as u32, 2 * pair as u32 + 1]
}

/// The format of its name.
#[allow(non_camel_case_types)]
#[derive(Debug, Clone, Copy)]
pub struct Q2_K;

impl Blocks for Q2_K {
    const BLOCK: Block = Block::Q2_K;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 16 + 64 + 2 + 2;
    const GROUP: usize = 16;
    const HIGHEST: u8 = 3;
    const VALUES: Values = Values::Whole { lowest: 0, count: 4 };

    #[inline(always)]
    fn decode(block: &[u8], y: &mut [f32]) {
        let (scales, qs): (&[u8; 16], &[u8; 64]) = (part(block, 0), part(block, 16));
        let (d, dmin) = (half(block, 80), half(block, 82));
        let y: &mut [f32; 256] = whole(y);
        for (g, y) in y.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let dl = d * f32::from(scales[g] & 15);
            let ml = dmin * f32::from(scales[g] >> 4);
            let qs: &[u8; 16] = part(qs, 32 * (g / 8) + 16 * (g % 2));
            let shift = g % 8 / 2 * 2;
            for (y, &q) in y.iter_mut().zip(qs) {
                *y = dl * f32::from(q >> shift & 3) - ml;
            }
        }
    }

    #[inline(always)]
    fn levels<S: Simd>(simd: S, blocks: &[u8]) -> Levels<S> {
        let block = &blocks[..Self::BYTES];
        let both = u128::from_le_bytes(*part(block, 0));
        Levels {
            levels: each_of!(4, pair => two_bits(simd, part(block, 16), pair)),
            scales: simd.times_half(simd.floats(both & NIBBLES), part(block, 80)),
            minima: simd.times_half(simd.floats(both >> 4 & NIBBLES), part(block, 82)),
        }
    }

    fn write_numbers(numbers: &[u8], block: &mut [u8]) {
        k_encode::q2_numbers(|i| numbers[i], block);
    }

    fn encode_nearest(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
        k_encode::q2(x, out)
    }

    #[inline(always)]
    fn encode_best(
        x: &[f32; CHUNK],
        importance: Option<&[f32; CHUNK]>,
        out: &mut [u8],
    ) -> Result<(), Refusal> {
        search::q2(x, importance, out)
    }
}

/// The format of its name.
#[allow(non_camel_case_types)]
#[derive(Debug, Clone, Copy)]
pub struct Q3_K;

impl Blocks for Q3_K {
    const BLOCK: Block = Block::Q3_K;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 32 + 64 + 12 + 2;
    const GROUP: usize = 16;
    const HIGHEST: u8 = 7;
    const VALUES: Values = Values::Whole { lowest: -4, count: 8 };

    #[inline(always)]
    fn decode(block: &[u8], y: &mut [f32]) {
        let (mut high, qs): ([u8; 32], &[u8; 64]) = (*part(block, 0), part(block, 32));
        let scales = q3_scales(part(block, 96)).to_le_bytes();
        let d = half(block, 108);
        let y: &mut [f32; 256] = whole(y);
        let weight = |dl: f32, low: u8, high: u8| dl * f32::from((low | high << 2) as i8 - 4);
        for (half, y) in y.as_chunks_mut::<128>().0.iter_mut().enumerate() {
            for side in 0..2 {
                let dl = each(|j| d * f32::from(scales[8 * half + 2 * j + side] as i8 - 32));
                let qs: &[u8; 16] = part(qs, 32 * half + 16 * side);
                for (l, &q) in qs.iter().enumerate() {
                    let at = 16 * side + l;
                    let high = high[at];
                    y[at] = weight(dl[0], q & 3, high & 1);
                    y[at + 32] = weight(dl[1], q >> 2 & 3, high >> 1 & 1);
                    y[at + 64] = weight(dl[2], q >> 4 & 3, high >> 2 & 1);
                    y[at + 96] = weight(dl[3], q >> 6, high >> 3 & 1);
                }
            }
            high = high.map(|bits| bits >> 4);
        }
    }

    #[inline(always)]
    fn levels<S: Simd>(simd: S, blocks: &[u8]) -> Levels<S> {
        let block = &blocks[..Self::BYTES];
        let high = simd.both(part(block, 0));
        let levels = each_of!(4, pair => {
            let third = simd.raised(simd.bits(high, bits_of(pair), 1), 2);
            simd.or(two_bits(simd, part(block, 32), pair), third)
        });
        let scales = simd.floats(less_32(q3_scales(part(block, 96))));
        centred(simd, levels, simd.times_half(scales, part(block, 108)), 4.0)
    }

    fn write_numbers(numbers: &[u8], block: &mut [u8]) {
        k_encode::q3_numbers(|i| numbers[i], block);
    }

    fn encode_nearest(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
        k_encode::q3(x, out)
    }

    #[inline(always)]
    fn encode_best(
        x: &[f32; CHUNK],
        importance: Option<&[f32; CHUNK]>,
        out: &mut [u8],
    ) -> Result<(), Refusal> {
        search::q3(x, importance, out)
    }
}

/// The format of its name.
#[allow(non_camel_case_types)]
#[derive(Debug, Clone, Copy)]
pub struct Q4_K;

impl Blocks for Q4_K {
    const BLOCK: Block = Block::Q4_K;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 2 + 2 + 12 + 128;
    const GROUP: usize = 32;
    const HIGHEST: u8 = 15;
    const VALUES: Values = Values::Whole { lowest: 0, count: 16 };

    #[inline(always)]
    fn decode(block: &[u8], y: &mut [f32]) {
        let (d, dmin) = (half(block, 0), half(block, 2));
        let [scales, minima] = scales_and_minima(part(block, 4)).map(u64::to_le_bytes);
        let y: &mut [f32; 256] = whole(y);
        for (g, y) in y.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (dl, ml) = (d * f32::from(scales[g]), dmin * f32::from(minima[g]));
            let qs: &[u8; 32] = part(block, 16 + 32 * (g / 2));
            let shift = 4 * (g % 2);
            for (y, &q) in y.iter_mut().zip(qs) {
                *y = dl * f32::from(q >> shift & 15) - ml;
            }
        }
    }

    #[inline(always)]
    fn levels<S: Simd>(simd: S, blocks: &[u8]) -> Levels<S> {
        let block = &blocks[..Self::BYTES];
        let [scales, minima] = scales_and_minima(part(block, 4));
        let levels = each_of!(4, pair => {
            simd.bits(simd.both(part(block, 16 + 32 * pair)), [0, 4], 15)
        });
        let both = simd.floats(u128::from(scales) | u128::from(minima) << 64);
        Levels::by_32(levels, simd.times_halves(both, part(block, 0)))
    }

    fn write_numbers(numbers: &[u8], block: &mut [u8]) {
        k_encode::q4_numbers(|i| numbers[i], block);
    }

    fn encode_nearest(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
        k_encode::q4(x, out)
    }

    #[inline(always)]
    fn encode_best(
        x: &[f32; CHUNK],
        importance: Option<&[f32; CHUNK]>,
        out: &mut [u8],
    ) -> Result<(), Refusal> {
        search::q4(x, importance, out)
    }
}

/// The format of its name.
#[allow(non_camel_case_types)]
#[derive(Debug, Clone, Copy)]
pub struct Q5_K;

impl Blocks for Q5_K {
    const BLOCK: Block = Block::Q5_K;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 2 + 2 + 12 + 32 + 128;
    const GROUP: usize = 32;
    const HIGHEST: u8 = 31;
    const VALUES: Values = Values::Whole { lowest: 0, count: 32 };

    #[inline(always)]
    fn decode(block: &[u8], y: &mut [f32]) {
        let (d, dmin) = (half(block, 0), half(block, 2));
        let [scales, minima] = scales_and_minima(part(block, 4)).map(u64::to_le_bytes);
        let fifth: &[u8; 32] = part(block, 16);
        let y: &mut [f32; 256] = whole(y);
        for (g, y) in y.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (dl, ml) = (d * f32::from(scales[g]), dmin * f32::from(minima[g]));
            let qs: &[u8; 32] = part(block, 48 + 32 * (g / 2));
            let shift = 4 * (g % 2);
            for ((y, &q), &fifth) in y.iter_mut().zip(qs).zip(fifth) {
                *y = dl * f32::from(q >> shift & 15 | (fifth >> g & 1) << 4) - ml;
            }
        }
    }

    #[inline(always)]
    fn levels<S: Simd>(simd: S, blocks: &[u8]) -> Levels<S> {
        let block = &blocks[..Self::BYTES];
        let [scales, minima] = scales_and_minima(part(block, 4));
        let fifth = simd.both(part(block, 16));
        let levels = each_of!(4, pair => {
            let fifth = simd.raised(simd.bits(fifth, bits_of(pair), 1), 4);
            simd.or(simd.bits(simd.both(part(block, 48 + 32 * pair)), [0, 4], 15), fifth)
        });
        let both = simd.floats(u128::from(scales) | u128::from(minima) << 64);
        Levels::by_32(levels, simd.times_halves(both, part(block, 0)))
    }

    fn write_numbers(numbers: &[u8], block: &mut [u8]) {
        k_encode::q5_numbers(|i| numbers[i], block);
    }

    fn encode_nearest(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
        k_encode::q5(x, out)
    }

    #[inline(always)]
    fn encode_best(
        x: &[f32; CHUNK],
        importance: Option<&[f32; CHUNK]>,
        out: &mut [u8],
    ) -> Result<(), Refusal> {
        search::q5(x, importance, out)
    }
}

/// The format of its name.
#[allow(non_camel_case_types)]
#[derive(Debug, Clone, Copy)]
pub struct Q6_K;

impl Blocks for Q6_K {
    const BLOCK: Block = Block::Q6_K;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 128 + 64 + 16 + 2;
    const GROUP: usize = 16;
    const HIGHEST: u8 = 63;
    const VALUES: Values = Values::Whole { lowest: -32, count: 64 };

    #[inline(always)]
    fn decode(block: &[u8], y: &mut [f32]) {
        let scales: &[u8; 16] = part(block, 192);
        let d = half(block, 208);
        let y: &mut [f32; 256] = whole(y);
        let weight = |dl: f32, low: u8, high: u8| dl * f32::from((low | high << 4) as i8 - 32);
        for (half, y) in y.as_chunks_mut::<128>().0.iter_mut().enumerate() {
            for side in 0..2 {
                let dl = each(|j| d * f32::from(scales[8 * half + 2 * j + side] as i8));
                let low: &[u8; 16] = part(block, 64 * half + 16 * side);
                let next: &[u8; 16] = part(block, 64 * half + 32 + 16 * side);
                let high: &[u8; 16] = part(block, 128 + 32 * half + 16 * side);
                for l in 0..16 {
                    let (at, low, next, high) = (16 * side + l, low[l], next[l], high[l]);
                    y[at] = weight(dl[0], low & 15, high & 3);
                    y[at + 32] = weight(dl[1], next & 15, high >> 2 & 3);
                    y[at + 64] = weight(dl[2], low >> 4, high >> 4 & 3);
                    y[at + 96] = weight(dl[3], next >> 4, high >> 6);
                }
            }
        }
    }

    #[inline(always)]
    fn levels<S: Simd>(simd: S, blocks: &[u8]) -> Levels<S> {
        let block = &blocks[..Self::BYTES];
        let levels = each_of!(4, pair => {
            // Lower nibbles of 64 bytes, then upper ones.
            let shift = 4 * (pair % 2) as u32;
            let low = simd.bits(simd.load(part(block, 64 * (pair / 2))), [shift; 2], 15);
            simd.or(low, simd.raised(two_bits(simd, part(block, 128), pair), 4))
        });
        let scales = simd.floats(u128::from_le_bytes(*part(block, 192)));
        centred(simd, levels, simd.times_half(scales, part(block, 208)), 32.0)
    }

    fn write_numbers(numbers: &[u8], block: &mut [u8]) {
        k_encode::q6_numbers(|i| numbers[i], block);
    }

    fn encode_nearest(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
        k_encode::q6(x, out)
    }

    #[inline(always)]
    fn encode_best(
        x: &[f32; CHUNK],
        importance: Option<&[f32; CHUNK]>,
        out: &mut [u8],
    ) -> Result<(), Refusal> {
        search::q6(x, importance, out)
    }
}
