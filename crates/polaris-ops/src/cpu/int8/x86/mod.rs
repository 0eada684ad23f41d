//! The vectors of AVX2, and of AVX-512 with VNNI: what both share.

mod avx2;
mod vnni;

pub(super) use avx2::Avx2;
pub(super) use vnni::Vnni;

use std::arch::x86_64::*;

/// Sixteen bytes in a register.
#[inline(always)]
fn sixteen(bytes: u128) -> __m128i {
    // SAFETY: every processor of this architecture has SSE2, here and below.
    unsafe { _mm_set_epi64x((bytes >> 64) as i64, bytes as i64) }
}

/// Eight bytes in a register, each twice.
#[inline(always)]
fn eight_twice(bytes: u64) -> __m128i {
    // SAFETY: see above.
    unsafe {
        let bytes = _mm_cvtsi64_si128(bytes as i64);
        _mm_unpacklo_epi8(bytes, bytes)
    }
}

/// Numbers of two bytes in a register. Through memory they would be waited for.
#[inline(always)]
fn eight_halves(halves: [u16; 8]) -> __m128i {
    let [a, b, c, d, e, f, g, h] = halves;
    // SAFETY: see above.
    unsafe {
        _mm_setr_epi16(
            a as i16, b as i16, c as i16, d as i16, e as i16, f as i16, g as i16, h as i16,
        )
    }
}

/// Bytes are handled alike: in 256 bits.
macro_rules! bytes {
    () => {
        type Bytes = __m256i;

        #[inline(always)]
        fn load(self, bytes: &[u8; 32]) -> __m256i {
            // SAFETY: here and below, `self` proves that the instructions exist.
            unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
        }

        #[inline(always)]
        fn nibbles(self, bytes: &[u8; 16]) -> __m256i {
            // SAFETY: see `load`.
            unsafe {
                let low = _mm_loadu_si128(bytes.as_ptr().cast());
                let both = _mm256_set_m128i(_mm_srli_epi16::<4>(low), low);
                _mm256_and_si256(both, _mm256_set1_epi8(15))
            }
        }

        #[inline(always)]
        fn bits(self, bytes: __m256i, shift: u32, mask: u8) -> __m256i {
            // SAFETY: see `load`.
            unsafe {
                let moved = _mm256_srl_epi16(bytes, _mm_cvtsi32_si128(shift as i32));
                _mm256_and_si256(moved, _mm256_set1_epi8(mask as i8))
            }
        }

        #[inline(always)]
        fn raised(self, bytes: __m256i, shift: u32) -> __m256i {
            // SAFETY: see `load`.
            unsafe { _mm256_sll_epi16(bytes, _mm_cvtsi32_si128(shift as i32)) }
        }

        #[inline(always)]
        fn or(self, a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: see `load`.
            unsafe { _mm256_or_si256(a, b) }
        }

        #[inline(always)]
        fn without_sign(self, bytes: __m256i) -> __m256i {
            // SAFETY: see `load`.
            unsafe { _mm256_xor_si256(bytes, _mm256_set1_epi8(-128)) }
        }

        #[inline(always)]
        fn look_up(self, table: &[u8; 16], places: __m256i) -> __m256i {
            // SAFETY: see `load`.
            unsafe {
                let table = _mm_loadu_si128(table.as_ptr().cast());
                _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), places)
            }
        }
    };
}

use bytes;
