//! Vectors of 256 bits.

use std::arch::x86_64::*;

use polaris_blocks::{Levels, Simd};

use super::super::vectors::{GROUP, MOST, Part, ROWS, Rounded, Vectors};
use super::{bytes, eight_halves, eight_twice, sixteen};

/// 256-bit vectors. A value is the proof that the processor has AVX2, FMA and F16C.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The processor must have the instructions.
    #[inline(always)]
    pub unsafe fn new() -> Self {
        Self(())
    }
}

impl Simd for Avx2 {
    bytes!();
    type Floats = [__m256; 2];

    #[inline(always)]
    fn fifths(self, bits: [u8; 4]) -> __m256i {
        // SAFETY: see `load`.
        unsafe {
            let all = _mm256_set1_epi32(i32::from_le_bytes(bits));
            let byte = 0x0101_0101_0101_0101;
            let own = _mm256_setr_epi64x(0, byte, 2 * byte, 3 * byte);
            let each = _mm256_shuffle_epi8(all, own);
            let own = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
            let is_set = _mm256_cmpeq_epi8(_mm256_and_si256(each, own), own);
            _mm256_and_si256(is_set, _mm256_set1_epi8(16))
        }
    }

    #[inline(always)]
    fn floats(self, bytes: u128) -> [__m256; 2] {
        // SAFETY: see `load`.
        unsafe {
            let bytes = sixteen(bytes);
            let last = _mm_srli_si128::<8>(bytes);
            [
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(last)),
            ]
        }
    }

    #[inline(always)]
    fn twice(self, bytes: u64) -> [__m256; 2] {
        // SAFETY: see `load`.
        unsafe {
            let bytes = eight_twice(bytes);
            let last = _mm_srli_si128::<8>(bytes);
            [
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(last)),
            ]
        }
    }

    #[inline(always)]
    fn halves_twice(self, halves: [u16; 8]) -> [__m256; 2] {
        // SAFETY: see `load`.
        unsafe { twice(_mm256_cvtph_ps(eight_halves(halves))) }
    }

    #[inline(always)]
    fn floats_twice(self, floats: [f32; 8]) -> [__m256; 2] {
        // SAFETY: see `load`.
        unsafe { twice(_mm256_loadu_ps(floats.as_ptr())) }
    }

    #[inline(always)]
    fn times(self, [low, high]: [__m256; 2], factor: f32) -> [__m256; 2] {
        // SAFETY: see `load`.
        unsafe {
            let factor = _mm256_set1_ps(factor);
            [_mm256_mul_ps(low, factor), _mm256_mul_ps(high, factor)]
        }
    }
}

/// Each number twice.
#[inline(always)]
unsafe fn twice(floats: __m256) -> [__m256; 2] {
    // SAFETY: by the caller's word, these instructions exist.
    unsafe {
        [
            _mm256_permutevar8x32_ps(floats, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3)),
            _mm256_permutevar8x32_ps(floats, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7)),
        ]
    }
}

/// The sums of four products in each lane. Pairs are summed in 16 bits where those hold them: bytes are never -128.
#[inline(always)]
unsafe fn fours<const WIDE: bool>(levels: __m256i, bytes: __m256i) -> __m256i {
    // SAFETY: by the caller's word, these instructions exist.
    unsafe {
        let ones = _mm256_set1_epi16(1);
        if !WIDE {
            return _mm256_madd_epi16(_mm256_maddubs_epi16(levels, bytes), ones);
        }
        // Halves of the levels fit, and so do their last bits.
        let upper = _mm256_and_si256(_mm256_srli_epi16::<1>(levels), _mm256_set1_epi8(127));
        let lower = _mm256_and_si256(levels, _mm256_set1_epi8(1));
        let upper = _mm256_madd_epi16(_mm256_maddubs_epi16(upper, bytes), ones);
        let lower = _mm256_madd_epi16(_mm256_maddubs_epi16(lower, bytes), ones);
        _mm256_add_epi32(_mm256_add_epi32(upper, upper), lower)
    }
}

// SAFETY: methods touch what the trait says.
unsafe impl Vectors for Avx2 {
    type Sum = [__m256; 2];
    type Counts = __m256i;
    type Reals = __m256;
    const LANES: usize = 8;

    #[inline(always)]
    fn round(self, x: &[f32; GROUP]) -> Rounded {
        // SAFETY: here and below, `self` proves that the instructions exist; pointers are valid by the caller's word.
        unsafe {
            let mut x: [__m256; 4] = std::mem::transmute_copy(x);
            let magnitude = _mm256_set1_epi32(0x7fff_ffff);
            let mut most = _mm256_setzero_si256();
            for x in x {
                let x = _mm256_and_si256(_mm256_castps_si256(x), magnitude);
                most = _mm256_max_epu32(most, x);
            }
            let four =
                _mm_max_epu32(_mm256_castsi256_si128(most), _mm256_extracti128_si256::<1>(most));
            let two = _mm_max_epu32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
            let one = _mm_max_epu32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two));
            let most = f32::from_bits(_mm_cvtsi128_si32(one) as u32);
            let inverse = _mm256_set1_ps(if most > 0.0 { MOST / most } else { 0.0 });
            for x in &mut x {
                *x = _mm256_castsi256_ps(_mm256_cvtps_epi32(_mm256_mul_ps(*x, inverse)));
            }
            let [a, b, c, d] = x.map(|x| _mm256_castps_si256(x));
            // Packing goes by halves of vectors: the fours are put in order again.
            let words = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
            let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            let mut bytes = [0; GROUP];
            let words = _mm256_permutevar8x32_epi32(words, order);
            _mm256_storeu_si256(bytes.as_mut_ptr().cast(), words);
            let sums = [_mm256_add_epi32(a, b), _mm256_add_epi32(c, d)];
            let mut halves = [0; 2];
            for (half, sum) in halves.iter_mut().zip(sums) {
                let four =
                    _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
                let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
                let one = _mm_add_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two));
                *half = _mm_cvtsi128_si32(one);
            }
            Rounded { bytes, scale: most * (1.0 / MOST), sums: halves }
        }
    }

    #[inline(always)]
    fn prefetch(self, from: *const u8) {
        // SAFETY: every processor of this architecture has the instruction, which touches nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }

    #[inline(always)]
    fn no_sum(self) -> [__m256; 2] {
        // SAFETY: see `round`.
        unsafe { [_mm256_setzero_ps(); 2] }
    }

    #[inline(always)]
    unsafe fn add_chunk<const WIDE: bool>(
        self,
        mut sum: [__m256; 2],
        levels: &Levels<Self>,
        part: Part,
    ) -> [__m256; 2] {
        // SAFETY: see `round`.
        unsafe {
            for half in 0..2 {
                let at = 8 * half;
                let factors = _mm256_loadu_ps(part.scales.add(at));
                let scales = _mm256_mul_ps(levels.scales[half], factors);
                let sums = _mm256_loadu_ps(part.sums.add(at));
                sum[half] = _mm256_fnmadd_ps(levels.minima[half], sums, sum[half]);
                for pair in 0..4 {
                    let at = 4 * half + pair;
                    let bytes = _mm256_loadu_si256(part.bytes.add(32 * at).cast());
                    let counts = _mm256_cvtepi32_ps(fours::<WIDE>(levels.levels[at], bytes));
                    let (a, b) = (2 * pair as i32, 2 * pair as i32 + 1);
                    let lanes = _mm256_setr_epi32(a, a, a, a, b, b, b, b);
                    let scales = _mm256_permutevar8x32_ps(scales, lanes);
                    sum[pair % 2] = _mm256_fmadd_ps(counts, scales, sum[pair % 2]);
                }
            }
            sum
        }
    }

    #[inline(always)]
    fn total(self, sum: [__m256; 2]) -> f32 {
        // SAFETY: see `round`.
        unsafe {
            let sum = _mm256_add_ps(sum[0], sum[1]);
            let four = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }

    #[inline(always)]
    unsafe fn store_bytes(self, bytes: __m256i, to: *mut u8) {
        // SAFETY: see `round`.
        unsafe { _mm256_storeu_si256(to.cast(), bytes) }
    }

    #[inline(always)]
    unsafe fn store_floats(self, [low, high]: [__m256; 2], to: *mut f32) {
        // SAFETY: see `round`.
        unsafe {
            _mm256_storeu_ps(to, low);
            _mm256_storeu_ps(to.add(8), high);
        }
    }

    #[inline(always)]
    fn no_counts(self) -> __m256i {
        // SAFETY: see `round`.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn count<const WIDE: bool>(
        self,
        counts: __m256i,
        levels: *const u8,
        bytes: *const u32,
    ) -> __m256i {
        // SAFETY: see `round`.
        unsafe {
            let levels = _mm256_loadu_si256(levels.cast());
            let bytes = _mm256_set1_epi32(bytes.read_unaligned() as i32);
            _mm256_add_epi32(counts, fours::<WIDE>(levels, bytes))
        }
    }

    #[inline(always)]
    fn no_reals(self) -> __m256 {
        // SAFETY: see `round`.
        unsafe { _mm256_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn load_reals(self, from: *const f32) -> __m256 {
        // SAFETY: see `round`.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store_reals(self, reals: __m256, to: *mut f32) {
        // SAFETY: see `round`.
        unsafe { _mm256_storeu_ps(to, reals) }
    }

    #[inline(always)]
    unsafe fn scaled(
        self,
        sum: __m256,
        counts: __m256i,
        factor: *const f32,
        scales: __m256,
        minima: __m256,
        less: *const f32,
    ) -> __m256 {
        // SAFETY: see `round`.
        unsafe {
            let counts = _mm256_mul_ps(_mm256_cvtepi32_ps(counts), _mm256_set1_ps(*factor));
            _mm256_fnmadd_ps(minima, _mm256_set1_ps(*less), _mm256_fmadd_ps(counts, scales, sum))
        }
    }

    #[inline(always)]
    unsafe fn transpose(self, from: *const u8, stride: usize, to: *mut u32) {
        // SAFETY: see `round`.
        unsafe {
            for (row, column) in [(0, 0), (0, 8), (8, 0), (8, 8)] {
                let from = from.add(row * stride + 4 * column);
                let mut rows = [_mm256_setzero_si256(); 8];
                for (i, row) in rows.iter_mut().enumerate() {
                    *row = _mm256_loadu_si256(from.add(i * stride).cast());
                }
                // Three rounds, each of which puts the halves of the list between each other.
                for _ in 0..3 {
                    let before = rows;
                    for (i, row) in rows.iter_mut().enumerate() {
                        let (a, b) = (before[i / 2], before[i / 2 + 4]);
                        let low = _mm256_unpacklo_epi32(a, b);
                        let high = _mm256_unpackhi_epi32(a, b);
                        *row = match i % 2 {
                            0 => _mm256_permute2x128_si256::<0x20>(low, high),
                            _ => _mm256_permute2x128_si256::<0x31>(low, high),
                        };
                    }
                }
                for (i, &lanes) in rows.iter().enumerate() {
                    _mm256_storeu_si256(to.add((column + i) * ROWS + row).cast(), lanes);
                }
            }
        }
    }
}
