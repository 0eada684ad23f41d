//! The vectors that levels are unpacked with.

use crate::bits::half;

/// The vectors of an instruction set. A value of it is the proof that the processor has the instructions. Methods are
/// always inlined.
pub trait Simd: Copy {
    /// 64 bytes: two groups of 32.
    type Bytes: Copy;
    /// 16 numbers.
    type Floats: Copy;

    /// 64 bytes.
    fn load(self, bytes: &[u8; 64]) -> Self::Bytes;
    /// 32 bytes and 32 others.
    fn pair(self, a: &[u8; 32], b: &[u8; 32]) -> Self::Bytes;
    /// 32 bytes, twice.
    fn both(self, bytes: &[u8; 32]) -> Self::Bytes;
    /// The lower nibbles of 16 bytes, then the upper ones; the same of 16 others.
    fn nibbles(self, a: &[u8; 16], b: &[u8; 16]) -> Self::Bytes;
    /// 16 in each byte whose bit is set, of 32 bits and 32 others.
    fn fifths(self, a: [u8; 4], b: [u8; 4]) -> Self::Bytes;
    /// Some bits of each byte, moved to the right: the first 32 and the last 32 each by a number.
    fn bits(self, bytes: Self::Bytes, shifts: [u32; 2], mask: u8) -> Self::Bytes;
    /// The bits of each byte, moved to the left; they must stay inside.
    fn raised(self, bytes: Self::Bytes, shift: u32) -> Self::Bytes;
    /// The bits of both.
    fn or(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Each byte raised by 128, so that it has no sign.
    fn without_sign(self, bytes: Self::Bytes) -> Self::Bytes;
    /// What a table has in the places that bytes name, which must be below 16.
    fn look_up(self, table: &[u8; 16], places: Self::Bytes) -> Self::Bytes;

    /// Numbers of signed bytes, the first lowest.
    fn floats(self, bytes: u128) -> Self::Floats;
    /// Numbers, and the same again.
    fn repeated(self, floats: [f32; 8]) -> Self::Floats;
    /// The numbers in half precision at one place of eight blocks of so many bytes, then those at another.
    fn halves<const BYTES: usize>(self, blocks: &[u8], at: [usize; 2]) -> Self::Floats;
    /// The products with a number.
    fn times(self, floats: Self::Floats, factor: f32) -> Self::Floats;
    /// The products of the first eight with one number, and of the others with another.
    fn times_each(self, floats: Self::Floats, factors: [f32; 2]) -> Self::Floats;
    /// The products with a number in half precision.
    fn times_half(self, floats: Self::Floats, factor: &[u8; 2]) -> Self::Floats;
    /// The products of the first eight with a number in half precision, and of the others with the one behind it.
    fn times_halves(self, floats: Self::Floats, factors: &[u8; 4]) -> Self::Floats;
}

/// Plain code, for any processor.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

impl Simd for Plain {
    type Bytes = [u8; 64];
    type Floats = [f32; 16];

    #[inline(always)]
    fn load(self, bytes: &[u8; 64]) -> [u8; 64] {
        *bytes
    }

    #[inline(always)]
    fn pair(self, a: &[u8; 32], b: &[u8; 32]) -> [u8; 64] {
        std::array::from_fn(|i| if i < 32 { a[i] } else { b[i - 32] })
    }

    #[inline(always)]
    fn both(self, bytes: &[u8; 32]) -> [u8; 64] {
        self.pair(bytes, bytes)
    }

    #[inline(always)]
    fn nibbles(self, a: &[u8; 16], b: &[u8; 16]) -> [u8; 64] {
        let nibble = |i: usize, bytes: &[u8; 16]| match i % 32 {
            0..16 => bytes[i % 16] & 15,
            _ => bytes[i % 16] >> 4,
        };
        std::array::from_fn(|i| nibble(i, if i < 32 { a } else { b }))
    }

    #[inline(always)]
    fn fifths(self, a: [u8; 4], b: [u8; 4]) -> [u8; 64] {
        let bit = |i: usize, bits: [u8; 4]| (bits[i % 32 / 8] >> (i % 8) & 1) << 4;
        std::array::from_fn(|i| bit(i, if i < 32 { a } else { b }))
    }

    #[inline(always)]
    fn bits(self, bytes: [u8; 64], shifts: [u32; 2], mask: u8) -> [u8; 64] {
        std::array::from_fn(|i| bytes[i] >> shifts[i / 32] & mask)
    }

    #[inline(always)]
    fn raised(self, bytes: [u8; 64], shift: u32) -> [u8; 64] {
        bytes.map(|byte| byte << shift)
    }

    #[inline(always)]
    fn or(self, a: [u8; 64], b: [u8; 64]) -> [u8; 64] {
        std::array::from_fn(|i| a[i] | b[i])
    }

    #[inline(always)]
    fn without_sign(self, bytes: [u8; 64]) -> [u8; 64] {
        bytes.map(|byte| byte ^ 0x80)
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16], places: [u8; 64]) -> [u8; 64] {
        places.map(|place| table[usize::from(place & 15)])
    }

    #[inline(always)]
    fn floats(self, bytes: u128) -> [f32; 16] {
        bytes.to_le_bytes().map(|byte| f32::from(byte as i8))
    }

    #[inline(always)]
    fn repeated(self, floats: [f32; 8]) -> [f32; 16] {
        std::array::from_fn(|i| floats[i % 8])
    }

    #[inline(always)]
    fn halves<const BYTES: usize>(self, blocks: &[u8], at: [usize; 2]) -> [f32; 16] {
        std::array::from_fn(|i| half(blocks, i % 8 * BYTES + at[i / 8]))
    }

    #[inline(always)]
    fn times(self, floats: [f32; 16], factor: f32) -> [f32; 16] {
        floats.map(|float| float * factor)
    }

    #[inline(always)]
    fn times_each(self, floats: [f32; 16], factors: [f32; 2]) -> [f32; 16] {
        std::array::from_fn(|i| floats[i] * factors[i / 8])
    }

    #[inline(always)]
    fn times_half(self, floats: [f32; 16], factor: &[u8; 2]) -> [f32; 16] {
        self.times(floats, half(factor, 0))
    }

    #[inline(always)]
    fn times_halves(self, floats: [f32; 16], factors: &[u8; 4]) -> [f32; 16] {
        self.times_each(floats, [half(factors, 0), half(factors, 2)])
    }
}
