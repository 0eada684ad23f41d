//! Parts of blocks: numbers in half precision, fields of bytes.

use polaris_core::f16;

use crate::Refusal;

/// Some bytes of a block, as many as the type says.
#[inline(always)]
pub(crate) fn part<const N: usize>(block: &[u8], at: usize) -> &[u8; N] {
    block[at..].first_chunk().expect("a block should be whole")
}

/// The elements of a block.
#[inline(always)]
pub(crate) fn whole<const N: usize>(elements: &mut [f32]) -> &mut [f32; N] {
    elements.first_chunk_mut().expect("there should be room for a block")
}

/// The half-precision number at a position of a block. Without calls or branches, so that decoders inline as a whole:
/// the bits are those of an `f32` that is 2^112 times too small.
#[inline(always)]
pub(crate) fn half(block: &[u8], at: usize) -> f32 {
    let bits = u32::from(u16::from_le_bytes(*part(block, at)));
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits(0x7780_0000);
    // Infinities and NaNs keep the largest exponent: with one more it reaches the sign.
    let is_special = ((bits & 0x7c00) + 0x0400) >> 15;
    let special = is_special.wrapping_neg() & 0x7f80_0000;
    f32::from_bits((bits & 0x8000) << 16 | magnitude.to_bits() | special)
}

/// Writes a scale or minimum in half precision, and returns what it was rounded to.
#[inline(always)]
pub(crate) fn write_half(
    block: &mut [u8],
    at: usize,
    value: f32,
    what: &'static str,
) -> Result<f32, Refusal> {
    let half = f16::from_f32(value);
    if !half.is_finite() {
        return Err(Refusal { what, value });
    }
    block[at..at + 2].copy_from_slice(&half.to_le_bytes());
    Ok(half.to_f32())
}

/// What to multiply with instead of dividing by a scale; zero for a scale of zero.
#[inline(always)]
pub(crate) fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// The first of the weights with the largest magnitude.
#[inline(always)]
pub(crate) fn extreme(x: &[f32]) -> f32 {
    x.iter().fold(x[0], |most, &x| if x.abs() > most.abs() { x } else { most })
}

/// The smallest and the largest weight.
pub(crate) fn bounds(x: &[f32]) -> (f32, f32) {
    let min = x.iter().fold(x[0], |min, &x| if x < min { x } else { min });
    let max = x.iter().fold(x[0], |max, &x| if x > max { x } else { max });
    (min, max)
}

/// The nearest whole number between two limits; 0 for what is no number.
pub(crate) fn nearest(value: f32, low: i32, high: i32) -> i32 {
    (value.round() as i32).clamp(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_what_it_is() {
        for bits in 0..=u16::MAX {
            let (found, expected) = (half(&bits.to_le_bytes(), 0), f16::from_bits(bits).to_f32());
            let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(same, "{bits:#06x}: {found:e} instead of {expected:e}");
        }
    }
}
