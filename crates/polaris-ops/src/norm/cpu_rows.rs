//! The loops over one row on the CPU. Sums run in many lanes of the compute type and are added up in
//! `f64` between blocks.

use polaris_runtime::cpu::SimdLevel;

use super::NormKind;
use crate::cpu::blocks::{ComputeType, LINE, LONG_BLOCK, STREAMED, stream};
use crate::cpu::math::Real;
use crate::cpu::simd::multiversion;

/// Independent running sums: four of the widest registers in `f32`.
const LANES: usize = 64;
/// Of two sums side by side.
const PAIR_LANES: usize = LANES / 2;

/// The compute types of normalisation.
pub trait Number: Real {
    fn wide(self) -> f64;
}

impl Number for f32 {
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
}

impl Number for f64 {
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
}

/// What a row is normalised by: `(x - centre - rest) * factor`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Statistics<C> {
    /// The mean, rounded.
    centre: C,
    /// What the rounded mean lacks. Far from zero it is as large as the last bit of the elements,
    /// which may be much beside their differences.
    rest: C,
    /// The reciprocal of the deviation.
    factor: C,
}

impl<C: Number> Statistics<C> {
    #[inline(always)]
    fn apply(self, x: C) -> C {
        (x - self.centre - self.rest) * self.factor
    }
}

/// The sum of lanes, in halves, so that most of it is done by whole registers.
#[inline(always)]
fn fold<C: Number, const N: usize>(mut lanes: [C; N]) -> f64 {
    let mut half = N / 2;
    while half > 0 {
        let (left, right) = lanes.split_at_mut(half);
        for (a, &b) in left.iter_mut().zip(&right[..half]) {
            *a = *a + b;
        }
        half /= 2;
    }
    lanes[0].wide()
}

multiversion! {
    /// The sum of a block.
    pub fn sum<C: Number>(values: &[C]) -> f64 {
        let mut lanes = [C::default(); LANES];
        let mut chunks = values.chunks_exact(LANES);
        for chunk in &mut chunks {
            for (lane, &value) in lanes.iter_mut().zip(chunk) {
                *lane = *lane + value;
            }
        }
        for (lane, &value) in lanes.iter_mut().zip(chunks.remainder()) {
            *lane = *lane + value;
        }
        fold(lanes)
    }
}

multiversion! {
    /// The sum of a block's differences from a number, and that of their squares.
    pub fn moments<C: Number>(values: &[C], centre: C) -> [f64; 2] {
        let mut first = [C::default(); PAIR_LANES];
        let mut second = [C::default(); PAIR_LANES];
        let mut chunks = values.chunks_exact(PAIR_LANES);
        for chunk in &mut chunks {
            for ((first, second), &value) in first.iter_mut().zip(&mut second).zip(chunk) {
                let difference = value - centre;
                *first = *first + difference;
                *second = *second + difference * difference;
            }
        }
        for ((first, second), &value) in
            first.iter_mut().zip(&mut second).zip(chunks.remainder())
        {
            let difference = value - centre;
            *first = *first + difference;
            *second = *second + difference * difference;
        }
        [fold(first), fold(second)]
    }
}

multiversion! {
    fn products<C: Number>(arrays: [&[C]; 3], statistics: Statistics<C>) -> [f64; 2] {
        let mut first = [C::default(); PAIR_LANES];
        let mut second = [C::default(); PAIR_LANES];
        let length = arrays[0].len();
        let whole = length / PAIR_LANES * PAIR_LANES;
        for at in (0..whole).step_by(PAIR_LANES) {
            let (x, g, weight) = (
                &arrays[0][at..][..PAIR_LANES],
                &arrays[1][at..][..PAIR_LANES],
                &arrays[2][at..][..PAIR_LANES],
            );
            for i in 0..PAIR_LANES {
                let inner = g[i] * weight[i];
                first[i] = first[i] + inner;
                second[i] = second[i] + inner * statistics.apply(x[i]);
            }
        }
        let [x, g, weight] = arrays.map(|array| &array[whole..length]);
        for i in 0..length - whole {
            let inner = g[i] * weight[i];
            first[i] = first[i] + inner;
            second[i] = second[i] + inner * statistics.apply(x[i]);
        }
        [fold(first), fold(second)]
    }
}

/// Writes a function of three rows, from element `first` of the rows on.
#[inline(always)]
fn write_plain<C: ComputeType>(
    arrays: [&[C]; 3],
    first: usize,
    result: &mut [C],
    function: &impl Fn(C, C, C) -> C,
) {
    let [a, b, c] = arrays;
    // Cutting them here lets the compiler see that no index of the loop is out of bounds.
    let length = result.len();
    let (a, b, c) = (&a[first..][..length], &b[first..][..length], &c[first..][..length]);
    for (i, result) in result.iter_mut().enumerate() {
        *result = function(a[i], b[i], c[i]);
    }
}

/// Writes a function of three rows; past the caches if it is asked for, where lines are whole.
#[inline(always)]
pub fn write<C: ComputeType, const VECTOR_BYTES: usize>(
    arrays: [&[C]; 3],
    result: &mut [C],
    streamed: bool,
    function: impl Fn(C, C, C) -> C,
) {
    if !streamed {
        return write_plain(arrays, 0, result, &function);
    }
    let before = result.as_ptr().addr() % LINE;
    let head = ((LINE - before) % LINE / size_of::<C>()).min(result.len());
    let whole = (result.len() - head) / STREAMED * STREAMED;
    write_plain(arrays, 0, &mut result[..head], &function);
    for (chunk, target) in result[head..head + whole].chunks_exact_mut(STREAMED).enumerate() {
        let mut values = [C::default(); STREAMED];
        write_plain(arrays, head + chunk * STREAMED, &mut values, &function);
        // SAFETY: the target has room for as many values, begins with a line, and this code is
        // compiled for a processor with such vectors.
        unsafe { stream::<C, VECTOR_BYTES>(&values, target.as_mut_ptr()) };
    }
    write_plain(arrays, head + whole, &mut result[head + whole..], &function);
}

multiversion! {
    fn write_norm<C: Number>(
        arrays: [&[C]; 3],
        statistics: Statistics<C>,
        result: &mut [C],
        streamed: bool,
    ) {
        write::<C, VECTOR_BYTES>(arrays, result, streamed, |x, weight, bias| {
            statistics.apply(x) * weight + bias
        });
    }
}

multiversion! {
    fn write_gradient<C: Number>(
        arrays: [&[C]; 3],
        statistics: Statistics<C>,
        along: [C; 2],
        result: &mut [C],
        streamed: bool,
    ) {
        write::<C, VECTOR_BYTES>(arrays, result, streamed, |x, g, weight| {
            (g * weight - along[0] - statistics.apply(x) * along[1]) * statistics.factor
        });
    }
}

multiversion! {
    fn add_products<C: Number>(x: &[C], g: &[C], statistics: Statistics<C>, sums: &mut [C]) {
        let (x, g) = (&x[..sums.len()], &g[..sums.len()]);
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = *sum + g[i] * statistics.apply(x[i]);
        }
    }
}

/// The mean and the deviation of a row, in two passes; the second one also finds what rounding took
/// from the mean.
pub fn statistics<C: Number>(
    level: SimdLevel,
    kind: NormKind,
    epsilon: f64,
    row: &[C],
) -> Statistics<C> {
    let count = row.len() as f64;
    let blocks = || row.chunks(LONG_BLOCK);
    let centre = match kind {
        NormKind::Layer => C::of(blocks().map(|block| sum::<C>(level, block)).sum::<f64>() / count),
        NormKind::Rms => C::default(),
    };
    let [mut first, mut second] = [0.0; 2];
    for block in blocks() {
        let of_block = moments::<C>(level, block, centre);
        first += of_block[0];
        second += of_block[1];
    }
    let rest = match kind {
        NormKind::Layer => first / count,
        NormKind::Rms => 0.0,
    };
    let variance = second / count - rest * rest;
    // Rounding may leave a little less than nothing. NaN stays.
    let variance = if variance < 0.0 { 0.0 } else { variance };
    let factor = C::of(1.0 / (variance + epsilon).sqrt());
    Statistics { centre, rest: C::of(rest), factor }
}

/// Writes a normalised row. The arrays are x, weight and bias.
pub fn norm<C: Number>(
    level: SimdLevel,
    statistics: Statistics<C>,
    arrays: [&[C]; 3],
    result: &mut [C],
    streamed: bool,
) {
    write_norm::<C>(level, arrays, statistics, result, streamed);
}

/// Writes the gradient of a row. The arrays are x, the gradient of the output, and the weight.
pub fn gradient<C: Number>(
    level: SimdLevel,
    kind: NormKind,
    statistics: Statistics<C>,
    arrays: [&[C]; 3],
    result: &mut [C],
    streamed: bool,
) {
    let length = result.len();
    let [mut first, mut second] = [0.0; 2];
    for at in (0..length).step_by(LONG_BLOCK) {
        let block = arrays.map(|array| &array[at..length.min(at + LONG_BLOCK)]);
        let of_block = products::<C>(level, block, statistics);
        first += of_block[0];
        second += of_block[1];
    }
    let count = length as f64;
    let along_mean = match kind {
        NormKind::Layer => C::of(first / count),
        NormKind::Rms => C::default(),
    };
    let along = [along_mean, C::of(second / count)];
    write_gradient::<C>(level, arrays, statistics, along, result, streamed);
}

/// Adds the products of a normalised row and its gradient to sums.
pub fn add<C: Number>(
    level: SimdLevel,
    statistics: Statistics<C>,
    x: &[C],
    g: &[C],
    sums: &mut [C],
) {
    add_products::<C>(level, x, g, statistics, sums);
}
