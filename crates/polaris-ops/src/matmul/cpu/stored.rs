//! Conversions from stored elements to elements of panels.

use polaris_core::{bf16, f16};

/// One way from stored to packed elements. A packed element holds `GROUP` stored ones along k;
/// where k ends inside a group, the rest is zero.
pub(crate) trait Packing {
    type Stored: Copy;
    type Packed: Copy + Default;
    const GROUP: usize;
    /// Whether a stored element is a packed one.
    const SAME: bool = false;

    /// The group of these stored elements.
    fn pack(group: &[Self::Stored]) -> Self::Packed;

    /// Packs `N` groups that lie side by side across k.
    ///
    /// # Safety
    /// `from` must be valid for `N` elements in each of `GROUP` steps of `step` elements, and the
    /// processor must have vectors of that many bytes.
    #[inline(always)]
    unsafe fn across<const N: usize, const VECTOR_BYTES: usize>(
        from: *const Self::Stored,
        step: usize,
    ) -> [Self::Packed; N] {
        // SAFETY: by the caller's word.
        let rows: [[Self::Stored; N]; 4] = std::array::from_fn(|i| unsafe {
            from.add(if i < Self::GROUP { i * step } else { 0 }).cast::<[_; N]>().read_unaligned()
        });
        std::array::from_fn(|lane| {
            let group: [Self::Stored; 4] = std::array::from_fn(|i| rows[i][lane]);
            Self::pack(&group[..Self::GROUP])
        })
    }

    /// Packs `N` groups that follow one another along k.
    ///
    /// # Safety
    /// `from` must be valid for `N * GROUP` elements, and the processor must have vectors of that
    /// many bytes.
    #[inline(always)]
    unsafe fn along<const N: usize, const VECTOR_BYTES: usize>(
        from: *const Self::Stored,
    ) -> [Self::Packed; N] {
        // SAFETY: by the caller's word.
        std::array::from_fn(|i| unsafe {
            Self::pack(std::slice::from_raw_parts(from.add(i * Self::GROUP), Self::GROUP))
        })
    }
}

/// Floating-point numbers that are computed with as they are.
pub(crate) struct Native<T>(std::marker::PhantomData<T>);

impl<T: Copy + Default> Packing for Native<T> {
    type Stored = T;
    type Packed = T;
    const GROUP: usize = 1;
    const SAME: bool = true;

    #[inline(always)]
    fn pack(group: &[T]) -> T {
        group[0]
    }
}

impl Packing for f16 {
    type Stored = f16;
    type Packed = f32;
    const GROUP: usize = 1;

    #[inline(always)]
    fn pack(group: &[f16]) -> f32 {
        group[0].to_f32()
    }

    #[inline(always)]
    unsafe fn across<const N: usize, const VECTOR_BYTES: usize>(
        from: *const f16,
        _step: usize,
    ) -> [f32; N] {
        // SAFETY: one step across and N along are the same elements.
        unsafe { Self::along::<N, VECTOR_BYTES>(from) }
    }

    #[inline(always)]
    unsafe fn along<const N: usize, const VECTOR_BYTES: usize>(from: *const f16) -> [f32; N] {
        #[cfg(target_arch = "x86_64")]
        if VECTOR_BYTES >= 32 && N.is_multiple_of(8) {
            use std::arch::x86_64::*;
            let mut wide = [0.0; N];
            for i in (0..N).step_by(8) {
                // SAFETY: by the caller's word; processors with such vectors have the conversion.
                unsafe {
                    let eight = _mm256_cvtph_ps(_mm_loadu_si128(from.add(i).cast()));
                    _mm256_storeu_ps(wide.as_mut_ptr().add(i), eight);
                }
            }
            return wide;
        }
        // SAFETY: by the caller's word.
        std::array::from_fn(|i| unsafe { (*from.add(i)).to_f32() })
    }
}

impl Packing for bf16 {
    type Stored = bf16;
    type Packed = f32;
    const GROUP: usize = 1;

    #[inline(always)]
    fn pack(group: &[bf16]) -> f32 {
        f32::from_bits(u32::from(group[0].to_bits()) << 16)
    }
}

/// A byte, signed or not.
pub(super) trait Byte: Copy {
    /// As an unsigned byte: signed ones are raised by 128.
    fn raised(self) -> u8;
    fn wide(self) -> i16;
}

impl Byte for i8 {
    #[inline(always)]
    fn raised(self) -> u8 {
        (self as u8) ^ 0x80
    }

    #[inline(always)]
    fn wide(self) -> i16 {
        i16::from(self)
    }
}

impl Byte for u8 {
    #[inline(always)]
    fn raised(self) -> u8 {
        self
    }

    #[inline(always)]
    fn wide(self) -> i16 {
        i16::from(self)
    }
}

/// The bytes of a group in one number, the first lowest; those that are not there are zero.
#[inline(always)]
fn quad<T: Copy>(group: &[T], byte: impl Fn(T) -> u8) -> u32 {
    let at = |i: usize| group.get(i).map_or(0, |&value| u32::from(byte(value)) << (8 * i));
    at(0) | at(1) | at(2) | at(3)
}

/// Four bytes as the left factor of an instruction that takes unsigned ones.
pub(super) struct RaisedQuads<T>(std::marker::PhantomData<T>);

impl<T: Byte> Packing for RaisedQuads<T> {
    type Stored = T;
    type Packed = u32;
    const GROUP: usize = 4;

    #[inline(always)]
    fn pack(group: &[T]) -> u32 {
        quad(group, T::raised)
    }
}

/// Four signed bytes as they are.
pub(super) struct Quads;

impl Packing for Quads {
    type Stored = i8;
    type Packed = u32;
    const GROUP: usize = 4;

    #[inline(always)]
    fn pack(group: &[i8]) -> u32 {
        quad(group, |value| value as u8)
    }
}

/// Two bytes widened to 16 bits.
pub(super) struct Pairs<T>(std::marker::PhantomData<T>);

impl<T: Byte> Packing for Pairs<T> {
    type Stored = T;
    type Packed = u32;
    const GROUP: usize = 2;

    #[inline(always)]
    fn pack(group: &[T]) -> u32 {
        let at =
            |i: usize| group.get(i).map_or(0, |value| u32::from(value.wide() as u16) << (16 * i));
        at(0) | at(1)
    }
}
