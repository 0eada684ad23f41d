//! Types whose nibbles choose from a table of sixteen values.
//!
//! | type | bytes of a block | weight |
//! |---|---|---|
//! | IQ4_NL | d, 16 of nibbles | d·table, 32 weights |
//! | IQ4_XS | d, 2 of high and 4 of low bits of scales, 128 of nibbles | (d(sc − 32))·table, 8 groups of 32 |
//! | MXFP4 | exponent e, 16 of nibbles | 2^(e − 128)·table, 32 weights |
//!
//! Nibbles lie as in Q4_0: the lower one of byte j is weight j of its 32, the upper one weight j + 16.

use super::{half, nibble};

/// llama.cpp's values for weights that are denser around zero.
const NON_LINEAR: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the values of E2M1 (OCP Microscaling Formats 1.0), so that they are integers. The last eight are negative;
/// minus zero counts as zero.
pub(crate) const MXFP4_VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

pub fn iq4_nl(block: &[u8], y: &mut [f32]) {
    let d = half(block, 0);
    for (j, y) in y.iter_mut().enumerate() {
        let q = nibble(block[2 + j % 16], j / 16);
        *y = d * f32::from(NON_LINEAR[usize::from(q)]);
    }
}

pub fn iq4_xs(block: &[u8], y: &mut [f32]) {
    let d = half(block, 0);
    let high = u16::from_le_bytes([block[2], block[3]]);
    let (low, qs) = (&block[4..8], &block[8..]);
    for (i, y) in y.iter_mut().enumerate() {
        let (group, j) = (i / 32, i % 32);
        let scale = nibble(low[group / 2], group % 2) | ((high >> (2 * group) & 3) as u8) << 4;
        let dl = d * f32::from(scale as i8 - 32);
        let q = nibble(qs[16 * group + j % 16], j / 16);
        *y = dl * f32::from(NON_LINEAR[usize::from(q)]);
    }
}

/// 2^(e − 128): half of what the exponent says, since the table is doubled. The smallest two are subnormal.
pub(crate) fn mxfp4_scale(e: u8) -> f32 {
    f32::from_bits(match e {
        0 | 1 => 0x0020_0000 << e,
        _ => (u32::from(e) - 1) << 23,
    })
}

pub fn mxfp4(block: &[u8], y: &mut [f32]) {
    let d = mxfp4_scale(block[0]);
    for (j, y) in y.iter_mut().enumerate() {
        let q = nibble(block[1 + j % 16], j / 16);
        *y = d * f32::from(MXFP4_VALUES[usize::from(q)]);
    }
}
