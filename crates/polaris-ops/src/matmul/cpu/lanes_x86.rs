//! The vectors of AVX-512 and AVX2.

use std::arch::x86_64::*;

use super::lanes::Lanes;
use crate::quantize::Bounds;

/// The first `count` of eight 32-bit lanes, for masked access.
#[inline(always)]
unsafe fn mask8(count: usize) -> __m256i {
    // SAFETY: by the caller's word, these instructions exist.
    unsafe {
        _mm256_cmpgt_epi32(
            _mm256_set1_epi32(count as i32),
            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
        )
    }
}

/// The first `count` of four 64-bit lanes.
#[inline(always)]
unsafe fn mask4(count: usize) -> __m256i {
    // SAFETY: by the caller's word, these instructions exist.
    unsafe { _mm256_cmpgt_epi64(_mm256_set1_epi64x(count as i64), _mm256_setr_epi64x(0, 1, 2, 3)) }
}

/// One vector type. `$mask` makes the mask of the first `count` lanes.
macro_rules! lanes {
    (
        $(#[$meta:meta])* $name:ident($vector:ty) of $count:literal $sum:ty, packed $packed:ty;
        zero: $zero:expr; load: $load:expr; store: $store:expr; mask: $mask:expr;
        load_first: $load_first:expr; store_first: $store_first:expr; add: $add:expr;
        all: $all:expr; larger: $larger:expr; smaller: $smaller:expr;
        factors: $factors:expr; repeat: $repeat:expr; add_product: $add_product:expr;
        $(whole: $whole:expr; bytes: $bytes:expr; store_first_bytes: $store_first_bytes:expr;)?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name($vector);

        // SAFETY: masked access touches no other lanes' memory, whole access exactly a vector's.
        unsafe impl Lanes for $name {
            type Packed = $packed;
            type Sum = $sum;
            type Factors = $vector;
            const COUNT: usize = $count;

            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: here and below, by the caller's word.
                Self(unsafe { $zero })
            }

            #[inline(always)]
            unsafe fn load(at: *const $sum) -> Self {
                // SAFETY: see `zero`.
                Self(unsafe { $load(at.cast()) })
            }

            #[inline(always)]
            unsafe fn store(self, at: *mut $sum) {
                // SAFETY: see `zero`.
                unsafe { $store(at.cast(), self.0) }
            }

            #[inline(always)]
            unsafe fn load_first(at: *const $sum, count: usize) -> Self {
                // SAFETY: see `zero`.
                Self(unsafe { $load_first($mask(count), at) })
            }

            #[inline(always)]
            unsafe fn store_first(self, at: *mut $sum, count: usize) {
                // SAFETY: see `zero`.
                unsafe { $store_first(at, $mask(count), self.0) }
            }

            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: see `zero`.
                Self(unsafe { $add(self.0, other.0) })
            }

            #[inline(always)]
            unsafe fn between(self, low: $sum, high: $sum) -> Self {
                // Of two operands one of which is not a number, these instructions take the second.
                // SAFETY: see `zero`.
                Self(unsafe { $smaller($all(high), $larger($all(low), self.0)) })
            }

            #[inline(always)]
            unsafe fn factors(at: *const $packed) -> $vector {
                // SAFETY: see `zero`.
                unsafe { $factors(at.cast()) }
            }

            #[inline(always)]
            unsafe fn repeat(at: *const $packed) -> $vector {
                // SAFETY: see `zero`.
                unsafe { $repeat(*at) }
            }

            #[inline(always)]
            unsafe fn add_product(self, left: $vector, right: $vector) -> Self {
                // SAFETY: see `zero`.
                Self(unsafe { $add_product(self.0, left, right) })
            }

            $(
                const TO_BYTES: bool = true;

                #[inline(always)]
                unsafe fn whole(self, factors: Self, bounds: &Bounds) -> Self {
                    // SAFETY: see `zero`.
                    Self(unsafe { $whole(self.0, factors.0, bounds) })
                }

                #[inline(always)]
                unsafe fn store_bytes(self, to: *mut u8, count: usize) {
                    // SAFETY: see `zero`.
                    unsafe {
                        let bytes = $bytes(self.0);
                        match count == Self::COUNT {
                            true => to.cast::<__m128i>().write_unaligned(bytes),
                            false => $store_first_bytes(to.cast(), $mask(count), bytes),
                        }
                    }
                }
            )?
        }
    };
}

lanes! {
    F32x16(__m512) of 16 f32, packed f32;
    zero: _mm512_setzero_ps(); load: _mm512_loadu_ps; store: _mm512_storeu_ps;
    mask: |count: usize| (1u32 << count).wrapping_sub(1) as __mmask16;
    load_first: |mask, at| _mm512_maskz_loadu_ps(mask, at);
    store_first: |at, mask, value| _mm512_mask_storeu_ps(at, mask, value);
    add: _mm512_add_ps; all: _mm512_set1_ps; larger: _mm512_max_ps;
    smaller: _mm512_min_ps; factors: _mm512_loadu_ps; repeat: _mm512_set1_ps;
    add_product: |sum, left, right| _mm512_fmadd_ps(left, right, sum);
}

lanes! {
    F64x8(__m512d) of 8 f64, packed f64;
    zero: _mm512_setzero_pd(); load: _mm512_loadu_pd; store: _mm512_storeu_pd;
    mask: |count: usize| (1u32 << count).wrapping_sub(1) as __mmask8;
    load_first: |mask, at| _mm512_maskz_loadu_pd(mask, at);
    store_first: |at, mask, value| _mm512_mask_storeu_pd(at, mask, value);
    add: _mm512_add_pd; all: _mm512_set1_pd; larger: _mm512_max_pd;
    smaller: _mm512_min_pd; factors: _mm512_loadu_pd; repeat: _mm512_set1_pd;
    add_product: |sum, left, right| _mm512_fmadd_pd(left, right, sum);
}

lanes! {
    /// Four unsigned bytes times four signed ones in each lane.
    Quads16(__m512i) of 16 i32, packed u32;
    zero: _mm512_setzero_si512(); load: |at: *const __m512i| _mm512_loadu_si512(at);
    store: |at: *mut __m512i, value| _mm512_storeu_si512(at, value);
    mask: |count: usize| (1u32 << count).wrapping_sub(1) as __mmask16;
    load_first: |mask, at| _mm512_maskz_loadu_epi32(mask, at);
    store_first: |at, mask, value| _mm512_mask_storeu_epi32(at, mask, value);
    add: _mm512_add_epi32; all: _mm512_set1_epi32; larger: _mm512_max_epi32;
    smaller: _mm512_min_epi32; factors: |at: *const __m512i| _mm512_loadu_si512(at);
    repeat: |value: u32| _mm512_set1_epi32(value as i32);
    add_product: _mm512_dpbusd_epi32;
    whole: whole; bytes: _mm512_cvtepi32_epi8;
    store_first_bytes: |to, mask, bytes| _mm_mask_storeu_epi8(to, mask, bytes);
}

/// Sums times factors as whole numbers, whose last bytes are the results.
#[inline(always)]
pub(crate) unsafe fn whole(sums: __m512i, factors: __m512i, bounds: &Bounds) -> __m512i {
    // SAFETY: by the caller's word, these instructions exist.
    unsafe {
        let value = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), _mm512_castsi512_ps(factors));
        // Of two operands one of which is not a number, these instructions take the second.
        let value = _mm512_max_ps(value, _mm512_set1_ps(bounds.low));
        let value = _mm512_min_ps(value, _mm512_set1_ps(bounds.high));
        let bits = _mm512_castps_si512(_mm512_add_ps(value, _mm512_set1_ps(Bounds::ROUNDING)));
        _mm512_add_epi32(bits, _mm512_set1_epi32(bounds.offset))
    }
}

lanes! {
    /// Two 16-bit integers in each lane.
    Pairs16(__m512i) of 16 i32, packed u32;
    zero: _mm512_setzero_si512(); load: |at: *const __m512i| _mm512_loadu_si512(at);
    store: |at: *mut __m512i, value| _mm512_storeu_si512(at, value);
    mask: |count: usize| (1u32 << count).wrapping_sub(1) as __mmask16;
    load_first: |mask, at| _mm512_maskz_loadu_epi32(mask, at);
    store_first: |at, mask, value| _mm512_mask_storeu_epi32(at, mask, value);
    add: _mm512_add_epi32; all: _mm512_set1_epi32; larger: _mm512_max_epi32;
    smaller: _mm512_min_epi32; factors: |at: *const __m512i| _mm512_loadu_si512(at);
    repeat: |value: u32| _mm512_set1_epi32(value as i32);
    add_product: |sum, left, right| _mm512_add_epi32(sum, _mm512_madd_epi16(left, right));
}

lanes! {
    F32x8(__m256) of 8 f32, packed f32;
    zero: _mm256_setzero_ps(); load: _mm256_loadu_ps; store: _mm256_storeu_ps; mask: mask8;
    load_first: |mask, at| _mm256_maskload_ps(at, mask);
    store_first: |at, mask, value| _mm256_maskstore_ps(at, mask, value);
    add: _mm256_add_ps; all: _mm256_set1_ps; larger: _mm256_max_ps;
    smaller: _mm256_min_ps; factors: _mm256_loadu_ps; repeat: _mm256_set1_ps;
    add_product: |sum, left, right| _mm256_fmadd_ps(left, right, sum);
}

lanes! {
    F64x4(__m256d) of 4 f64, packed f64;
    zero: _mm256_setzero_pd(); load: _mm256_loadu_pd; store: _mm256_storeu_pd; mask: mask4;
    load_first: |mask, at| _mm256_maskload_pd(at, mask);
    store_first: |at, mask, value| _mm256_maskstore_pd(at, mask, value);
    add: _mm256_add_pd; all: _mm256_set1_pd; larger: _mm256_max_pd;
    smaller: _mm256_min_pd; factors: _mm256_loadu_pd; repeat: _mm256_set1_pd;
    add_product: |sum, left, right| _mm256_fmadd_pd(left, right, sum);
}

lanes! {
    /// Two 16-bit integers in each lane.
    Pairs8(__m256i) of 8 i32, packed u32;
    zero: _mm256_setzero_si256(); load: |at: *const __m256i| _mm256_loadu_si256(at);
    store: |at: *mut __m256i, value| _mm256_storeu_si256(at, value); mask: mask8;
    load_first: |mask, at| _mm256_maskload_epi32(at, mask);
    store_first: |at, mask, value| _mm256_maskstore_epi32(at, mask, value);
    add: _mm256_add_epi32; all: _mm256_set1_epi32; larger: _mm256_max_epi32;
    smaller: _mm256_min_epi32; factors: |at: *const __m256i| _mm256_loadu_si256(at);
    repeat: |value: u32| _mm256_set1_epi32(value as i32);
    add_product: |sum, left, right| _mm256_add_epi32(sum, _mm256_madd_epi16(left, right));
}
