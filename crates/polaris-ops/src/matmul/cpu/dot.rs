//! Matmul of few rows with a B whose columns are dense along k: a dot product for each element, in vectors along k,
//! so that B is read once and in place. B may be in half precision: `widen.rs`.

use polaris_core::{bf16, f16};
use polaris_runtime::cpu::SimdLevel;

use super::finish::TILE_STRIDE;
use super::lanes::{Lanes, Plain};
#[cfg(target_arch = "x86_64")]
use super::lanes_x86::{F32x8, F32x16, F64x4, F64x8};
use super::widen::Widen;
use crate::cpu::fetch::fetch_once;

/// Columns of a tile.
pub(super) const COLUMNS: usize = 4;
/// The most rows of a tile.
pub(super) const ROWS: usize = 6;

/// One tile: rows of A times columns of B, both dense along k. Strides are in elements.
#[derive(Clone, Copy)]
pub(super) struct DotCall<P> {
    pub a: *const P,
    pub a_stride: usize,
    /// Of the type that the kernel reads.
    pub b: *const u8,
    pub b_stride: usize,
    /// As many as the kernel is for.
    pub columns: usize,
    pub k: usize,
    /// Rows are `TILE_STRIDE` apart.
    pub to: *mut P,
}

pub(super) type Dot<P> = unsafe fn(&DotCall<P>);

/// The kernels of one instruction set, by rows and by columns, both from one on.
pub(super) type Dots<P> = [[Dot<P>; COLUMNS]; ROWS];

/// Bytes of a column that are fetched ahead, beyond its end those of the next, which usually follows it in memory.
const AHEAD: usize = 4096;
/// Vectors of a column of half precision that are multiplied before the next ones: 256 bytes, or four lines, of AVX-512.
const STEP: usize = 8;

/// # Safety
/// The instructions of `V` must exist, and the call's pointers be valid for what it describes.
#[inline(always)]
unsafe fn dots<V, T, const R: usize, const C: usize>(call: &DotCall<V::Packed>)
where
    V: Lanes<Sum = <V as Lanes>::Packed>,
    V::Packed: Default + std::ops::Add<Output = V::Packed>,
    T: Widen<V>,
{
    // SAFETY: by the caller's word.
    unsafe {
        if !T::IS_SHORT {
            return columns::<V, T, R, C>(call, 0, [[V::zero(); C]; R]);
        }
        // Half precision is how models are stored that fit no cache: memory is read from one end to the other, which
        // processors are fastest at, one column after the other.
        for j in 0..call.columns {
            let column = DotCall {
                b: call.b.cast::<T>().add(j * call.b_stride).cast(),
                to: call.to.add(j),
                columns: 1,
                ..*call
            };
            let (start, sums) = stream::<V, T, R>(&column);
            columns::<V, T, R, 1>(&column, start, sums.map(|sum| [sum]));
        }
    }
}

/// Multiplies one column in steps of [`STEP`] vectors: how many elements of it, and the sums.
///
/// # Safety
/// As for `dots`.
#[inline(always)]
unsafe fn stream<V, T, const R: usize>(call: &DotCall<V::Packed>) -> (usize, [V; R])
where
    V: Lanes<Sum = <V as Lanes>::Packed>,
    T: Widen<V>,
{
    // SAFETY: by the caller's word.
    unsafe {
        let b = call.b.cast::<T>();
        let step = STEP * V::COUNT;
        let whole = call.k / step * step;
        // Two chains of additions for each row: one would be waited for.
        let mut sums = [[V::zero(); 2]; R];
        for at in (0..whole).step_by(step) {
            for line in (0..step * size_of::<T>()).step_by(64) {
                fetch_once(b.add(at).cast::<u8>().wrapping_add(AHEAD + line));
            }
            for vector in 0..STEP {
                let place = at + vector * V::COUNT;
                let right = T::factors(b.add(place));
                for (i, row) in sums.iter_mut().enumerate() {
                    let left = V::factors(call.a.add(i * call.a_stride + place));
                    row[vector % 2] = row[vector % 2].add_product(left, right);
                }
            }
        }
        (whole, sums.map(|[a, b]| a.add(b)))
    }
}

/// Multiplies the elements of columns from `start` on, all columns at a time, and stores the sums.
///
/// # Safety
/// As for `dots`.
#[inline(always)]
unsafe fn columns<V, T, const R: usize, const C: usize>(
    call: &DotCall<V::Packed>,
    start: usize,
    mut sums: [[V; C]; R],
) where
    V: Lanes<Sum = <V as Lanes>::Packed>,
    V::Packed: Default + std::ops::Add<Output = V::Packed>,
    T: Widen<V>,
{
    // SAFETY: by the caller's word.
    unsafe {
        let b = call.b.cast::<T>();
        let whole = call.k / V::COUNT * V::COUNT;
        let mut at = start;
        while at < whole {
            let right: [V::Factors; C] =
                std::array::from_fn(|j| T::factors(b.add(j * call.b_stride + at)));
            for (i, row) in sums.iter_mut().enumerate() {
                let left = V::factors(call.a.add(i * call.a_stride + at));
                for (sum, &right) in row.iter_mut().zip(&right) {
                    *sum = sum.add_product(left, right);
                }
            }
            at += V::COUNT;
        }
        if whole < call.k {
            // The rest in vectors that end with zeros on both sides.
            let rest = |start: *const V::Packed| {
                let mut buffer = [V::Packed::default(); 16];
                V::load_first(start.add(whole), call.k - whole).store(buffer.as_mut_ptr());
                V::factors(buffer.as_ptr())
            };
            let widened = |start: *const T| {
                let mut buffer = [V::Packed::default(); 16];
                for (i, to) in buffer.iter_mut().enumerate().take(call.k - whole) {
                    *to = (*start.add(whole + i)).widened();
                }
                V::factors(buffer.as_ptr())
            };
            let right: [V::Factors; C] = std::array::from_fn(|j| widened(b.add(j * call.b_stride)));
            for (i, row) in sums.iter_mut().enumerate() {
                let left = rest(call.a.add(i * call.a_stride));
                for (sum, &right) in row.iter_mut().zip(&right) {
                    *sum = sum.add_product(left, right);
                }
            }
        }
        for (i, row) in sums.iter().enumerate() {
            for (j, &sum) in row.iter().enumerate() {
                let mut lanes = [V::Packed::default(); 16];
                sum.store(lanes.as_mut_ptr());
                let mut half = V::COUNT / 2;
                while half > 0 {
                    for lane in 0..half {
                        lanes[lane] = lanes[lane] + lanes[lane + half];
                    }
                    half /= 2;
                }
                *call.to.add(i * TILE_STRIDE + j) = lanes[0];
            }
        }
    }
}

/// A kernel compiled for some instructions.
macro_rules! compiled {
    ($name:ident $(, $features:literal)?) => {
        /// # Safety
        /// As for `dots`.
        $(#[target_feature(enable = $features)])?
        unsafe fn $name<V, T, const R: usize, const C: usize>(call: &DotCall<V::Packed>)
        where
            V: Lanes<Sum = <V as Lanes>::Packed>,
            V::Packed: Default + std::ops::Add<Output = V::Packed>,
            T: Widen<V>,
        {
            // SAFETY: by the caller's word.
            unsafe { dots::<V, T, R, C>(call) }
        }
    };
}

compiled!(plain);
#[cfg(target_arch = "x86_64")]
compiled!(avx2, "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
compiled!(avx512, "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma");

macro_rules! table {
    // One kernel for any number of columns, which it reads one after the other.
    ($compiled:ident, $lanes:ty, short $stored:ty, $($rows:literal)*) => {
        [$([$compiled::<$lanes, $stored, $rows, 1>; COLUMNS]),*]
    };
    ($compiled:ident, $lanes:ty, $stored:ty, $($rows:literal)*) => {
        [$([
            $compiled::<$lanes, $stored, $rows, 1>,
            $compiled::<$lanes, $stored, $rows, 2>,
            $compiled::<$lanes, $stored, $rows, 3>,
            $compiled::<$lanes, $stored, $rows, 4>,
        ]),*]
    };
}

macro_rules! dots_by_level {
    ($name:ident: $type:ty, [$($stored:tt)*], $avx512:ty, $avx2:ty, $plain:ty) => {
        pub(super) fn $name(level: SimdLevel) -> &'static Dots<$type> {
            match level {
                #[cfg(target_arch = "x86_64")]
                SimdLevel::Avx512 => {
            static DOTS: Dots<$type> = table!(avx512, $avx512, $($stored)*, 1 2 3 4 5 6);
                    &DOTS
                }
                #[cfg(target_arch = "x86_64")]
                SimdLevel::Avx2 => {
            static DOTS: Dots<$type> = table!(avx2, $avx2, $($stored)*, 1 2 3 4 5 6);
                    &DOTS
                }
                _ => {
            static DOTS: Dots<$type> = table!(plain, $plain, $($stored)*, 1 2 3 4 5 6);
                    &DOTS
                }
            }
        }
    };
}

dots_by_level!(f32_dots: f32, [f32], F32x16, F32x8, Plain<f32, 4>);
dots_by_level!(f16_dots: f32, [short f16], F32x16, F32x8, Plain<f32, 4>);
dots_by_level!(bf16_dots: f32, [short bf16], F32x16, F32x8, Plain<f32, 4>);
dots_by_level!(f64_dots: f64, [f64], F64x8, F64x4, Plain<f64, 2>);
