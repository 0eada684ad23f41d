//! The micro-kernel: a few rows of A times a few vectors of columns of B, with all accumulators in registers; and its
//! table for each instruction set.

use std::hint::black_box;

use polaris_runtime::cpu::SimdLevel;

use super::lanes::{Lanes, Plain};
#[cfg(target_arch = "x86_64")]
use super::lanes_x86::{F32x8, F32x16, F64x4, F64x8, Pairs8, Pairs16, Quads16};
use crate::quantize::Bounds;

/// The largest tile of any kernel, in accumulators.
pub(super) const MAX_TILE: usize = 14 * 32;
/// The most columns of a tile of any kernel.
pub(super) const MAX_COLUMNS: usize = 32;

/// One tile: `to = from + A B`. Strides are in elements.
#[derive(Clone, Copy)]
pub(crate) struct Call<P, S> {
    /// The tile's rows of A. Rows are adjacent and `a_stride` is that of k, or k is adjacent and
    /// `a_stride` is that of rows: each has its own kernel.
    pub a: *const P,
    pub a_stride: usize,
    /// The tile's columns of B: whole vectors, adjacent; `b_stride` is that of k.
    pub b: *const P,
    pub b_stride: usize,
    pub steps: usize,
    /// How often so many steps follow one another, and elements of A from the end of one piece to the
    /// next; B goes on.
    pub pieces: usize,
    pub a_jump: usize,
    /// Initial accumulators; zero if null. A stride of zero begins every row alike.
    pub from: *const S,
    pub from_stride: usize,
    pub to: *mut S,
    pub to_stride: usize,
    /// Columns that are there; vectors beyond them are computed and not stored.
    pub columns: usize,
    pub ending: Ending<S>,
}

/// The epilogue in registers.
#[derive(Clone, Copy)]
pub(crate) struct Ending<S> {
    /// What is added; nothing if null.
    pub plus: *const S,
    pub plus_stride: usize,
    /// What they are then kept between.
    pub limits: Option<[S; 2]>,
    /// How sums become bytes, which `to` then points to and `to_stride` counts; null if they do not.
    pub bytes: *const ToBytes,
}

/// How sums become bytes.
#[derive(Clone, Copy)]
pub(crate) struct ToBytes {
    /// What the sums of each column are multiplied by.
    pub factors: *const f32,
    pub bounds: Bounds,
}

impl<S> Ending<S> {
    /// They are stored as they are.
    pub const PLAIN: Self =
        Self { plus: std::ptr::null(), plus_stride: 0, limits: None, bytes: std::ptr::null() };
}

pub(crate) type Kernel<P, S> = unsafe fn(&Call<P, S>);

/// Kernels for one or two vectors of columns.
type ByVectors<P, S> = [Kernel<P, S>; 2];

/// The kernels of one instruction set, by rows (from one on) and vectors.
pub(crate) struct Kernels<P: 'static, S: 'static> {
    /// Columns of a vector.
    pub lanes: usize,
    adjacent_rows: &'static [ByVectors<P, S>],
    adjacent_steps: &'static [ByVectors<P, S>],
    /// The same for a B that is near.
    near_steps: &'static [ByVectors<P, S>],
    /// The same for fewer rows and four vectors, where there are registers for that.
    wide_near_steps: &'static [Kernel<P, S>],
    /// Whether calls may have an ending with bytes.
    pub to_bytes: bool,
}

impl<P, S> Kernels<P, S> {
    /// The most rows of a tile, of panels of A or of A in place.
    pub fn rows(&self, in_place: bool) -> usize {
        if in_place { self.adjacent_steps.len() } else { self.adjacent_rows.len() }
    }

    /// The most columns of a tile.
    pub fn columns(&self) -> usize {
        2 * self.lanes
    }

    /// The kernel for panels of A, or for A with adjacent rows in place.
    pub fn for_adjacent_rows(&self, rows: usize, columns: usize) -> Kernel<P, S> {
        self.adjacent_rows[rows - 1][usize::from(columns > self.lanes)]
    }

    /// The kernel for A in place with adjacent steps of k, by whether B is in the first caches.
    pub fn for_adjacent_steps(&self, rows: usize, columns: usize, near: bool) -> Kernel<P, S> {
        let kernels = if near { self.near_steps } else { self.adjacent_steps };
        kernels[rows - 1][usize::from(columns > self.lanes)]
    }
}

impl<P, S> Kernels<P, S> {
    /// The kernels for A in place with adjacent steps of k, a near B and four vectors of columns,
    /// by rows from one on; none if there are not registers enough.
    pub fn wide(&self) -> &'static [Kernel<P, S>] {
        self.wide_near_steps
    }
}

/// Asks for a cache line that will be needed.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; SSE is part of x86-64, and any address may be named.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Where the rows of A are. If rows are not adjacent, every third has a pointer of its own, from
/// which an address reaches the next two: a pointer for each would be more than there are
/// registers, and one for all would be moved from row to row in every step.
struct LeftRows<P, const ADJACENT_ROWS: bool> {
    starts: [*const P; 5],
    stride: usize,
}

impl<P, const ADJACENT_ROWS: bool> LeftRows<P, ADJACENT_ROWS> {
    #[inline(always)]
    fn new<S>(call: &Call<P, S>) -> Self {
        // The compiler must not see how they belong together, or it makes them one again.
        let start = |third: usize| black_box(call.a.wrapping_add(3 * third * call.a_stride));
        let starts = std::array::from_fn(|third| if ADJACENT_ROWS { call.a } else { start(third) });
        Self { starts, stride: call.a_stride }
    }

    /// A row's element of this step.
    #[inline(always)]
    fn at(&self, row: usize) -> *const P {
        match ADJACENT_ROWS {
            true => self.starts[0].wrapping_add(row),
            false => self.starts[row / 3].wrapping_add(row % 3 * self.stride),
        }
    }

    #[inline(always)]
    fn advance(&mut self) {
        match ADJACENT_ROWS {
            true => self.starts[0] = self.starts[0].wrapping_add(self.stride),
            false => self.jump(1),
        }
    }

    #[inline(always)]
    fn jump(&mut self, elements: usize) {
        let starts = if ADJACENT_ROWS { 1 } else { self.starts.len() };
        self.starts[..starts].iter_mut().for_each(|start| *start = start.wrapping_add(elements));
    }
}

/// Steps of k of which B is asked for in advance, where it comes from the L2 cache or from memory. Where it is near,
/// that would take the time of loads and drive other things out.
const AHEAD: usize = 16;

/// # Safety
/// The instructions of `V` must exist, and the call's pointers be valid for what it describes.
#[inline(always)]
unsafe fn tile<
    V: Lanes,
    const R: usize,
    const C: usize,
    const ADJACENT_ROWS: bool,
    const NEAR: bool,
>(
    call: &Call<V::Packed, V::Sum>,
) {
    // SAFETY: by the caller's word.
    unsafe {
        let ending = &call.ending;
        // These are needed only at the end; rows that follow one another are near, or all the same.
        let (to, from) = ((call.to.cast_const(), call.to_stride), (call.from, call.from_stride));
        for (start, stride) in [to, from, (ending.plus, ending.plus_stride)] {
            if stride > MAX_COLUMNS {
                for row in 0..R {
                    for vector in 0..C {
                        prefetch(start.wrapping_add(row * stride + vector * V::COUNT));
                    }
                }
            }
        }
        let mut sums = [[V::zero(); C]; R];
        let mut left = LeftRows::<V::Packed, ADJACENT_ROWS>::new(call);
        let mut b = call.b;
        for _ in 0..call.pieces {
            for _ in 0..call.steps {
                for vector in 0..if NEAR { 0 } else { C } {
                    prefetch(b.wrapping_add(AHEAD * call.b_stride + vector * V::COUNT));
                }
                let right: [V::Factors; C] =
                    std::array::from_fn(|j| V::factors(b.add(j * V::COUNT)));
                for (i, row) in sums.iter_mut().enumerate() {
                    let left = V::repeat(left.at(i));
                    for (sum, &right) in row.iter_mut().zip(&right) {
                        *sum = sum.add_product(left, right);
                    }
                }
                left.advance();
                b = b.add(call.b_stride);
            }
            left.jump(call.a_jump);
        }
        // One thing after the other, each of so little code that all of it is unrolled and accumulators stay in
        // registers.
        let last = call.columns - (C - 1) * V::COUNT;
        add(&mut sums, call.from, call.from_stride, last);
        add(&mut sums, ending.plus, ending.plus_stride, last);
        if let Some([low, high]) = ending.limits {
            for row in &mut sums {
                for sum in row {
                    *sum = sum.between(low, high);
                }
            }
        }
        if V::TO_BYTES && !ending.bytes.is_null() {
            store_bytes(&mut sums, &*ending.bytes, call.to.cast(), call.to_stride, last);
            return;
        }
        for (i, row) in sums.iter().enumerate() {
            for (j, &sum) in row.iter().enumerate() {
                let to = call.to.add(i * call.to_stride + j * V::COUNT);
                match j < C - 1 || last == V::COUNT {
                    true => sum.store(to),
                    false => sum.store_first(to, last),
                }
            }
        }
    }
}

/// Adds a matrix, if there is one, to a tile whose last vectors have `last` columns.
///
/// # Safety
/// As for `tile`.
#[inline(always)]
unsafe fn add<V: Lanes, const R: usize, const C: usize>(
    sums: &mut [[V; C]; R],
    start: *const V::Sum,
    stride: usize,
    last: usize,
) {
    if start.is_null() {
        return;
    }
    for (i, row) in sums.iter_mut().enumerate() {
        for (j, sum) in row.iter_mut().enumerate() {
            // SAFETY: by the caller's word.
            unsafe {
                let at = start.add(i * stride + j * V::COUNT);
                *sum = sum.add(match j < C - 1 || last == V::COUNT {
                    true => V::load(at),
                    false => V::load_first(at, last),
                });
            }
        }
    }
}

/// Stores a tile whose last vectors have `last` columns as bytes.
///
/// # Safety
/// As for `tile`.
#[inline(always)]
unsafe fn store_bytes<V: Lanes, const R: usize, const C: usize>(
    sums: &mut [[V; C]; R],
    how: &ToBytes,
    to: *mut u8,
    stride: usize,
    last: usize,
) {
    let count = |j: usize| if j < C - 1 { V::COUNT } else { last };
    let factors = |j: usize| how.factors.wrapping_add(j * V::COUNT).cast();
    // SAFETY: by the caller's word, here and below.
    let factors: [V; C] = std::array::from_fn(|j| unsafe {
        match count(j) == V::COUNT {
            true => V::load(factors(j)),
            false => V::load_first(factors(j), last),
        }
    });
    // As in `tile`, one thing after the other.
    for row in sums.iter_mut() {
        for (sum, &factors) in row.iter_mut().zip(&factors) {
            // SAFETY: see above.
            *sum = unsafe { sum.whole(factors, &how.bounds) };
        }
    }
    for (i, row) in sums.iter().enumerate() {
        for (j, &sum) in row.iter().enumerate() {
            // SAFETY: see above.
            unsafe { sum.store_bytes(to.wrapping_add(i * stride + j * V::COUNT), count(j)) };
        }
    }
}

/// A kernel compiled for some instructions.
macro_rules! compiled {
    ($name:ident $(, $features:literal)?) => {
        /// # Safety
        /// As for `tile`.
        $(#[target_feature(enable = $features)])?
        unsafe fn $name<
            V: Lanes,
            const R: usize,
            const C: usize,
            const ADJACENT_ROWS: bool,
            const NEAR: bool,
        >(
            call: &Call<V::Packed, V::Sum>,
        ) {
            // SAFETY: by the caller's word.
            unsafe { tile::<V, R, C, ADJACENT_ROWS, NEAR>(call) }
        }
    };
}

compiled!(plain);
#[cfg(target_arch = "x86_64")]
compiled!(avx2, "avx2,fma");
#[cfg(target_arch = "x86_64")]
compiled!(avx512, "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma");
#[cfg(target_arch = "x86_64")]
compiled!(vnni, "avx512vnni,avx512f,avx512bw,avx512vl,avx512dq,avx2,fma");

/// The kernels of one instruction set. For the last numbers of rows there are only those for
/// panels: with others, the compiler does not find a register for every sum.
macro_rules! kernels {
    (pair $compiled:ident, $lanes:ty, $rows:literal, $adjacent_rows:literal, $near:literal) => {
        [
            $compiled::<$lanes, $rows, 1, $adjacent_rows, $near>,
            $compiled::<$lanes, $rows, 2, $adjacent_rows, $near>,
        ]
    };
    ($compiled:ident, $lanes:ty, $($rows:literal)*; $($more:literal)*; $($wide:literal)*) => {
        Kernels {
            lanes: <$lanes>::COUNT,
            adjacent_rows: &[
                $(kernels!(pair $compiled, $lanes, $rows, true, false),)*
                $(kernels!(pair $compiled, $lanes, $more, true, false),)*
            ],
            adjacent_steps: &[$(kernels!(pair $compiled, $lanes, $rows, false, false)),*],
            near_steps: &[$(kernels!(pair $compiled, $lanes, $rows, false, true)),*],
            wide_near_steps: &[$($compiled::<$lanes, $wide, 4, false, true>),*],
            to_bytes: <$lanes>::TO_BYTES,
        }
    };
}

/// The kernels of one type, best instruction set first.
macro_rules! kernels_by_level {
    ($name:ident: $packed:ty => $sum:ty, $avx512:ty, $avx2:ty, $plain:ty) => {
        pub(crate) fn $name(level: SimdLevel) -> &'static Kernels<$packed, $sum> {
            match level {
                #[cfg(target_arch = "x86_64")]
                SimdLevel::Avx512 => {
                    static KERNELS: Kernels<$packed, $sum> =
                kernels!(avx512, $avx512, 1 2 3 4 5 6 7 8 9 10 11 12 13; 14; 1 2 3 4 5 6);
                    &KERNELS
                }
                #[cfg(target_arch = "x86_64")]
                SimdLevel::Avx2 => {
            static KERNELS: Kernels<$packed, $sum> = kernels!(avx2, $avx2, 1 2 3 4 5 6;;);
                    &KERNELS
                }
                _ => {
            static KERNELS: Kernels<$packed, $sum> = kernels!(plain, $plain, 1 2 3 4;;);
                    &KERNELS
                }
            }
        }
    };
}

kernels_by_level!(f32_kernels: f32 => f32, F32x16, F32x8, Plain<f32, 4>);
kernels_by_level!(f64_kernels: f64 => f64, F64x8, F64x4, Plain<f64, 2>);
kernels_by_level!(pair_kernels: u32 => i32, Pairs16, Pairs8, Plain<i32, 4>);

/// The kernels for groups of four bytes, where the processor has them.
pub(crate) fn quad_kernels(level: SimdLevel) -> Option<&'static Kernels<u32, i32>> {
    #[cfg(target_arch = "x86_64")]
    if level == SimdLevel::Avx512 && is_x86_feature_detected!("avx512vnni") {
        static KERNELS: Kernels<u32, i32> =
            kernels!(vnni, Quads16, 1 2 3 4 5 6 7 8 9 10 11 12 13; 14; 1 2 3 4 5 6);
        return Some(&KERNELS);
    }
    let _ = level;
    None
}
