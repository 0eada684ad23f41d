//! Products of panels in vectors of 512 bits, with the products of four bytes or without them.

use std::arch::x86_64::*;

use super::super::products::{Products, pairs_in_16_bits};
use super::super::vectors::ROWS;

/// 512-bit vectors. A value is the proof that the processor has AVX-512 (F, BW), and VNNI if that is said.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Products512<const VNNI: bool>(());

impl<const VNNI: bool> Products512<VNNI> {
    /// # Safety
    /// The processor must have the instructions.
    #[inline(always)]
    pub unsafe fn new() -> Self {
        Self(())
    }
}

/// The products of pairs in 16 bits, where they fit.
#[inline(always)]
unsafe fn pairs(levels: __m512i, bytes: __m512i) -> __m512i {
    // SAFETY: by the caller's word, this instruction exists.
    unsafe { _mm512_maddubs_epi16(levels, bytes) }
}

// SAFETY: methods touch what the trait says.
unsafe impl<const VNNI: bool> Products for Products512<VNNI> {
    type Counts = __m512i;
    type Reals = __m512;
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn counts<const TOKENS: usize, const FOURS: usize, const HIGHEST: u8>(
        self,
        levels: *const u8,
        bytes: *const u32,
    ) -> [__m512i; TOKENS] {
        // SAFETY: here and below, `self` proves that the instructions exist; pointers are valid by the caller's word.
        unsafe {
            let mut counts = [_mm512_setzero_si512(); TOKENS];
            let ones = _mm512_set1_epi16(1);
            // Pairs that are summed before they are widened.
            let short = const { pairs_in_16_bits(HIGHEST) }.min(FOURS);
            let at_once = if VNNI { 1 } else { short.max(1) };
            for first in (0..FOURS).step_by(at_once) {
                let mut sums = [_mm512_setzero_si512(); TOKENS];
                for four in first..first + at_once {
                    let levels = _mm512_loadu_si512(levels.add(four * 4 * ROWS).cast());
                    // What does not fit is halves of the levels, and their last bits.
                    let upper =
                        _mm512_and_si512(_mm512_srli_epi16::<1>(levels), _mm512_set1_epi8(127));
                    let lower = _mm512_and_si512(levels, _mm512_set1_epi8(1));
                    for (token, (count, sum)) in counts.iter_mut().zip(&mut sums).enumerate() {
                        let bytes = bytes.add(four * TOKENS + token).read_unaligned();
                        let bytes = _mm512_set1_epi32(bytes as i32);
                        if VNNI {
                            *count = _mm512_dpbusd_epi32(*count, levels, bytes);
                        } else if short > 0 {
                            *sum = _mm512_add_epi16(*sum, pairs(levels, bytes));
                        } else {
                            let upper =
                                _mm512_madd_epi16(pairs(upper, bytes), _mm512_set1_epi16(2));
                            let lower = _mm512_madd_epi16(pairs(lower, bytes), ones);
                            *count = _mm512_add_epi32(*count, _mm512_add_epi32(upper, lower));
                        }
                    }
                }
                if !VNNI && short > 0 {
                    for (count, sum) in counts.iter_mut().zip(sums) {
                        *count = _mm512_add_epi32(*count, _mm512_madd_epi16(sum, ones));
                    }
                }
            }
            counts
        }
    }

    #[inline(always)]
    fn no_reals(self) -> __m512 {
        // SAFETY: see `round`.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn load_reals(self, from: *const f32) -> __m512 {
        // SAFETY: see `round`.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store_reals(self, reals: __m512, to: *mut f32) {
        // SAFETY: see `round`.
        unsafe { _mm512_storeu_ps(to, reals) }
    }

    #[inline(always)]
    unsafe fn scaled(
        self,
        sum: __m512,
        counts: __m512i,
        factor: *const f32,
        scales: __m512,
        minima: __m512,
        less: *const f32,
    ) -> __m512 {
        // SAFETY: see `round`.
        unsafe {
            let counts = _mm512_mul_ps(_mm512_cvtepi32_ps(counts), _mm512_set1_ps(*factor));
            _mm512_fnmadd_ps(minima, _mm512_set1_ps(*less), _mm512_fmadd_ps(counts, scales, sum))
        }
    }
}
