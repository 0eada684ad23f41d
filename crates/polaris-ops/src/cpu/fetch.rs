//! Weights of models that fit no cache: each is needed once for a token.

/// Asks for what lies there, if anything does, to be brought into the first cache alone, so that nothing is pushed out of the
/// others for it.
#[inline(always)]
pub(crate) fn fetch_once(from: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this architecture has the instruction, which touches nothing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_NTA, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_NTA>(from.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = from;
}

/// Asks for what lies there, if anything does, to be brought into the second cache: it is needed after more than the first
/// one holds.
#[inline(always)]
pub(crate) fn fetch_next(from: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: see above.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(from.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = from;
}
