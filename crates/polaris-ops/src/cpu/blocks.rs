//! Elements in blocks of a compute type: loaded from any type and stride, computed on, stored to
//! any type and stride. Each operation then has one loop over dense blocks, not one for every
//! combination of types and layouts.

use half::slice::HalfFloatSliceExt;
use polaris_core::{DType, Element, bf16, f16};

/// Elements of a block: large enough to hide the cost of a call, small enough for the L1 cache.
pub const BLOCK: usize = 512;

/// Elements that are worked on at once where none of them is copied into a block.
pub const LONG_BLOCK: usize = 16 * BLOCK;

/// The type in which a computation is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compute {
    F32,
    F64,
    I64,
}

impl Compute {
    /// Half precisions are computed in `f32`, all integers and `bool` in `i64`.
    pub fn of(dtype: DType) -> Self {
        match dtype {
            DType::F32 | DType::F16 | DType::BF16 => Self::F32,
            DType::F64 => Self::F64,
            _ => Self::I64,
        }
    }
}

/// A compute type: how each element type becomes it, and it becomes each.
pub trait ComputeType: Copy + Default + Send + Sync + PartialOrd + 'static {
    /// The element type with the same representation.
    const NATIVE: DType;

    /// # Safety
    /// `at` must be valid for reading one element of the type.
    unsafe fn load_one(at: *const u8, dtype: DType) -> Self;

    /// # Safety
    /// `at` must be valid for writing one element of the type.
    unsafe fn store_one(self, at: *mut u8, dtype: DType);

    /// Loads dense elements; overridden where there is a faster way than one by one.
    ///
    /// # Safety
    /// `at` must be valid for reading `target.len()` elements of the type.
    unsafe fn load_dense(at: *const u8, dtype: DType, target: &mut [Self]) {
        // SAFETY: by the caller's word.
        unsafe { load_each(at, dtype, target) }
    }

    /// Stores dense elements; overridden where there is a faster way than one by one.
    ///
    /// # Safety
    /// `at` must be valid for writing `source.len()` elements of the type.
    unsafe fn store_dense(source: &[Self], at: *mut u8, dtype: DType) {
        // SAFETY: by the caller's word.
        unsafe { store_each(source, at, dtype) }
    }
}

macro_rules! element_loops {
    ($native:ident, |$v:ident| $to_bool:expr) => {
        const NATIVE: DType = DType::$native;

        #[inline(always)]
        unsafe fn load_one(at: *const u8, dtype: DType) -> Self {
            // SAFETY: by the caller's word; the types are the element types' own.
            unsafe {
                match dtype {
                    DType::F32 => *at.cast::<f32>() as Self,
                    DType::F64 => *at.cast::<f64>() as Self,
                    DType::F16 => (*at.cast::<f16>()).to_f32() as Self,
                    DType::BF16 => (*at.cast::<bf16>()).to_f32() as Self,
                    DType::I8 => *at.cast::<i8>() as Self,
                    DType::U8 => *at as Self,
                    DType::I32 => *at.cast::<i32>() as Self,
                    DType::I64 => *at.cast::<i64>() as Self,
                    DType::Bool => u8::from(*at != 0) as Self,
                }
            }
        }

        #[inline(always)]
        unsafe fn store_one(self, at: *mut u8, dtype: DType) {
            let $v = self;
            // SAFETY: by the caller's word.
            unsafe {
                match dtype {
                    DType::F32 => *at.cast::<f32>() = self as f32,
                    DType::F64 => *at.cast::<f64>() = self as f64,
                    DType::F16 => *at.cast::<f16>() = <f16 as Element>::from_f64(self as f64),
                    DType::BF16 => *at.cast::<bf16>() = <bf16 as Element>::from_f64(self as f64),
                    DType::I8 => *at.cast::<i8>() = self as i8,
                    DType::U8 => *at = self as u8,
                    DType::I32 => *at.cast::<i32>() = self as i32,
                    DType::I64 => *at.cast::<i64>() = self as i64,
                    DType::Bool => *at = u8::from($to_bool),
                }
            }
        }
    };
}

/// A loop with the type outside, so that the inner loop is plain code for one type.
macro_rules! dense_loop {
    ($dtype:expr, $each:expr) => {
        match $dtype {
            DType::F32 => $each(DType::F32),
            DType::F64 => $each(DType::F64),
            DType::F16 => $each(DType::F16),
            DType::BF16 => $each(DType::BF16),
            DType::I8 => $each(DType::I8),
            DType::U8 => $each(DType::U8),
            DType::I32 => $each(DType::I32),
            DType::I64 => $each(DType::I64),
            DType::Bool => $each(DType::Bool),
        }
    };
}

/// # Safety
/// As for `ComputeType::load_dense`.
unsafe fn load_each<C: ComputeType>(at: *const u8, dtype: DType, target: &mut [C]) {
    dense_loop!(dtype, |dtype: DType| {
        for (i, value) in target.iter_mut().enumerate() {
            // SAFETY: by the caller's word.
            *value = unsafe { C::load_one(at.add(i * dtype.size()), dtype) };
        }
    });
}

/// # Safety
/// As for `ComputeType::store_dense`.
unsafe fn store_each<C: ComputeType>(source: &[C], at: *mut u8, dtype: DType) {
    dense_loop!(dtype, |dtype: DType| {
        for (i, value) in source.iter().enumerate() {
            // SAFETY: by the caller's word.
            unsafe { value.store_one(at.add(i * dtype.size()), dtype) };
        }
    });
}

impl ComputeType for f32 {
    element_loops!(F32, |v| v != 0.0);

    unsafe fn load_dense(at: *const u8, dtype: DType, target: &mut [Self]) {
        let len = target.len();
        match dtype {
            DType::F16 => {
                // SAFETY: by the caller's word. The conversion uses the processor's own.
                unsafe { std::slice::from_raw_parts(at.cast::<f16>(), len) }
                    .convert_to_f32_slice(target);
            }
            DType::BF16 => {
                // SAFETY: by the caller's word.
                let source = unsafe { std::slice::from_raw_parts(at.cast::<u16>(), len) };
                for (value, &bits) in target.iter_mut().zip(source) {
                    *value = f32::from_bits(u32::from(bits) << 16);
                }
            }
            // SAFETY: by the caller's word.
            _ => unsafe { load_each(at, dtype, target) },
        }
    }

    unsafe fn store_dense(source: &[Self], at: *mut u8, dtype: DType) {
        match dtype {
            DType::F16 => {
                // SAFETY: by the caller's word. The conversion uses the processor's own.
                unsafe { std::slice::from_raw_parts_mut(at.cast::<f16>(), source.len()) }
                    .convert_from_f32_slice(source);
            }
            DType::BF16 => {
                // SAFETY: by the caller's word.
                let target =
                    unsafe { std::slice::from_raw_parts_mut(at.cast::<bf16>(), source.len()) };
                for (to, &value) in target.iter_mut().zip(source) {
                    *to = bf16::from_f32(value);
                }
            }
            // SAFETY: by the caller's word.
            _ => unsafe { store_each(source, at, dtype) },
        }
    }
}

impl ComputeType for f64 {
    element_loops!(F64, |v| v != 0.0);
}

impl ComputeType for i64 {
    element_loops!(I64, |v| v != 0);
}

/// A row of an operand: where it starts and how far apart its elements are.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub start: *mut u8,
    pub dtype: DType,
    /// In elements.
    pub stride: usize,
}

impl Row {
    /// `count` elements from `first` on as a dense slice: the operand's own memory if the row is
    /// direct, otherwise copied into `scratch`, which must have room for them.
    ///
    /// # Safety
    /// The row must be valid for reading those elements, and nobody may write them while the
    /// result is used.
    pub unsafe fn load<'a, C: ComputeType>(
        &self,
        first: usize,
        count: usize,
        scratch: &'a mut [C],
    ) -> &'a [C] {
        let size = self.dtype.size();
        // SAFETY: by the caller's word.
        unsafe {
            let at = self.start.add(first * self.stride * size);
            if self.is_direct::<C>() {
                return std::slice::from_raw_parts(at.cast(), count);
            }
            let scratch = &mut scratch[..count];
            match self.stride {
                1 => C::load_dense(at, self.dtype, scratch),
                0 => scratch.fill(C::load_one(at, self.dtype)),
                stride if self.dtype == C::NATIVE => {
                    for (i, value) in scratch.iter_mut().enumerate() {
                        *value = *at.cast::<C>().add(i * stride);
                    }
                }
                stride => {
                    for (i, value) in scratch.iter_mut().enumerate() {
                        *value = C::load_one(at.add(i * stride * size), self.dtype);
                    }
                }
            }
            scratch
        }
    }

    /// Whether `load` returns the operand's own memory.
    pub fn is_direct<C: ComputeType>(&self) -> bool {
        self.stride == 1 && self.dtype == C::NATIVE
    }

    /// Stores a block from `first` on.
    ///
    /// # Safety
    /// The row must be valid for writing `values.len()` elements from `first`.
    pub unsafe fn store<C: ComputeType>(&self, first: usize, values: &[C]) {
        let size = self.dtype.size();
        // SAFETY: by the caller's word.
        unsafe {
            let at = self.start.add(first * self.stride * size);
            match self.stride {
                1 if self.dtype == C::NATIVE => {
                    std::ptr::copy_nonoverlapping(values.as_ptr(), at.cast::<C>(), values.len());
                }
                1 => C::store_dense(values, at, self.dtype),
                stride if self.dtype == C::NATIVE => {
                    for (i, &value) in values.iter().enumerate() {
                        *at.cast::<C>().add(i * stride) = value;
                    }
                }
                stride => {
                    for (i, value) in values.iter().enumerate() {
                        value.store_one(at.add(i * stride * size), self.dtype);
                    }
                }
            }
        }
    }
}

/// A cache line.
pub const LINE: usize = 64;

/// The most that is fetched ahead of its use: along a longer row, the processor sees by itself what
/// is needed next.
const AHEAD: usize = 4096;

/// Asks for memory that is needed soon, while there is still something else to compute. It is a hint:
/// any address is allowed.
#[inline(always)]
pub fn fetch_ahead(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..bytes.min(AHEAD)).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint touches no memory, and SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}

/// Elements that are streamed at a time: whole cache lines of every compute type.
pub const STREAMED: usize = 16;

/// Writes past the caches: a result larger than them need not first be read into them, which
/// saves a quarter of the traffic of an addition. The wider the stores, the better: a whole line
/// at once leaves the processor without delay.
///
/// # Safety
/// `at` must be valid for writing and aligned to a line, and the processor must have vectors of
/// that many bytes.
#[inline(always)]
pub unsafe fn stream<C: ComputeType, const VECTOR_BYTES: usize>(
    values: &[C; STREAMED],
    at: *mut C,
) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        for offset in (0..size_of_val(values)).step_by(VECTOR_BYTES) {
            // SAFETY: by the caller's word; SSE2 is part of x86-64.
            unsafe {
                let from = values.as_ptr().byte_add(offset);
                let to = at.byte_add(offset);
                match VECTOR_BYTES {
                    64 => _mm512_stream_si512(to.cast(), _mm512_loadu_si512(from.cast())),
                    32 => _mm256_stream_si256(to.cast(), _mm256_loadu_si256(from.cast())),
                    _ => _mm_stream_si128(to.cast(), _mm_loadu_si128(from.cast())),
                }
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: by the caller's word.
    unsafe {
        std::ptr::copy_nonoverlapping(values.as_ptr(), at, STREAMED);
    }
}

/// Makes streamed stores visible to other threads: called by each thread when it is done.
pub fn end_streaming() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
