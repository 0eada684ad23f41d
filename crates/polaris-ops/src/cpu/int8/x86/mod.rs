//! The vectors of AVX2, and of AVX-512 with VNNI: what both share.

mod avx2;
mod products512;
mod vnni;

pub(super) use avx2::Avx2;
pub(super) use products512::Products512;
pub(super) use vnni::Vnni;

use std::arch::x86_64::*;

/// Sixteen bytes in a register.
#[inline(always)]
fn sixteen(bytes: u128) -> __m128i {
    // SAFETY: every processor of this architecture has SSE2.
    unsafe { _mm_set_epi64x((bytes >> 64) as i64, bytes as i64) }
}
