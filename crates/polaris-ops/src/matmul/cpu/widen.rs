//! Elements of B as dot products read them: of the type that is computed with, or of half precision.

use polaris_core::{bf16, f16};

use super::lanes::{Lanes, Plain};
#[cfg(target_arch = "x86_64")]
use super::lanes_x86::{F32x8, F32x16};

/// Stored elements that become factors of a kind of vectors.
pub(super) trait Widen<V: Lanes>: Copy {
    /// Whether they are shorter than what is computed with.
    const IS_SHORT: bool = size_of::<Self>() < size_of::<V::Packed>();

    /// A vector of them.
    ///
    /// # Safety
    /// As many must be readable as a vector has, and its instructions exist; for vectors of AVX2 those of F16C, too.
    unsafe fn factors(at: *const Self) -> V::Factors;

    /// One of them.
    fn widened(self) -> V::Packed;
}

impl<V: Lanes<Packed = f32>> Widen<V> for f32 {
    #[inline(always)]
    unsafe fn factors(at: *const f32) -> V::Factors {
        // SAFETY: by the caller's word.
        unsafe { V::factors(at) }
    }

    #[inline(always)]
    fn widened(self) -> f32 {
        self
    }
}

impl<V: Lanes<Packed = f64>> Widen<V> for f64 {
    #[inline(always)]
    unsafe fn factors(at: *const f64) -> V::Factors {
        // SAFETY: by the caller's word.
        unsafe { V::factors(at) }
    }

    #[inline(always)]
    fn widened(self) -> f64 {
        self
    }
}

/// Without a look at what the processor has, as the usual conversion takes one.
#[inline(always)]
fn from_f16(half: f16) -> f32 {
    half.to_f32_const()
}

#[inline(always)]
fn from_bf16(half: bf16) -> f32 {
    f32::from_bits(u32::from(half.to_bits()) << 16)
}

/// Vectors of one kind from elements of another type.
macro_rules! widen {
    ($(#[$meta:meta])* $stored:ty as $lanes:ty, $scalar:expr; $at:ident => $factors:expr) => {
        $(#[$meta])*
        impl Widen<$lanes> for $stored {
            #[inline(always)]
            unsafe fn factors($at: *const $stored) -> <$lanes as Lanes>::Factors {
                // SAFETY: by the caller's word.
                unsafe { $factors }
            }

            #[inline(always)]
            fn widened(self) -> f32 {
                $scalar(self)
            }
        }
    };
}

widen!(f16 as Plain<f32, 4>, from_f16; at => at.cast::<[f16; 4]>().read_unaligned().map(from_f16));
widen!(bf16 as Plain<f32, 4>, from_bf16; at => at.cast::<[bf16; 4]>().read_unaligned().map(from_bf16));

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    // `std::arch` has a `bf16` of its own.
    use polaris_core::{bf16, f16};

    use super::{F32x8, F32x16, Lanes, Widen, from_bf16, from_f16};

    widen!(f16 as F32x16, from_f16; at => _mm512_cvtph_ps(_mm256_loadu_si256(at.cast())));
    widen!(f16 as F32x8, from_f16; at => _mm256_cvtph_ps(_mm_loadu_si128(at.cast())));
    widen!(bf16 as F32x16, from_bf16; at => {
        let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(at.cast()));
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
    });
    widen!(bf16 as F32x8, from_bf16; at => {
        let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(at.cast()));
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
    });
}
