//! From sums to bytes.

use polaris_core::DType;

use super::flip;

/// Adding this to a number below 2^22 rounds it to a whole one, ties to even, which then is in the last
/// bits: no instruction beyond those of the baseline, and the same on every level.
const ROUNDING: f32 = 12_582_912.0;

/// Results between these, as distances from the zero point, and the zero point itself.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    low: f32,
    high: f32,
    /// The zero point, less what the bits of `ROUNDING` are.
    offset: i32,
}

impl Limits {
    /// Of a type with a zero point; `None` if that is no byte of the type.
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

    /// A sum times its factor, as a byte. What is no number becomes the lowest.
    #[inline(always)]
    pub fn byte(&self, sum: i32, factor: f32) -> u8 {
        let value = sum as f32 * factor;
        let value = if value > self.low { value } else { self.low };
        let value = if value < self.high { value } else { self.high };
        ((value + ROUNDING).to_bits() as i32).wrapping_add(self.offset) as u8
    }
}

/// Stores the bytes of sums of adjacent channels.
///
/// # Safety
/// `to` must be valid for writing as many bytes as there are sums, `stride` apart.
#[inline(always)]
pub unsafe fn store(sums: &[i32], factors: &[f32], limits: Limits, to: *mut u8, stride: usize) {
    for (at, (&sum, &factor)) in sums.iter().zip(factors).enumerate() {
        // SAFETY: by the caller's word.
        unsafe { *to.add(at * stride) = limits.byte(sum, factor) };
    }
}

/// As `store` for `N` adjacent bytes, which become whole vectors.
///
/// # Safety
/// `to` must be valid for writing `N` bytes.
#[inline(always)]
pub unsafe fn store_all<const N: usize>(
    sums: &[i32; N],
    factors: &[f32; N],
    limits: Limits,
    to: *mut u8,
) {
    let bytes: [u8; N] = std::array::from_fn(|at| limits.byte(sums[at], factors[at]));
    // SAFETY: by the caller's word.
    unsafe { to.cast::<[u8; N]>().write_unaligned(bytes) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_goes_to_even_and_saturates() {
        let limits = Limits::new((DType::U8, 10), false).unwrap();
        let cases = [(1, 10), (3, 12), (5, 12), (-1, 10), (-3, 8), (-99, 0), (999, 255)];
        for (sum, expected) in cases {
            assert_eq!(limits.byte(sum, 0.5), expected, "{sum}");
        }
        let signed = Limits::new((DType::I8, -3), true).unwrap();
        let cases = [(-50, -3), (7, 1), (i32::MAX, 127), (i32::MIN, -3)];
        for (sum, expected) in cases {
            assert_eq!(signed.byte(sum, 0.5) as i8, expected, "{sum}");
        }
        assert!(Limits::new((DType::I8, 128), false).is_none());
        assert!(Limits::new((DType::U8, -1), false).is_none());
    }
}
