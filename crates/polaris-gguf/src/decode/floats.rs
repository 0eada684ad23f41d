//! Types without quantisation: a block is one element.

use polaris_core::f16;

/// Copied bit by bit, NaNs too.
pub fn f32(block: &[u8], y: &mut [f32]) {
    y[0] = f32::from_bits(u32::from_le_bytes([block[0], block[1], block[2], block[3]]));
}

pub fn f16(block: &[u8], y: &mut [f32]) {
    y[0] = f16::from_le_bytes([block[0], block[1]]).to_f32();
}

/// The upper half of an `f32`, NaNs too.
pub fn bf16(block: &[u8], y: &mut [f32]) {
    y[0] = f32::from_bits(u32::from_le_bytes([0, 0, block[0], block[1]]));
}
