//! Vectors of 512 bits, and products of four bytes.

use std::arch::x86_64::*;

use polaris_blocks::{Levels, Simd};

use super::super::vectors::{GROUP, MOST, Part, ROWS, Rounded, Vectors};
use super::{bytes, eight_halves, eight_twice, sixteen};

/// 512-bit vectors with products of four bytes. A value is the proof that the processor has AVX-512 (F, BW, VL, DQ, VNNI)
/// and what [`Avx2`] needs.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Vnni(());

impl Vnni {
    /// # Safety
    /// The processor must have the instructions.
    #[inline(always)]
    pub unsafe fn new() -> Self {
        Self(())
    }
}

impl Simd for Vnni {
    bytes!();
    type Floats = __m512;

    #[inline(always)]
    fn fifths(self, bits: [u8; 4]) -> __m256i {
        // SAFETY: see `load`.
        unsafe { _mm256_maskz_mov_epi8(u32::from_le_bytes(bits), _mm256_set1_epi8(16)) }
    }

    #[inline(always)]
    fn floats(self, bytes: u128) -> __m512 {
        // SAFETY: see `load`.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sixteen(bytes))) }
    }

    #[inline(always)]
    fn twice(self, bytes: u64) -> __m512 {
        // SAFETY: see `load`.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(eight_twice(bytes))) }
    }

    #[inline(always)]
    fn halves_twice(self, halves: [u16; 8]) -> __m512 {
        // SAFETY: see `load`.
        unsafe { twice_wide(_mm256_cvtph_ps(eight_halves(halves))) }
    }

    #[inline(always)]
    fn floats_twice(self, floats: [f32; 8]) -> __m512 {
        // SAFETY: see `load`.
        unsafe { twice_wide(_mm256_loadu_ps(floats.as_ptr())) }
    }

    #[inline(always)]
    fn times(self, floats: __m512, factor: f32) -> __m512 {
        // SAFETY: see `load`.
        unsafe { _mm512_mul_ps(floats, _mm512_set1_ps(factor)) }
    }
}

/// Each number twice.
#[inline(always)]
unsafe fn twice_wide(floats: __m256) -> __m512 {
    // SAFETY: by the caller's word, these instructions exist.
    unsafe {
        let lanes = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
        _mm512_permutexvar_ps(lanes, _mm512_castps256_ps512(floats))
    }
}

// SAFETY: methods touch what the trait says.
unsafe impl Vectors for Vnni {
    type Sum = [__m512; 2];
    type Counts = __m512i;
    type Reals = __m512;
    const LANES: usize = 16;

    #[inline(always)]
    fn round(self, x: &[f32; GROUP]) -> Rounded {
        // SAFETY: here and below, `self` proves that the instructions exist; pointers are valid by the caller's word.
        unsafe {
            let (a, b) = (_mm512_loadu_ps(x.as_ptr()), _mm512_loadu_ps(x.as_ptr().add(16)));
            let magnitude = |x| _mm512_castps_si512(_mm512_abs_ps(x));
            let most = _mm512_reduce_max_epu32(_mm512_max_epu32(magnitude(a), magnitude(b)));
            let most = f32::from_bits(most);
            let inverse = _mm512_set1_ps(if most > 0.0 { MOST / most } else { 0.0 });
            let a = _mm512_cvtps_epi32(_mm512_mul_ps(a, inverse));
            let b = _mm512_cvtps_epi32(_mm512_mul_ps(b, inverse));
            let mut bytes = [0i8; GROUP];
            _mm_storeu_si128(bytes.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(a));
            _mm_storeu_si128(bytes.as_mut_ptr().add(16).cast(), _mm512_cvtepi32_epi8(b));
            let sums = [_mm512_reduce_add_epi32(a), _mm512_reduce_add_epi32(b)];
            Rounded { bytes, scale: most * (1.0 / MOST), sums }
        }
    }

    #[inline(always)]
    fn prefetch(self, from: *const u8) {
        // SAFETY: every processor of this architecture has the instruction, which touches nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }

    #[inline(always)]
    fn no_sum(self) -> [__m512; 2] {
        // SAFETY: see `round`.
        unsafe { [_mm512_setzero_ps(); 2] }
    }

    #[inline(always)]
    unsafe fn add_chunk<const WIDE: bool>(
        self,
        [mut a, mut b]: [__m512; 2],
        levels: &Levels<Self>,
        part: Part,
    ) -> [__m512; 2] {
        // SAFETY: see `round`.
        unsafe {
            let scales = _mm512_mul_ps(levels.scales, _mm512_loadu_ps(part.scales));
            let count = |quarter: usize| {
                let low = _mm512_castsi256_si512(levels.levels[2 * quarter]);
                let levels = _mm512_inserti64x4::<1>(low, levels.levels[2 * quarter + 1]);
                let bytes = _mm512_loadu_si512(part.bytes.add(64 * quarter).cast());
                let counts = _mm512_dpbusd_epi32(_mm512_setzero_si512(), levels, bytes);
                _mm512_cvtepi32_ps(counts)
            };
            let spread = |quarter: usize| {
                let fours = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
                let lanes = _mm512_add_epi32(fours, _mm512_set1_epi32(4 * quarter as i32));
                _mm512_permutexvar_ps(lanes, scales)
            };
            a = _mm512_fnmadd_ps(levels.minima, _mm512_loadu_ps(part.sums), a);
            b = _mm512_fmadd_ps(count(0), spread(0), b);
            a = _mm512_fmadd_ps(count(1), spread(1), a);
            b = _mm512_fmadd_ps(count(2), spread(2), b);
            a = _mm512_fmadd_ps(count(3), spread(3), a);
            [a, b]
        }
    }

    #[inline(always)]
    fn total(self, [a, b]: [__m512; 2]) -> f32 {
        // SAFETY: see `round`.
        unsafe { _mm512_reduce_add_ps(_mm512_add_ps(a, b)) }
    }

    #[inline(always)]
    unsafe fn store_bytes(self, bytes: __m256i, to: *mut u8) {
        // SAFETY: see `round`.
        unsafe { _mm256_storeu_si256(to.cast(), bytes) }
    }

    #[inline(always)]
    unsafe fn store_floats(self, floats: __m512, to: *mut f32) {
        // SAFETY: see `round`.
        unsafe { _mm512_storeu_ps(to, floats) }
    }

    #[inline(always)]
    fn no_counts(self) -> __m512i {
        // SAFETY: see `round`.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn count<const WIDE: bool>(
        self,
        counts: __m512i,
        levels: *const u8,
        bytes: *const u32,
    ) -> __m512i {
        // SAFETY: see `round`.
        unsafe {
            let levels = _mm512_loadu_si512(levels.cast());
            let bytes = _mm512_set1_epi32(bytes.read_unaligned() as i32);
            _mm512_dpbusd_epi32(counts, levels, bytes)
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

    #[inline(always)]
    unsafe fn transpose(self, from: *const u8, stride: usize, to: *mut u32) {
        // SAFETY: see `round`.
        unsafe {
            let mut rows = [_mm512_setzero_si512(); ROWS];
            for (i, row) in rows.iter_mut().enumerate() {
                *row = _mm512_loadu_si512(from.add(i * stride).cast());
            }
            let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
            // Four rounds, each of which puts the halves of the list between each other.
            for _ in 0..4 {
                let before = rows;
                for (i, row) in rows.iter_mut().enumerate() {
                    let lanes = if i % 2 == 0 { low } else { high };
                    *row = _mm512_permutex2var_epi32(before[i / 2], lanes, before[i / 2 + 8]);
                }
            }
            for (i, &lanes) in rows.iter().enumerate() {
                _mm512_storeu_si512(to.add(i * ROWS).cast(), lanes);
            }
        }
    }
}
