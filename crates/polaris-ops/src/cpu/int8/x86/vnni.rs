//! Vectors of 512 bits, and products of four bytes.

use std::arch::x86_64::*;

use polaris_blocks::{Levels, Simd, each_i16};

use super::super::vectors::{GROUP, MOST, Part, ROWS, Rounded, Vectors};
use super::sixteen;

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
    type Bytes = __m512i;
    type Floats = __m512;

    #[inline(always)]
    fn load(self, bytes: &[u8; 64]) -> __m512i {
        // SAFETY: here and below, `self` proves that the instructions exist.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn pair(self, a: &[u8; 32], b: &[u8; 32]) -> __m512i {
        // SAFETY: see `load`.
        unsafe {
            let a = _mm512_castsi256_si512(_mm256_loadu_si256(a.as_ptr().cast()));
            _mm512_inserti64x4::<1>(a, _mm256_loadu_si256(b.as_ptr().cast()))
        }
    }

    #[inline(always)]
    fn both(self, bytes: &[u8; 32]) -> __m512i {
        // SAFETY: see `load`.
        unsafe { _mm512_broadcast_i64x4(_mm256_loadu_si256(bytes.as_ptr().cast())) }
    }

    #[inline(always)]
    fn nibbles(self, a: &[u8; 16], b: &[u8; 16]) -> __m512i {
        // SAFETY: see `load`.
        unsafe {
            let a = _mm256_broadcastsi128_si256(_mm_loadu_si128(a.as_ptr().cast()));
            let b = _mm256_broadcastsi128_si256(_mm_loadu_si128(b.as_ptr().cast()));
            let both = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a), b);
            let moved = _mm512_srlv_epi64(both, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4));
            _mm512_and_si512(moved, _mm512_set1_epi8(15))
        }
    }

    #[inline(always)]
    fn fifths(self, a: [u8; 4], b: [u8; 4]) -> __m512i {
        let bits = u64::from(u32::from_le_bytes(a)) | u64::from(u32::from_le_bytes(b)) << 32;
        // SAFETY: see `load`.
        unsafe { _mm512_maskz_mov_epi8(bits, _mm512_set1_epi8(16)) }
    }

    #[inline(always)]
    fn bits(self, bytes: __m512i, [a, b]: [u32; 2], mask: u8) -> __m512i {
        let (a, b) = (i64::from(a), i64::from(b));
        // SAFETY: see `load`.
        unsafe {
            let moved = _mm512_srlv_epi64(bytes, _mm512_setr_epi64(a, a, a, a, b, b, b, b));
            _mm512_and_si512(moved, _mm512_set1_epi8(mask as i8))
        }
    }

    #[inline(always)]
    fn raised(self, bytes: __m512i, shift: u32) -> __m512i {
        // SAFETY: see `load`.
        unsafe { _mm512_sll_epi16(bytes, _mm_cvtsi32_si128(shift as i32)) }
    }

    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: see `load`.
        unsafe { _mm512_or_si512(a, b) }
    }

    #[inline(always)]
    fn without_sign(self, bytes: __m512i) -> __m512i {
        // SAFETY: see `load`.
        unsafe { _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)) }
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16], places: __m512i) -> __m512i {
        // SAFETY: see `load`.
        unsafe {
            let table = _mm_loadu_si128(table.as_ptr().cast());
            _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), places)
        }
    }

    #[inline(always)]
    fn floats(self, bytes: u128) -> __m512 {
        // SAFETY: see `load`.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sixteen(bytes))) }
    }

    #[inline(always)]
    fn repeated(self, floats: [f32; 8]) -> __m512 {
        // SAFETY: see `load`.
        unsafe { _mm512_broadcast_f32x8(_mm256_loadu_ps(floats.as_ptr())) }
    }

    #[inline(always)]
    fn halves<const BYTES: usize>(self, blocks: &[u8], at: [usize; 2]) -> __m512 {
        // SAFETY: see `load`.
        unsafe { _mm512_cvtph_ps(halves::<BYTES>(blocks, at)) }
    }

    #[inline(always)]
    fn times(self, floats: __m512, factor: f32) -> __m512 {
        // SAFETY: see `load`.
        unsafe { _mm512_mul_ps(floats, _mm512_set1_ps(factor)) }
    }

    #[inline(always)]
    fn times_each(self, floats: __m512, [a, b]: [f32; 2]) -> __m512 {
        // SAFETY: see `load`.
        unsafe {
            let factors = _mm512_setr_ps(a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b);
            _mm512_mul_ps(floats, factors)
        }
    }

    #[inline(always)]
    fn times_half(self, floats: __m512, factor: &[u8; 2]) -> __m512 {
        // SAFETY: see `load`.
        unsafe {
            let factor = _mm256_set1_epi16(i16::from_le_bytes(*factor));
            _mm512_mul_ps(floats, _mm512_cvtph_ps(factor))
        }
    }

    #[inline(always)]
    fn times_halves(self, floats: __m512, factors: &[u8; 4]) -> __m512 {
        // SAFETY: see `load`.
        unsafe {
            let factors = _mm_cvtph_ps(_mm_cvtsi32_si128(i32::from_le_bytes(*factors)));
            let lanes = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
            let factors = _mm512_permutexvar_ps(lanes, _mm512_castps128_ps512(factors));
            _mm512_mul_ps(floats, factors)
        }
    }
}

/// Two bytes at one place of each of eight blocks, then those at another: from vectors over all of them, which takes
/// fewer instructions than to load each.
#[inline(always)]
unsafe fn halves<const BYTES: usize>(blocks: &[u8], at: [usize; 2]) -> __m256i {
    let blocks = &blocks[..8 * BYTES];
    // SAFETY: by the caller's word, these instructions exist; the vectors lie inside the blocks.
    unsafe {
        if BYTES > 24 {
            let [a, b, c, d, e, f, g, h] = each_i16(blocks, BYTES, at[0]);
            let first = _mm_setr_epi16(a, b, c, d, e, f, g, h);
            let [a, b, c, d, e, f, g, h] = each_i16(blocks, BYTES, at[1]);
            return _mm256_set_m128i(_mm_setr_epi16(a, b, c, d, e, f, g, h), first);
        }
        let vector = |at: usize| _mm512_loadu_si512(blocks.as_ptr().add(at).cast());
        // Blocks that end within the first two vectors, and the last ones, which the third has.
        let last = blocks.len() - 64;
        let (mut first, mut then) = ([0i16; 32], [0i16; 32]);
        for i in 0..16 {
            let place = i % 8 * BYTES + at[i / 8];
            let is_late = place + 2 > 128;
            first[i] = if is_late { 0 } else { (place / 2) as i16 };
            then[i] = if is_late { 32 + ((place - last) / 2) as i16 } else { i as i16 };
        }
        let first = _mm512_loadu_si512(first.as_ptr().cast());
        let then = _mm512_loadu_si512(then.as_ptr().cast());
        let halves = _mm512_permutex2var_epi16(vector(0), first, vector(64));
        let halves = match 7 * BYTES + at[0].max(at[1]) + 2 > 128 {
            true => _mm512_permutex2var_epi16(halves, then, vector(last)),
            false => halves,
        };
        _mm512_castsi512_si256(halves)
    }
}

// SAFETY: methods touch what the trait says.
unsafe impl Vectors for Vnni {
    /// Three, so that the additions of a chunk wait for two others at most.
    type Sum = [__m512; 3];

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
    fn no_sum(self) -> [__m512; 3] {
        // SAFETY: see `round`.
        unsafe { [_mm512_setzero_ps(); 3] }
    }

    #[inline(always)]
    unsafe fn add_chunk<const WIDE: bool, const WIDTH: usize>(
        self,
        [mut a, mut b, mut c]: [__m512; 3],
        levels: &Levels<Self>,
        part: Part,
    ) -> [__m512; 3] {
        // SAFETY: see `round`.
        unsafe {
            let scales = _mm512_mul_ps(levels.scales, _mm512_loadu_ps(part.scales));
            let count = |quarter: usize| {
                let bytes = _mm512_loadu_si512(part.bytes.add(64 * quarter).cast());
                let counts =
                    _mm512_dpbusd_epi32(_mm512_setzero_si512(), levels.levels[quarter], bytes);
                _mm512_cvtepi32_ps(counts)
            };
            let spread = |quarter: usize| {
                let first = (64 / WIDTH * quarter) as i32;
                let groups = match WIDTH {
                    16 => _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3),
                    _ => _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1),
                };
                let lanes = _mm512_add_epi32(groups, _mm512_set1_epi32(first));
                _mm512_permutexvar_ps(lanes, scales)
            };
            a = match WIDTH {
                16 => _mm512_fnmadd_ps(levels.minima, _mm512_loadu_ps(part.sums), a),
                _ => _mm512_mask_sub_ps(a, 0xff00, a, scales),
            };
            b = _mm512_fmadd_ps(count(0), spread(0), b);
            c = _mm512_fmadd_ps(count(1), spread(1), c);
            a = _mm512_fmadd_ps(count(2), spread(2), a);
            b = _mm512_fmadd_ps(count(3), spread(3), b);
            [a, b, c]
        }
    }

    #[inline(always)]
    fn lanes(self, [a, b, c]: [__m512; 3]) -> [f32; 16] {
        // SAFETY: see `round`.
        unsafe { std::mem::transmute(_mm512_add_ps(_mm512_add_ps(a, b), c)) }
    }

    /// Each step adds halves, quarters and so on of two rows, so that their sums share a vector.
    #[inline(always)]
    fn totals(self, rows: &[[f32; 16]; ROWS]) -> [f32; ROWS] {
        // SAFETY: see `round`. Closures would become functions, into which these instructions are not inlined.
        unsafe {
            let mut sums = [_mm512_setzero_ps(); 8];
            for (i, sum) in sums.iter_mut().enumerate() {
                let a = _mm512_loadu_ps(rows[i].as_ptr());
                let b = _mm512_loadu_ps(rows[i + 8].as_ptr());
                let low = _mm512_shuffle_f32x4::<0b01_00_01_00>(a, b);
                *sum = _mm512_add_ps(low, _mm512_shuffle_f32x4::<0b11_10_11_10>(a, b));
            }
            for i in 0..4 {
                let (a, b) = (sums[i], sums[i + 4]);
                let even = _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b);
                sums[i] = _mm512_add_ps(even, _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b));
            }
            for step in [2, 1] {
                for i in 0..step {
                    let (a, b) = (sums[i], sums[i + step]);
                    sums[i] = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
                }
            }
            // Its quarters are the rows from 0, 8, 4 and 12 on.
            std::mem::transmute(_mm512_shuffle_f32x4::<0b11_01_10_00>(sums[0], sums[0]))
        }
    }

    #[inline(always)]
    fn weights(self, levels: __m512i, sixteen: usize, scale: f32, minimum: f32) -> __m512 {
        // SAFETY: see `round`.
        unsafe {
            let bytes = match sixteen {
                0 => _mm512_castsi512_si128(levels),
                1 => _mm512_extracti32x4_epi32::<1>(levels),
                2 => _mm512_extracti32x4_epi32::<2>(levels),
                _ => _mm512_extracti32x4_epi32::<3>(levels),
            };
            let levels = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
            _mm512_fmsub_ps(levels, _mm512_set1_ps(scale), _mm512_set1_ps(minimum))
        }
    }

    #[inline(always)]
    fn no_floats(self) -> __m512 {
        // SAFETY: see `round`.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn add_products(self, sum: __m512, floats: __m512, x: *const f32) -> __m512 {
        // SAFETY: see `round`.
        unsafe { _mm512_fmadd_ps(floats, _mm512_loadu_ps(x), sum) }
    }

    #[inline(always)]
    unsafe fn store_bytes(self, bytes: __m512i, to: *mut u8) {
        // SAFETY: see `round`.
        unsafe { _mm512_storeu_si512(to.cast(), bytes) }
    }

    #[inline(always)]
    unsafe fn store_floats(self, floats: __m512, to: *mut f32) {
        // SAFETY: see `round`.
        unsafe { _mm512_storeu_ps(to, floats) }
    }

    #[inline(always)]
    unsafe fn transpose(self, from: *const u8, stride: usize, to: *mut u32, to_stride: usize) {
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
                _mm512_storeu_si512(to.add(i * to_stride).cast(), lanes);
            }
        }
    }
}
