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
use crate::{Block, Blocks, Refusal, k_encode};

/// The same for each of the four groups whose fields share bytes. Where two fields make a weight, decoders make four
/// weights of a byte at a time: with constant shifts these loops vectorise.
#[inline(always)]
fn each(of: impl Fn(usize) -> f32) -> [f32; 4] {
    std::array::from_fn(of)
}

/// The scale of group `g` of Q3_K: nibbles of the first 8 bytes, the two bits above them in the last 4.
#[inline(always)]
fn q3_scale(packed: &[u8; 12], g: usize) -> f32 {
    let low = packed[g % 8] >> (4 * (g / 8)) & 15;
    let high = packed[8 + g % 4] >> (2 * (g / 4)) & 3;
    f32::from((low | high << 4) as i8 - 32)
}

/// Scale and minimum of group `g` of Q4_K and Q5_K, six bits each. The first four are the lower six bits of bytes 0 to 3
/// and 4 to 7; of the others the lower four bits are the nibbles of bytes 8 to 11, and the upper two those that were left.
#[inline(always)]
fn scale_and_min(packed: &[u8; 12], g: usize) -> (f32, f32) {
    let (scale, min) = if g < 4 {
        (packed[g] & 63, packed[g + 4] & 63)
    } else {
        let both = packed[g + 4];
        (both & 15 | packed[g - 4] >> 6 << 4, both >> 4 | packed[g] >> 6 << 4)
    };
    (f32::from(scale), f32::from(min))
}

/// The format of its name.
#[allow(non_camel_case_types)]
#[derive(Debug, Clone, Copy)]
pub struct Q2_K;

impl Blocks for Q2_K {
    const BLOCK: Block = Block::Q2_K;
    const ELEMENTS: usize = 256;
    const BYTES: usize = 16 + 64 + 2 + 2;

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

    fn encode_nearest(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
        k_encode::q2(x, out)
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

    #[inline(always)]
    fn decode(block: &[u8], y: &mut [f32]) {
        let (mut high, qs): ([u8; 32], &[u8; 64]) = (*part(block, 0), part(block, 32));
        let scales: &[u8; 12] = part(block, 96);
        let d = half(block, 108);
        let y: &mut [f32; 256] = whole(y);
        let weight = |dl: f32, low: u8, high: u8| dl * f32::from((low | high << 2) as i8 - 4);
        for (half, y) in y.as_chunks_mut::<128>().0.iter_mut().enumerate() {
            for side in 0..2 {
                let dl = each(|j| d * q3_scale(scales, 8 * half + 2 * j + side));
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

    fn encode_nearest(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
        k_encode::q3(x, out)
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

    #[inline(always)]
    fn decode(block: &[u8], y: &mut [f32]) {
        let (d, dmin) = (half(block, 0), half(block, 2));
        let scales: &[u8; 12] = part(block, 4);
        let y: &mut [f32; 256] = whole(y);
        for (g, y) in y.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (scale, min) = scale_and_min(scales, g);
            let (dl, ml) = (d * scale, dmin * min);
            let qs: &[u8; 32] = part(block, 16 + 32 * (g / 2));
            let shift = 4 * (g % 2);
            for (y, &q) in y.iter_mut().zip(qs) {
                *y = dl * f32::from(q >> shift & 15) - ml;
            }
        }
    }

    fn encode_nearest(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
        k_encode::q4(x, out)
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

    #[inline(always)]
    fn decode(block: &[u8], y: &mut [f32]) {
        let (d, dmin) = (half(block, 0), half(block, 2));
        let (scales, fifth): (&[u8; 12], &[u8; 32]) = (part(block, 4), part(block, 16));
        let y: &mut [f32; 256] = whole(y);
        for (g, y) in y.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (scale, min) = scale_and_min(scales, g);
            let (dl, ml) = (d * scale, dmin * min);
            let qs: &[u8; 32] = part(block, 48 + 32 * (g / 2));
            let shift = 4 * (g % 2);
            for ((y, &q), &fifth) in y.iter_mut().zip(qs).zip(fifth) {
                *y = dl * f32::from(q >> shift & 15 | (fifth >> g & 1) << 4) - ml;
            }
        }
    }

    fn encode_nearest(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
        k_encode::q5(x, out)
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

    fn encode_nearest(x: &[f32], out: &mut [u8]) -> Result<(), Refusal> {
        k_encode::q6(x, out)
    }
}
