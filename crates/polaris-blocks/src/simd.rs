//! The vectors that levels are unpacked with.

use polaris_core::f16;

/// The vectors of an instruction set. A value of it is the proof that the processor has the instructions. Methods are
/// always inlined.
pub trait Simd: Copy {
    /// 32 bytes.
    type Bytes: Copy;
    /// 16 numbers.
    type Floats: Copy;

    /// 32 bytes.
    fn load(self, bytes: &[u8; 32]) -> Self::Bytes;
    /// The lower nibbles of 16 bytes, then the upper ones.
    fn nibbles(self, bytes: &[u8; 16]) -> Self::Bytes;
    /// 16 in each byte whose bit is set.
    fn fifths(self, bits: [u8; 4]) -> Self::Bytes;
    /// Some bits of each byte, moved to the right.
    fn bits(self, bytes: Self::Bytes, shift: u32, mask: u8) -> Self::Bytes;
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
    /// Numbers of signed bytes, each twice.
    fn twice(self, bytes: u64) -> Self::Floats;
    /// Numbers in half precision, each twice.
    fn halves_twice(self, halves: [u16; 8]) -> Self::Floats;
    /// Numbers, each twice.
    fn floats_twice(self, floats: [f32; 8]) -> Self::Floats;
    /// The products with a number.
    fn times(self, floats: Self::Floats, factor: f32) -> Self::Floats;
}

/// Plain code, for any processor.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

impl Simd for Plain {
    type Bytes = [u8; 32];
    type Floats = [f32; 16];

    #[inline(always)]
    fn load(self, bytes: &[u8; 32]) -> [u8; 32] {
        *bytes
    }

    #[inline(always)]
    fn nibbles(self, bytes: &[u8; 16]) -> [u8; 32] {
        std::array::from_fn(|i| if i < 16 { bytes[i] & 15 } else { bytes[i - 16] >> 4 })
    }

    #[inline(always)]
    fn fifths(self, bits: [u8; 4]) -> [u8; 32] {
        std::array::from_fn(|i| (bits[i / 8] >> (i % 8) & 1) << 4)
    }

    #[inline(always)]
    fn bits(self, bytes: [u8; 32], shift: u32, mask: u8) -> [u8; 32] {
        bytes.map(|byte| byte >> shift & mask)
    }

    #[inline(always)]
    fn raised(self, bytes: [u8; 32], shift: u32) -> [u8; 32] {
        bytes.map(|byte| byte << shift)
    }

    #[inline(always)]
    fn or(self, a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
        std::array::from_fn(|i| a[i] | b[i])
    }

    #[inline(always)]
    fn without_sign(self, bytes: [u8; 32]) -> [u8; 32] {
        bytes.map(|byte| byte ^ 0x80)
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16], places: [u8; 32]) -> [u8; 32] {
        places.map(|place| table[usize::from(place & 15)])
    }

    #[inline(always)]
    fn floats(self, bytes: u128) -> [f32; 16] {
        bytes.to_le_bytes().map(|byte| f32::from(byte as i8))
    }

    #[inline(always)]
    fn twice(self, bytes: u64) -> [f32; 16] {
        self.floats_twice(bytes.to_le_bytes().map(|byte| f32::from(byte as i8)))
    }

    #[inline(always)]
    fn halves_twice(self, halves: [u16; 8]) -> [f32; 16] {
        self.floats_twice(halves.map(|half| f16::from_bits(half).to_f32_const()))
    }

    #[inline(always)]
    fn floats_twice(self, floats: [f32; 8]) -> [f32; 16] {
        std::array::from_fn(|i| floats[i / 2])
    }

    #[inline(always)]
    fn times(self, floats: [f32; 16], factor: f32) -> [f32; 16] {
        floats.map(|float| float * factor)
    }
}
