//! Vectors of 256 bits.

use std::arch::x86_64::*;

use polaris_blocks::{Levels, Simd, each_i16};

use super::super::products::{Products, pairs_in_16_bits};
use super::super::vectors::{GROUP, MOST, Part, ROWS, Rounded, Vectors};
use super::sixteen;

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
    type Bytes = [__m256i; 2];
    type Floats = [__m256; 2];

    #[inline(always)]
    fn load(self, bytes: &[u8; 64]) -> [__m256i; 2] {
        // SAFETY: here and below, `self` proves that the instructions exist.
        unsafe {
            let from = bytes.as_ptr().cast::<__m256i>();
            [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))]
        }
    }

    #[inline(always)]
    fn pair(self, a: &[u8; 32], b: &[u8; 32]) -> [__m256i; 2] {
        // SAFETY: see `load`.
        unsafe { [_mm256_loadu_si256(a.as_ptr().cast()), _mm256_loadu_si256(b.as_ptr().cast())] }
    }

    #[inline(always)]
    fn both(self, bytes: &[u8; 32]) -> [__m256i; 2] {
        self.pair(bytes, bytes)
    }

    #[inline(always)]
    fn nibbles(self, a: &[u8; 16], b: &[u8; 16]) -> [__m256i; 2] {
        // SAFETY: see `load`.
        unsafe { [nibbles(a), nibbles(b)] }
    }

    #[inline(always)]
    fn fifths(self, a: [u8; 4], b: [u8; 4]) -> [__m256i; 2] {
        // SAFETY: see `load`.
        unsafe { [fifths(a), fifths(b)] }
    }

    #[inline(always)]
    fn bits(self, [a, b]: [__m256i; 2], shifts: [u32; 2], mask: u8) -> [__m256i; 2] {
        // SAFETY: see `load`.
        unsafe {
            let [a, b] = [
                _mm256_srl_epi16(a, _mm_cvtsi32_si128(shifts[0] as i32)),
                _mm256_srl_epi16(b, _mm_cvtsi32_si128(shifts[1] as i32)),
            ];
            let mask = _mm256_set1_epi8(mask as i8);
            [_mm256_and_si256(a, mask), _mm256_and_si256(b, mask)]
        }
    }

    #[inline(always)]
    fn raised(self, [a, b]: [__m256i; 2], shift: u32) -> [__m256i; 2] {
        // SAFETY: see `load`.
        unsafe {
            let shift = _mm_cvtsi32_si128(shift as i32);
            [_mm256_sll_epi16(a, shift), _mm256_sll_epi16(b, shift)]
        }
    }

    #[inline(always)]
    fn or(self, [a, b]: [__m256i; 2], [c, d]: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: see `load`.
        unsafe { [_mm256_or_si256(a, c), _mm256_or_si256(b, d)] }
    }

    #[inline(always)]
    fn without_sign(self, [a, b]: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: see `load`.
        unsafe {
            let sign = _mm256_set1_epi8(-128);
            [_mm256_xor_si256(a, sign), _mm256_xor_si256(b, sign)]
        }
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16], [a, b]: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: see `load`.
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            [_mm256_shuffle_epi8(table, a), _mm256_shuffle_epi8(table, b)]
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
    fn repeated(self, floats: [f32; 8]) -> [__m256; 2] {
        // SAFETY: see `load`.
        unsafe { [_mm256_loadu_ps(floats.as_ptr()); 2] }
    }

    #[inline(always)]
    fn halves<const BYTES: usize>(self, blocks: &[u8], at: [usize; 2]) -> [__m256; 2] {
        // SAFETY: see `load`.
        unsafe {
            let first = eight_halves::<BYTES>(blocks, at[0]);
            [first, if at[1] == at[0] { first } else { eight_halves::<BYTES>(blocks, at[1]) }]
        }
    }

    #[inline(always)]
    fn times(self, [low, high]: [__m256; 2], factor: f32) -> [__m256; 2] {
        // SAFETY: see `load`.
        unsafe {
            let factor = _mm256_set1_ps(factor);
            [_mm256_mul_ps(low, factor), _mm256_mul_ps(high, factor)]
        }
    }

    #[inline(always)]
    fn times_each(self, [low, high]: [__m256; 2], [a, b]: [f32; 2]) -> [__m256; 2] {
        // SAFETY: see `load`.
        unsafe { [_mm256_mul_ps(low, _mm256_set1_ps(a)), _mm256_mul_ps(high, _mm256_set1_ps(b))] }
    }

    #[inline(always)]
    fn times_half(self, [low, high]: [__m256; 2], factor: &[u8; 2]) -> [__m256; 2] {
        // SAFETY: see `load`.
        unsafe {
            let factor = _mm256_cvtph_ps(_mm_set1_epi16(i16::from_le_bytes(*factor)));
            [_mm256_mul_ps(low, factor), _mm256_mul_ps(high, factor)]
        }
    }

    #[inline(always)]
    fn times_halves(self, [low, high]: [__m256; 2], factors: &[u8; 4]) -> [__m256; 2] {
        // SAFETY: see `load`.
        unsafe {
            let factors = _mm_cvtph_ps(_mm_cvtsi32_si128(i32::from_le_bytes(*factors)));
            let second = _mm256_broadcastss_ps(_mm_movehdup_ps(factors));
            [_mm256_mul_ps(low, _mm256_broadcastss_ps(factors)), _mm256_mul_ps(high, second)]
        }
    }
}

/// The lower nibbles of 16 bytes, then the upper ones.
#[inline(always)]
unsafe fn nibbles(bytes: &[u8; 16]) -> __m256i {
    // SAFETY: by the caller's word, these instructions exist.
    unsafe {
        let low = _mm_loadu_si128(bytes.as_ptr().cast());
        let both = _mm256_set_m128i(_mm_srli_epi16::<4>(low), low);
        _mm256_and_si256(both, _mm256_set1_epi8(15))
    }
}

/// 16 in each byte whose bit is set.
#[inline(always)]
unsafe fn fifths(bits: [u8; 4]) -> __m256i {
    // SAFETY: by the caller's word, these instructions exist.
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

/// The numbers in half precision at a place of eight blocks. Through memory they would be waited for.
#[inline(always)]
unsafe fn eight_halves<const BYTES: usize>(blocks: &[u8], at: usize) -> __m256 {
    let [a, b, c, d, e, f, g, h] = each_i16(blocks, BYTES, at);
    // SAFETY: by the caller's word, these instructions exist.
    unsafe { _mm256_cvtph_ps(_mm_setr_epi16(a, b, c, d, e, f, g, h)) }
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
    fn no_sum(self) -> [__m256; 2] {
        // SAFETY: see `round`.
        unsafe { [_mm256_setzero_ps(); 2] }
    }

    #[inline(always)]
    unsafe fn add_chunk<const WIDE: bool, const WIDTH: usize>(
        self,
        mut sum: [__m256; 2],
        levels: &Levels<Self>,
        part: Part,
    ) -> [__m256; 2] {
        // SAFETY: see `round`.
        unsafe {
            let scales = [
                _mm256_mul_ps(levels.scales[0], _mm256_loadu_ps(part.scales)),
                _mm256_mul_ps(levels.scales[1], _mm256_loadu_ps(part.scales.add(8))),
            ];
            if WIDTH == 16 {
                for (half, (sum, &minima)) in sum.iter_mut().zip(&levels.minima).enumerate() {
                    let sums = _mm256_loadu_ps(part.sums.add(8 * half));
                    *sum = _mm256_fnmadd_ps(minima, sums, *sum);
                }
            } else {
                sum[1] = _mm256_sub_ps(sum[1], scales[1]);
            }
            for at in 0..8 {
                let bytes = _mm256_loadu_si256(part.bytes.add(32 * at).cast());
                let counts =
                    _mm256_cvtepi32_ps(fours::<WIDE>(levels.levels[at / 2][at % 2], bytes));
                let scales = match WIDTH {
                    16 => {
                        let (a, b) = (at as i32 % 4 * 2, at as i32 % 4 * 2 + 1);
                        let lanes = _mm256_setr_epi32(a, a, a, a, b, b, b, b);
                        _mm256_permutevar8x32_ps(scales[at / 4], lanes)
                    }
                    _ => _mm256_permutevar8x32_ps(scales[0], _mm256_set1_epi32(at as i32)),
                };
                sum[at % 2] = _mm256_fmadd_ps(counts, scales, sum[at % 2]);
            }
            sum
        }
    }

    #[inline(always)]
    fn lanes(self, sum: [__m256; 2]) -> [f32; 16] {
        // SAFETY: they are as large, and any bits are numbers.
        unsafe { std::mem::transmute(sum) }
    }

    #[inline(always)]
    fn weights(
        self,
        levels: [__m256i; 2],
        sixteen: usize,
        scale: f32,
        minimum: f32,
    ) -> [__m256; 2] {
        // SAFETY: see `round`.
        unsafe {
            let half = levels[sixteen / 2];
            let bytes = match sixteen % 2 {
                0 => _mm256_castsi256_si128(half),
                _ => _mm256_extracti128_si256::<1>(half),
            };
            let (scale, minimum) = (_mm256_set1_ps(scale), _mm256_set1_ps(minimum));
            let mut floats = [_mm256_setzero_ps(); 2];
            for (floats, bytes) in floats.iter_mut().zip([bytes, _mm_srli_si128::<8>(bytes)]) {
                let levels = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
                *floats = _mm256_fmsub_ps(levels, scale, minimum);
            }
            floats
        }
    }

    #[inline(always)]
    fn no_floats(self) -> [__m256; 2] {
        self.no_sum()
    }

    #[inline(always)]
    unsafe fn add_products(
        self,
        [low, high]: [__m256; 2],
        [a, b]: [__m256; 2],
        x: *const f32,
    ) -> [__m256; 2] {
        // SAFETY: see `round`.
        unsafe {
            let (x, y) = (_mm256_loadu_ps(x), _mm256_loadu_ps(x.add(8)));
            [_mm256_fmadd_ps(a, x, low), _mm256_fmadd_ps(b, y, high)]
        }
    }

    #[inline(always)]
    unsafe fn store_bytes(self, [a, b]: [__m256i; 2], to: *mut u8) {
        // SAFETY: see `round`.
        unsafe {
            _mm256_storeu_si256(to.cast(), a);
            _mm256_storeu_si256(to.cast::<__m256i>().add(1), b);
        }
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
    unsafe fn transpose(self, from: *const u8, stride: usize, to: *mut u32, to_stride: usize) {
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
                    _mm256_storeu_si256(to.add((column + i) * to_stride + row).cast(), lanes);
                }
            }
        }
    }
}

// SAFETY: methods touch what the trait says.
unsafe impl Products for Avx2 {
    type Counts = __m256i;
    type Reals = __m256;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn counts<const TOKENS: usize, const FOURS: usize, const HIGHEST: u8>(
        self,
        levels: *const u8,
        bytes: *const u32,
    ) -> [__m256i; TOKENS] {
        // SAFETY: see `round`.
        unsafe {
            let mut counts = [_mm256_setzero_si256(); TOKENS];
            // Pairs that are summed before they are widened.
            let short = const { pairs_in_16_bits(HIGHEST) }.min(FOURS);
            for first in (0..FOURS).step_by(short.max(1)) {
                let mut pairs = [_mm256_setzero_si256(); TOKENS];
                for four in first..first + short.max(1) {
                    let levels = _mm256_loadu_si256(levels.add(four * 4 * ROWS).cast());
                    for (token, pairs) in pairs.iter_mut().enumerate() {
                        let bytes = bytes.add(four * TOKENS + token).read_unaligned();
                        let bytes = _mm256_set1_epi32(bytes as i32);
                        *pairs = match short {
                            0 => fours::<true>(levels, bytes),
                            _ => _mm256_add_epi16(*pairs, _mm256_maddubs_epi16(levels, bytes)),
                        };
                    }
                }
                for (count, pairs) in counts.iter_mut().zip(pairs) {
                    let sums = match short {
                        0 => pairs,
                        _ => _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)),
                    };
                    *count = _mm256_add_epi32(*count, sums);
                }
            }
            counts
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
}
