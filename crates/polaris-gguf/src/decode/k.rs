//! The K family: 256 weights in groups of 16 or 32, whose scales (and minima) are small integers, multiplied by one
//! `d` (and `dmin`) of the block.
//!
//! | type | bytes of a block | weight |
//! |---|---|---|
//! | Q2_K | 16 scales and minima, 64 of 2 bits, d, dmin | (d·sc)q − dmin·m, groups of 16 |
//! | Q3_K | 32 of high bits, 64 of 2 bits, 12 of scales, d | (d(sc − 32))(q − 4 unless the high bit is set), groups of 16 |
//! | Q4_K | d, dmin, 12 of scales and minima, 128 of nibbles | (d·sc)q − dmin·m, groups of 32 |
//! | Q5_K | as Q4_K with 32 of fifth bits before the nibbles | (d·sc)q − dmin·m, groups of 32 |
//! | Q6_K | 128 of low nibbles, 64 of high 2 bits, 16 signed scales, d | (d·sc)(q − 32), groups of 16 |

use super::{half, nibble};

/// Two bits of weight `i` out of 64 bytes: each 128 weights take 32 bytes, from the lowest bits up.
fn two_bits(bytes: &[u8], i: usize) -> u8 {
    let (part, rest) = (i / 128, i % 128);
    bytes[32 * part + rest % 32] >> (2 * (rest / 32)) & 3
}

/// The nibble of weight `i` out of 128 bytes: each 64 weights take 32 bytes, the lower nibbles first.
fn four_bits(bytes: &[u8], i: usize) -> u8 {
    let (part, rest) = (i / 64, i % 64);
    nibble(bytes[32 * part + rest % 32], rest / 32)
}

pub fn q2(block: &[u8], y: &mut [f32]) {
    let (scales, qs) = (&block[..16], &block[16..80]);
    let (d, dmin) = (half(block, 80), half(block, 82));
    for (i, y) in y.iter_mut().enumerate() {
        let scale = scales[i / 16];
        let (dl, ml) = (d * f32::from(nibble(scale, 0)), dmin * f32::from(nibble(scale, 1)));
        *y = dl * f32::from(two_bits(qs, i)) - ml;
    }
}

/// The scale of group `g`: nibbles of the first 8 bytes, the two bits above them in the last 4.
fn q3_scale(packed: &[u8], g: usize) -> i8 {
    let low = nibble(packed[g % 8], g / 8);
    let high = packed[8 + g % 4] >> (2 * (g / 4)) & 3;
    (low | high << 4) as i8 - 32
}

pub fn q3(block: &[u8], y: &mut [f32]) {
    let (mask, qs, scales) = (&block[..32], &block[32..96], &block[96..108]);
    let d = half(block, 108);
    for (i, y) in y.iter_mut().enumerate() {
        let dl = d * f32::from(q3_scale(scales, i / 16));
        let is_high = mask[i % 32] >> (i / 32) & 1 == 1;
        let q = two_bits(qs, i) as i8 - if is_high { 0 } else { 4 };
        *y = dl * f32::from(q);
    }
}

/// Scale and minimum of group `g`, six bits each. The first four are the lower six bits of bytes 0 to 3 and 4 to 7; of
/// the others the lower four bits are the nibbles of bytes 8 to 11, and the upper two those that were left.
fn scale_and_min(packed: &[u8], g: usize) -> (u8, u8) {
    if g < 4 {
        (packed[g] & 63, packed[g + 4] & 63)
    } else {
        let both = packed[g + 4];
        (nibble(both, 0) | packed[g - 4] >> 6 << 4, nibble(both, 1) | packed[g] >> 6 << 4)
    }
}

pub fn q4(block: &[u8], y: &mut [f32]) {
    let (d, dmin) = (half(block, 0), half(block, 2));
    let (scales, qs) = (&block[4..16], &block[16..]);
    for (i, y) in y.iter_mut().enumerate() {
        let (scale, min) = scale_and_min(scales, i / 32);
        let (dl, ml) = (d * f32::from(scale), dmin * f32::from(min));
        *y = dl * f32::from(four_bits(qs, i)) - ml;
    }
}

pub fn q5(block: &[u8], y: &mut [f32]) {
    let (d, dmin) = (half(block, 0), half(block, 2));
    let (scales, qh, qs) = (&block[4..16], &block[16..48], &block[48..]);
    for (i, y) in y.iter_mut().enumerate() {
        let (scale, min) = scale_and_min(scales, i / 32);
        let (dl, ml) = (d * f32::from(scale), dmin * f32::from(min));
        let fifth = qh[i % 32] >> (i / 32) & 1;
        *y = dl * f32::from(four_bits(qs, i) | fifth << 4) - ml;
    }
}

pub fn q6(block: &[u8], y: &mut [f32]) {
    let (ql, qh, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let d = half(block, 208);
    for (i, y) in y.iter_mut().enumerate() {
        let dl = d * f32::from(scales[i / 16] as i8);
        // Each 128 weights: 64 bytes of nibbles, the lower ones first.
        let (part, rest) = (i / 128, i % 128);
        let low = nibble(ql[64 * part + rest % 64], rest / 64);
        let q = (low | two_bits(qh, i) << 4) as i8 - 32;
        *y = dl * f32::from(q);
    }
}
