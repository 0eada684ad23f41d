//! Every channel by itself: sums over taps, with vectors of channels. There is little to compute for each
//! element that is read, so images are read where they lie: positions near the border leave out the taps
//! beyond it, and those side by side share what they load.

use polaris_runtime::cpu::{CpuDevice, SimdLevel};

use super::super::super::axis::Lengths;
use super::Job;
use super::padded::{Padded, Part};
use crate::cpu::math::Real;
use crate::elementwise::cpu_functions::{
    Apply, Clamp, GeluErf, GeluTanh, Relu, Same, Sigmoid, Silu, Tanh,
};
use crate::matmul::Activation;
#[cfg(target_arch = "x86_64")]
use crate::matmul::cpu::{F32x8, F32x16};
use crate::matmul::cpu::{Lanes, Plain};

/// Channels of the widest vector.
const CHANNELS: usize = 16;
/// Positions side by side that share what they load.
const POSITIONS: usize = 8;
/// Multiplications that are worth a task of their own.
const TASK: usize = 1 << 15;

pub(super) fn run(cpu: &CpuDevice, job: &Job, part: &Part, image: &Padded) {
    let geometry = job.geometry;
    let [rows, columns] = &geometry.lengths;
    let line = geometry.groups * columns.output * rows.kernel * columns.kernel;
    let work = match job.activation {
        Activation::Identity => by_level::<Same>(cpu.simd()),
        Activation::Relu => by_level::<Relu>(cpu.simd()),
        Activation::GeluErf => by_level::<GeluErf>(cpu.simd()),
        Activation::GeluTanh => by_level::<GeluTanh>(cpu.simd()),
        Activation::Silu => by_level::<Silu>(cpu.simd()),
        Activation::Sigmoid => by_level::<Sigmoid>(cpu.simd()),
        Activation::Tanh => by_level::<Tanh>(cpu.simd()),
        Activation::Clamp { .. } => by_level::<Clamp>(cpu.simd()),
    };
    let grain = TASK / line.max(1) + 1;
    cpu.pool().for_chunks(part.images * part.rows, grain, |chunk| {
        // SAFETY: the processor has the instructions of its level, and chunks are disjoint.
        unsafe { work(job, part, image, chunk) };
    });
}

/// A function of single numbers.
trait Activate: Apply<f32> {}

impl<F: Apply<f32>> Activate for F {}

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
    row: usize,
    channel: usize,
    count: usize,
    /// The taps' rows that lie inside, and the row of the image that the first one sees.
    first_tap: usize,
    taps: usize,
    first_row: usize,
}

type Lines = unsafe fn(&Job, &Part, &Padded, std::ops::Range<usize>);

/// The loop compiled for the instructions of a level.
fn by_level<F: Activate>(level: SimdLevel) -> Lines {
    match level {
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx512 => avx512::<F>,
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx2 => avx2::<F>,
        _ => lines::<F, Plain<f32, 4>>,
    }
}

macro_rules! compiled {
    ($name:ident, $lanes:ty, $features:literal) => {
        /// # Safety
        /// As for `lines`.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name<F: Activate>(
            job: &Job,
            part: &Part,
            image: &Padded,
            range: std::ops::Range<usize>,
        ) {
            // SAFETY: by the caller's word.
            unsafe { lines::<F, $lanes>(job, part, image, range) }
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
unsafe fn lines<F: Activate, V: Lanes<Packed = f32, Sum = f32>>(
    job: &Job,
    part: &Part,
    image: &Padded,
    lines: std::ops::Range<usize>,
) {
    let geometry = job.geometry;
    let [rows, columns] = &geometry.lengths;
    let channels = geometry.groups;
    let whole = whole(columns);
    let kernel = (columns.kernel, columns.stride, columns.dilation);
    for line in lines {
        let (index, row) = (line / part.rows, part.first_row + line % part.rows);
        let (first_tap, taps, first_row) = inside(rows, row);
        for channel in (0..channels).step_by(V::COUNT) {
            let count = V::COUNT.min(channels - channel);
            let line = Line { index, row, channel, count, first_tap, taps, first_row };
            let mut column = 0;
            while column < columns.output {
                let fits =
                    count == V::COUNT && whole.contains(&column) && column + POSITIONS <= whole.end;
                // SAFETY: by the caller's word; these positions see all columns of the kernel.
                unsafe {
                    match kernel {
                        (3, 1, 1) if fits => several::<F, V, 3, 1>(job, part, image, line, column),
                        (3, 2, 1) if fits => several::<F, V, 3, 2>(job, part, image, line, column),
                        (5, 1, 1) if fits => several::<F, V, 5, 1>(job, part, image, line, column),
                        (5, 2, 1) if fits => several::<F, V, 5, 2>(job, part, image, line, column),
                        _ => {
                            single::<F>(job, part, image, line, column);
                            column += 1;
                            continue;
                        }
                    }
                }
                column += POSITIONS;
            }
        }
    }
}

/// Positions side by side that see all columns of the kernel, which has `K`, `S` apart.
///
/// # Safety
/// As for `lines`, and there must be whole vectors of channels.
#[inline(always)]
unsafe fn several<
    F: Activate,
    V: Lanes<Packed = f32, Sum = f32>,
    const K: usize,
    const S: usize,
>(
    job: &Job,
    part: &Part,
    image: &Padded,
    line: Line,
    column: usize,
) {
    let [rows, columns] = &job.geometry.lengths;
    let channels = job.geometry.groups;
    let first_column = column * S - columns.padding;
    // SAFETY: there is a weight for each tap and channel, and the positions' taps lie inside the image.
    unsafe {
        let mut sums = [V::zero(); POSITIONS];
        for tap_row in 0..line.taps {
            let row = line.first_row + tap_row * rows.dilation;
            let at = image.at(line.index, row, first_column).wrapping_add(line.channel);
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
        for (position, sum) in sums.iter().enumerate() {
            let mut values = [0.0f32; CHANNELS];
            sum.store(values.as_mut_ptr());
            finish::<F>(job, part, line, column + position, &mut values);
        }
    }
}

/// One position, whose taps may lie beyond the border.
#[inline(always)]
fn single<F: Activate>(job: &Job, part: &Part, image: &Padded, line: Line, column: usize) {
    let [rows, columns] = &job.geometry.lengths;
    let channels = job.geometry.groups;
    let (first_tap, taps, first_column) = inside(columns, column);
    let mut sums = [0.0f32; CHANNELS];
    for tap_row in 0..line.taps {
        let row = line.first_row + tap_row * rows.dilation;
        for tap in 0..taps {
            let place = (line.first_tap + tap_row) * columns.kernel + first_tap + tap;
            let weight = job.weights.wrapping_add(place * channels + line.channel);
            let x = image.at(line.index, row, first_column + tap * columns.dilation);
            let x = x.wrapping_add(line.channel);
            // SAFETY: there is a weight for each tap and channel, and the taps lie inside the image.
            let (weight, x) = unsafe {
                (
                    std::slice::from_raw_parts(weight, line.count),
                    std::slice::from_raw_parts(x, line.count),
                )
            };
            for ((sum, &x), &weight) in sums.iter_mut().zip(x).zip(weight) {
                *sum = x.mul_add(weight, *sum);
            }
        }
    }
    finish::<F>(job, part, line, column, &mut sums);
}

/// Bias, residual, activation, and the store.
#[inline(always)]
fn finish<F: Activate>(
    job: &Job,
    part: &Part,
    line: Line,
    column: usize,
    values: &mut [f32; CHANNELS],
) {
    let count = line.count;
    let image = part.first_image + line.index;
    let mut scratch = [0.0f32; CHANNELS];
    if let Some(bias) = &job.bias {
        // SAFETY: there is a bias for each channel.
        let bias = unsafe { bias.load(line.channel, count, &mut scratch) };
        values.iter_mut().zip(bias).for_each(|(value, &bias)| *value += bias);
    }
    if let Some(residual) = &job.residual {
        let row = residual.row(image, line.row).row(column, line.channel);
        // SAFETY: the residual has the result's shape.
        let residual = unsafe { row.load(0, count, &mut scratch) };
        values.iter_mut().zip(residual).for_each(|(value, &residual)| *value += residual);
    }
    let (low, high) = job.activation.limits();
    let (low, high) = (f32::of(low), f32::of(high));
    for value in values.iter_mut() {
        *value = F::apply(*value, low, high);
    }
    let row = job.y.row(image, line.row).row(column, line.channel);
    // SAFETY: by the caller's word, this row is this thread's alone.
    unsafe {
        match count == CHANNELS && row.is_direct::<f32>() {
            true => row.start.cast::<[f32; CHANNELS]>().write_unaligned(*values),
            false => row.store(0, &values[..count]),
        }
    }
}
