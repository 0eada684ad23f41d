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
