//! Depthwise NHWC convolutions: sums over taps, with vectors of channels. There is little arithmetic per element, so
//! images are read in place: positions near the border skip the taps beyond it, and adjacent ones share their loads.

use polaris_runtime::cpu::{CpuDevice, SimdLevel};

use super::super::super::axis::Lengths;
use super::Job;
use super::padded::{Padded, Part};
use crate::matmul::cpu::{Direct, Lanes, Place, Plain, Product, TILE_STRIDE, prefetch, store};
#[cfg(target_arch = "x86_64")]
use crate::matmul::cpu::{F32x8, F32x16};

/// Channels of the widest vector.
const CHANNELS: usize = 16;
/// Multiplications that are worth a task of their own.
const TASK: usize = 1 << 15;

pub(super) fn run(cpu: &CpuDevice, job: &Job, part: &Part, image: &Padded) {
    let geometry = job.geometry;
    let [rows, columns] = &geometry.lengths;
    let line = geometry.groups * columns.output * rows.kernel * columns.kernel;
    let work = by_level(cpu.simd());
    let grain = TASK / line.max(1) + 1;
    cpu.pool().for_chunks(part.images * part.rows, grain, |chunk| {
        // SAFETY: the processor has the instructions of its level, and chunks are disjoint.
        unsafe { work(job, part, image, cpu.simd(), chunk) };
    });
}

/// The taps of a position that lie inside an axis: the first, how many, and the element that the first
/// one sees.
fn inside(lengths: &Lengths, position: usize) -> (usize, usize, usize) {
    let start = position * lengths.stride;
    let first =
        lengths.padding.saturating_sub(start).div_ceil(lengths.dilation).min(lengths.kernel);
    let element = (start + first * lengths.dilation).saturating_sub(lengths.padding);
    let there = lengths.input.saturating_sub(element).div_ceil(lengths.dilation);
    (first, there.min(lengths.kernel - first), element)
}

/// Positions from the first on that see all their taps.
fn whole(lengths: &Lengths) -> std::ops::Range<usize> {
    let reach = (lengths.kernel - 1) * lengths.dilation + 1;
    let first = lengths.padding.div_ceil(lengths.stride).min(lengths.output);
    let end = match (lengths.input + lengths.padding).checked_sub(reach) {
        Some(last) => (last / lengths.stride + 1).min(lengths.output),
        None => 0,
    };
    first..end.max(first)
}

/// Some channels of a row of the result.
#[derive(Clone, Copy)]
struct Line {
    index: usize,
    channel: usize,
    count: usize,
    /// The taps' rows that lie inside, and the row of the image that the first one sees.
    first_tap: usize,
    taps: usize,
    first_row: usize,
}

type Lines = unsafe fn(&Job, &Part, &Padded, SimdLevel, std::ops::Range<usize>);

/// The loop compiled for the instructions of a level.
fn by_level(level: SimdLevel) -> Lines {
    match level {
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx512 => avx512,
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx2 => avx2,
        _ => lines::<Plain<f32, 4>>,
    }
}

macro_rules! compiled {
    ($name:ident, $lanes:ty, $features:literal) => {
        /// # Safety
        /// As for `lines`.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name(
            job: &Job,
            part: &Part,
            image: &Padded,
            level: SimdLevel,
            range: std::ops::Range<usize>,
        ) {
            // SAFETY: by the caller's word.
            unsafe { lines::<$lanes>(job, part, image, level, range) }
        }
    };
}

compiled!(avx512, F32x16, "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma");
compiled!(avx2, F32x8, "avx2,fma");

/// Rows of the result.
///
/// # Safety
/// The instructions of `V` must exist, and the rows be this thread's alone.
#[inline(always)]
unsafe fn lines<V: Lanes<Packed = f32, Sum = f32>>(
    job: &Job,
    part: &Part,
    image: &Padded,
    level: SimdLevel,
    lines: std::ops::Range<usize>,
) {
    let geometry = job.geometry;
    let [rows, columns] = &geometry.lengths;
    let channels = geometry.groups;
    let whole = whole(columns);
    for line in lines {
        let (index, row) = (line / part.rows, part.first_row + line % part.rows);
        let (first_tap, taps, first_row) = inside(rows, row);
        let product = job.line(part.first_image + index, row);
        let direct = Direct::new(&product);
        let work = Work { job, image, product: &product, direct, level };
        for channel in (0..channels).step_by(V::COUNT) {
            let count = V::COUNT.min(channels - channel);
            let line = Line { index, channel, count, first_tap, taps, first_row };
            let mut column = 0;
            while column < columns.output {
                let there = if whole.contains(&column) { whole.end - column } else { 0 };
                // SAFETY: by the caller's word; these positions see all columns of the kernel.
                let done = unsafe {
                    match (columns.kernel, columns.stride, columns.dilation) {
                        _ if count < V::COUNT => 0,
                        (3, 1, 1) => work.stretch::<V, 3, 1>(line, column, there),
                        (3, 2, 1) => work.stretch::<V, 3, 2>(line, column, there),
                        (5, 1, 1) => work.stretch::<V, 5, 1>(line, column, there),
                        (5, 2, 1) => work.stretch::<V, 5, 2>(line, column, there),
                        _ => 0,
                    }
                };
                if done == 0 {
                    // SAFETY: as above.
                    unsafe { work.single::<V>(line, column) };
                }
                column += done.max(1);
            }
        }
    }
}

/// What the positions of a row share.
struct Work<'a> {
    job: &'a Job<'a>,
    image: &'a Padded,
    /// The epilogue, and how that is done in registers, if it is.
    product: &'a Product,
    direct: Option<Direct<f32>>,
    level: SimdLevel,
}

impl Work<'_> {
    /// As many positions side by side as there are loops for; none of none.
    ///
    /// # Safety
    /// As for `several`.
    #[inline(always)]
    unsafe fn stretch<V: Lanes<Packed = f32, Sum = f32>, const K: usize, const S: usize>(
        &self,
        line: Line,
        column: usize,
        there: usize,
    ) -> usize {
        // SAFETY: by the caller's word.
        unsafe {
            match there {
                0 => 0,
                1 => self.several::<V, K, S, 1>(line, column),
                2..=3 => self.several::<V, K, S, 2>(line, column),
                4..=7 => self.several::<V, K, S, 4>(line, column),
                _ => self.several::<V, K, S, 8>(line, column),
            }
        }
    }

    /// `N` positions side by side that see all columns of the kernel, which has `K`, `S` apart.
    ///
    /// # Safety
    /// As for `lines`, and there must be a whole vector of channels.
    #[inline(always)]
    unsafe fn several<
        V: Lanes<Packed = f32, Sum = f32>,
        const K: usize,
        const S: usize,
        const N: usize,
    >(
        &self,
        line: Line,
        column: usize,
    ) -> usize {
        let Self { job, image, .. } = self;
        let [rows, columns] = &job.geometry.lengths;
        let channels = job.geometry.groups;
        let first_column = column * S - columns.padding;
        let at = |row: usize| image.at(line.index, row, first_column).wrapping_add(line.channel);
        // SAFETY: there is a weight for each tap and channel, and the positions' taps lie inside the
        // image.
        unsafe {
            // Channels are taken a vector at a time, which processors do not foresee: the next row of
            // the result will ask for these.
            for next in 0..rows.stride {
                let at = at(line.first_row + line.taps * rows.dilation + next);
                (0..N * S).for_each(|x| prefetch(at.wrapping_add(x * image.column)));
            }
            let mut sums = [V::zero(); N];
            for tap_row in 0..line.taps {
                let at = at(line.first_row + tap_row * rows.dilation);
                let weight = (line.first_tap + tap_row) * K * channels + line.channel;
                let weight = job.weights.wrapping_add(weight);
                let weights: [V::Factors; K] =
                    std::array::from_fn(|tap| V::factors(weight.wrapping_add(tap * channels)));
                for (position, sum) in sums.iter_mut().enumerate() {
                    for (tap, &weight) in weights.iter().enumerate() {
                        let x = V::factors(at.wrapping_add((position * S + tap) * image.column));
                        *sum = sum.add_product(x, weight);
                    }
                }
            }
            self.store(line, column, sums);
        }
        N
    }

    /// One position, whose taps may lie beyond the border, and its channels within a vector.
    ///
    /// # Safety
    /// As for `lines`.
    #[inline(always)]
    unsafe fn single<V: Lanes<Packed = f32, Sum = f32>>(&self, line: Line, column: usize) {
        let Self { job, image, .. } = self;
        let [rows, columns] = &job.geometry.lengths;
        let channels = job.geometry.groups;
        let (first_tap, taps, first_column) = inside(columns, column);
        // SAFETY: by the caller's word.
        let mut sums = unsafe { V::zero() };
        for tap_row in 0..line.taps {
            let row = line.first_row + tap_row * rows.dilation;
            for tap in 0..taps {
                let place = (line.first_tap + tap_row) * columns.kernel + first_tap + tap;
                let weight = job.weights.wrapping_add(place * channels + line.channel);
                let x = image.at(line.index, row, first_column + tap * columns.dilation);
                let x = x.wrapping_add(line.channel);
                // SAFETY: there is a weight for each tap and channel, and the taps lie inside the
                // image.
                sums = unsafe {
                    match line.count == V::COUNT {
                        true => sums.add_product(V::factors(x), V::factors(weight)),
                        false => {
                            let [mut a, mut b] = [[0.0; CHANNELS]; 2];
                            std::ptr::copy_nonoverlapping(x, a.as_mut_ptr(), line.count);
                            std::ptr::copy_nonoverlapping(weight, b.as_mut_ptr(), line.count);
                            sums.add_product(V::factors(a.as_ptr()), V::factors(b.as_ptr()))
                        }
                    }
                };
            }
        }
        // SAFETY: by the caller's word.
        unsafe { self.store(line, column, [sums]) };
    }

    /// Bias, residual, activation, and the store of positions side by side: in registers if there are
    /// whole vectors in memory, and limits are all that an activation has.
    ///
    /// # Safety
    /// As for `lines`.
    #[inline(always)]
    unsafe fn store<V: Lanes<Packed = f32, Sum = f32>, const N: usize>(
        &self,
        line: Line,
        column: usize,
        sums: [V; N],
    ) {
        let Self { product, level, .. } = *self;
        let Some(direct) = self.direct.filter(|_| line.count == V::COUNT) else {
            let mut tile = [[0.0; TILE_STRIDE]; N];
            for (row, sums) in tile.iter_mut().zip(sums) {
                // SAFETY: there is room for the widest vector.
                unsafe { sums.store(row.as_mut_ptr()) };
            }
            let place = Place { row: column, rows: N, column: line.channel, columns: line.count };
            // SAFETY: by the caller's word.
            return unsafe { store(level, product, tile.as_flattened(), place) };
        };
        let (bias, ending) = (direct.bias(line.channel), direct.ending(column, line.channel));
        // SAFETY: there is a bias for each channel, what is added and the result have these positions, and
        // the channels of all are adjacent.
        unsafe {
            for (position, mut sums) in sums.into_iter().enumerate() {
                if !bias.is_null() {
                    sums = sums.add(V::load(bias));
                }
                if !ending.plus.is_null() {
                    sums = sums.add(V::load(ending.plus.add(position * ending.plus_stride)));
                }
                if let Some([low, high]) = ending.limits {
                    sums = sums.between(low, high);
                }
                sums.store(product.out.at(column + position, line.channel).cast());
            }
        }
    }
}
