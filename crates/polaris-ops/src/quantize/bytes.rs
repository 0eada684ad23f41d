//! From floats in units of a scale to int8.

use polaris_core::DType;

/// Adding this to a number below 2^22 rounds it to a whole one, ties to even, which then is in the last
/// bits: no instruction beyond those of the baseline, and the same on every level.
const ROUNDING: f32 = 12_582_912.0;

/// What turns bytes of a type into unsigned ones in the same order.
pub const fn flip(dtype: DType) -> u8 {
    match dtype {
        DType::I8 => 0x80,
        _ => 0,
    }
}

/// How numbers in units of a scale become bytes, for loops that do what [`Limits::byte`] does: those below `low` become
/// that, then those above `high` that; then `ROUNDING` is added, and `offset` to the bits, whose last eight are the byte.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub low: f32,
    pub high: f32,
    pub offset: i32,
}

impl Bounds {
    pub const ROUNDING: f32 = ROUNDING;
}

/// Results between these, as distances from the zero point, and the zero point itself.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    low: f32,
    high: f32,
    /// The zero point, less what the bits of `ROUNDING` are.
    offset: i32,
}

impl Limits {
    /// Of a type with a zero point; `None` if that is not a byte of the type.
    pub fn new((dtype, zero): (DType, i32), relu: bool) -> Option<Self> {
        let least = -i32::from(flip(dtype));
        let most = least + 255;
        if !(least..=most).contains(&zero) {
            return None;
        }
        let low = if relu { 0 } else { least - zero };
        let offset = zero - ROUNDING.to_bits() as i32;
        Some(Self { low: low as f32, high: (most - zero) as f32, offset })
    }

    /// What loops with vectors need.
    pub fn bounds(&self) -> Bounds {
        Bounds { low: self.low, high: self.high, offset: self.offset }
    }

    /// The least and the greatest distance from the zero point.
    pub fn distances(&self) -> [f32; 2] {
        [self.low, self.high]
    }

    /// A number in units of the scale, as the whole number that its byte is.
    pub fn whole(&self, value: f32) -> i32 {
        let value = if value > self.low { value } else { self.low };
        let value = if value < self.high { value } else { self.high };
        (value.round_ties_even() as i32) + self.offset.wrapping_add(ROUNDING.to_bits() as i32)
    }

    /// A number in units of the scale, as a byte. NaN becomes the lowest.
    #[inline(always)]
    pub fn byte(&self, value: f32) -> u8 {
        let value = if value > self.low { value } else { self.low };
        let value = if value < self.high { value } else { self.high };
        ((value + ROUNDING).to_bits() as i32).wrapping_add(self.offset) as u8
    }
}
