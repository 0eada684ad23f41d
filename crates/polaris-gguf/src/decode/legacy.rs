//! The legacy types: 32 weights, evenly spaced, with one scale `d` and in the `_1` types a minimum `m`.
//!
//! | type | bytes of a block | weight |
//! |---|---|---|
//! | Q4_0 | d, 16 of nibbles | d(q − 8) |
//! | Q4_1 | d, m, 16 of nibbles | dq + m |
//! | Q5_0 | d, 4 of fifth bits, 16 of nibbles | d(q − 16) |
//! | Q5_1 | d, m, 4 of fifth bits, 16 of nibbles | dq + m |
//! | Q8_0 | d, 32 signed | dq |
//!
//! The lower nibble of byte j is weight j, the upper one weight j + 16; bit j of the fifth bits belongs to weight j.

use super::{half, nibble};

/// Weight `j` of 16 bytes of nibbles.
fn low(nibbles: &[u8], j: usize) -> u8 {
    nibble(nibbles[j % 16], j / 16)
}

/// Bit `j` of 4 bytes, as the fifth bit of a weight.
fn fifth(bits: &[u8], j: usize) -> u8 {
    (bits[j / 8] >> (j % 8) & 1) << 4
}

pub fn q4_0(block: &[u8], y: &mut [f32]) {
    let d = half(block, 0);
    for (j, y) in y.iter_mut().enumerate() {
        *y = d * (f32::from(low(&block[2..], j)) - 8.0);
    }
}

pub fn q4_1(block: &[u8], y: &mut [f32]) {
    let (d, m) = (half(block, 0), half(block, 2));
    for (j, y) in y.iter_mut().enumerate() {
        *y = d * f32::from(low(&block[4..], j)) + m;
    }
}

pub fn q5_0(block: &[u8], y: &mut [f32]) {
    let d = half(block, 0);
    for (j, y) in y.iter_mut().enumerate() {
        let q = low(&block[6..], j) | fifth(&block[2..], j);
        *y = d * (f32::from(q) - 16.0);
    }
}

pub fn q5_1(block: &[u8], y: &mut [f32]) {
    let (d, m) = (half(block, 0), half(block, 2));
    for (j, y) in y.iter_mut().enumerate() {
        let q = low(&block[8..], j) | fifth(&block[4..], j);
        *y = d * f32::from(q) + m;
    }
}

pub fn q8_0(block: &[u8], y: &mut [f32]) {
    let d = half(block, 0);
    for (y, &q) in y.iter_mut().zip(&block[2..]) {
        *y = d * f32::from(q as i8);
    }
}
