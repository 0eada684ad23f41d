//! Vectors as the micro-kernel sees them, and those of plain code.

use crate::quantize::Bounds;

/// A vector register of accumulators, and how factors are multiplied into it.
///
/// # Safety
/// Methods must only be called where the implementation's instructions exist; pointers must be
/// valid for the elements that are named.
pub(crate) unsafe trait Lanes: Copy {
    /// What panels of A and B consist of: numbers, or groups of bytes along k.
    type Packed: Copy;
    /// What products are summed in.
    type Sum: Copy;
    /// A vector of factors.
    type Factors: Copy;
    /// Sums in a vector; as many packed elements are in a vector of factors.
    const COUNT: usize;

    unsafe fn zero() -> Self;
    unsafe fn load(at: *const Self::Sum) -> Self;
    unsafe fn store(self, at: *mut Self::Sum);
    /// Loads the first `count` accumulators; the others are zero, and their memory is not touched.
    unsafe fn load_first(at: *const Self::Sum, count: usize) -> Self;
    /// Stores the first `count` accumulators and touches no other memory.
    unsafe fn store_first(self, at: *mut Self::Sum, count: usize);
    unsafe fn add(self, other: Self) -> Self;
    /// What is below `low` becomes that, then what is above `high` that; no number stays none.
    unsafe fn between(self, low: Self::Sum, high: Self::Sum) -> Self;
    unsafe fn factors(at: *const Self::Packed) -> Self::Factors;
    /// One element in all lanes.
    unsafe fn repeat(at: *const Self::Packed) -> Self::Factors;
    /// `self + left * right`.
    unsafe fn add_product(self, left: Self::Factors, right: Self::Factors) -> Self;

    /// Whether there are the following two.
    const TO_BYTES: bool = false;
    /// Sums, each multiplied by the `f32` in its lane of `factors`, as whole numbers whose last eight bits are the byte.
    unsafe fn whole(self, _factors: Self, _bounds: &Bounds) -> Self {
        self
    }
    /// Stores the last eight bits of the first `count` sums.
    unsafe fn store_bytes(self, _to: *mut u8, _count: usize) {}
}

/// The arithmetic of one lane in plain code.
pub(crate) trait Scalar: Copy + PartialOrd {
    type Packed: Copy;
    const ZERO: Self;
    fn plus(self, other: Self) -> Self;
    fn plus_product(self, left: Self::Packed, right: Self::Packed) -> Self;
}

macro_rules! float_scalar {
    ($($type:ty),*) => { $(
        impl Scalar for $type {
            type Packed = $type;
            const ZERO: Self = 0.0;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn plus_product(self, left: $type, right: $type) -> Self {
                // Where fusing is not an instruction of the baseline, it is a slow call.
                if cfg!(target_arch = "aarch64") {
                    left.mul_add(right, self)
                } else {
                    self + left * right
                }
            }
        }
    )* };
}

float_scalar!(f32, f64);

/// Pairs of 16-bit integers.
impl Scalar for i32 {
    type Packed = u32;
    const ZERO: Self = 0;

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn plus_product(self, left: u32, right: u32) -> Self {
        let product = |shift: u32| {
            i32::from((left >> shift) as u16 as i16) * i32::from((right >> shift) as u16 as i16)
        };
        self.wrapping_add(product(0)).wrapping_add(product(16))
    }
}

/// Lanes that the compiler turns into whatever vectors its baseline has.
#[derive(Clone, Copy)]
pub(crate) struct Plain<T, const N: usize>([T; N]);

// SAFETY: plain code exists everywhere, and touches exactly the elements that are named.
unsafe impl<T: Scalar, const N: usize> Lanes for Plain<T, N> {
    type Packed = T::Packed;
    type Sum = T;
    type Factors = [T::Packed; N];
    const COUNT: usize = N;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([T::ZERO; N])
    }

    #[inline(always)]
    unsafe fn load(at: *const T) -> Self {
        // SAFETY: by the caller's word.
        Self(unsafe { at.cast::<[T; N]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut T) {
        // SAFETY: by the caller's word.
        unsafe { at.cast::<[T; N]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn load_first(at: *const T, count: usize) -> Self {
        // SAFETY: by the caller's word, `count` elements may be read.
        Self(std::array::from_fn(|i| if i < count { unsafe { *at.add(i) } } else { T::ZERO }))
    }

    #[inline(always)]
    unsafe fn store_first(self, at: *mut T, count: usize) {
        for (i, &value) in self.0.iter().enumerate().take(count) {
            // SAFETY: by the caller's word.
            unsafe { *at.add(i) = value };
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].plus(other.0[i])))
    }

    #[inline(always)]
    unsafe fn between(self, low: T, high: T) -> Self {
        let raised = self.0.map(|x| if x < low { low } else { x });
        Self(raised.map(|x| if x > high { high } else { x }))
    }

    #[inline(always)]
    unsafe fn factors(at: *const T::Packed) -> Self::Factors {
        // SAFETY: by the caller's word.
        unsafe { at.cast::<Self::Factors>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn repeat(at: *const T::Packed) -> Self::Factors {
        // SAFETY: by the caller's word.
        [unsafe { *at }; N]
    }

    #[inline(always)]
    unsafe fn add_product(self, left: Self::Factors, right: Self::Factors) -> Self {
        Self(std::array::from_fn(|i| self.0[i].plus_product(left[i], right[i])))
    }
}
