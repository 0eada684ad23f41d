//! The loops of pooling on the CPU: over rows of a plane, and along one row that all rows of a window
//! were folded into.

use super::windows::{Span, Window};
use crate::cpu::simd::multiversion;
use crate::softmax::cpu_loops::Number;

/// How two elements of a window become one.
pub trait Fold<C>: Sync {
    /// What changes nothing.
    fn neutral() -> C;
    fn combine(a: C, b: C) -> C;
}

pub struct Largest;
pub struct Sum;

impl<C: Number> Fold<C> for Largest {
    fn neutral() -> C {
        C::LOWEST
    }

    /// NaN, if there is one.
    #[inline(always)]
    fn combine(a: C, b: C) -> C {
        if (a > b) | a.is_nan() { a } else { b }
    }
}

impl<C: Number> Fold<C> for Sum {
    fn neutral() -> C {
        C::default()
    }

    #[inline(always)]
    fn combine(a: C, b: C) -> C {
        a + b
    }
}

/// Independent running results.
const LANES: usize = 16;

multiversion! {
    /// Folds a row into another.
    pub fn fold_into<C: Number, F: Fold<C>>(line: &mut [C], row: &[C]) {
        for (to, &from) in line.iter_mut().zip(row) {
            *to = F::combine(*to, from);
        }
    }
}

/// Calls a function for a stride that the compiler knows: it then turns loads that are a few elements
/// apart into wide ones.
macro_rules! for_stride {
    ($stride:expr, $function:ident :: <$($g:ty),*> ($($arg:expr),*)) => {
        match $stride {
            1 => $function::<$($g,)* 1>($($arg),*),
            2 => $function::<$($g,)* 2>($($arg),*),
            3 => $function::<$($g,)* 3>($($arg),*),
            _ => $function::<$($g,)* 0>($($arg),*),
        }
    };
}

/// Every element of a line that begins a window's tap, with the stride as a constant if it is not 0.
#[inline(always)]
fn taps<'a, C: Number, const STRIDE: usize>(
    line: &'a [C],
    window: Window,
    tap: usize,
    count: usize,
) -> impl Iterator<Item = C> + 'a {
    let stride = if STRIDE == 0 { window.stride } else { STRIDE };
    line[tap * window.dilation..][..count * stride].chunks_exact(stride).map(|group| group[0])
}

#[inline(always)]
fn fold_taps_by<C: Number, F: Fold<C>, const STRIDE: usize>(
    line: &[C],
    window: Window,
    results: &mut [C],
) {
    let count = results.len();
    for tap in 0..window.kernel {
        for (to, from) in results.iter_mut().zip(taps::<C, STRIDE>(line, window, tap, count)) {
            *to = F::combine(*to, from);
        }
    }
}

multiversion! {
    /// Folds the elements of sliding windows into their results. The line begins where the first
    /// window begins, padding included, and has a whole stride for each window, behind the last tap
    /// too.
    pub fn fold_taps<C: Number, F: Fold<C>>(line: &[C], window: Window, results: &mut [C]) {
        for_stride!(window.stride, fold_taps_by::<C, F>(line, window, results));
    }
}

multiversion! {
    /// Folds the elements of any windows into their results; the line begins with column `first`.
    pub fn fold_spans<C: Number, F: Fold<C>>(
        line: &[C],
        first: usize,
        spans: &[Span],
        results: &mut [C],
    ) {
        for (result, span) in results.iter_mut().zip(spans) {
            if span.taps == 0 {
                continue;
            }
            let covered = &line[span.first - first..][..(span.taps - 1) * span.step + 1];
            if span.step > 1 {
                *result = covered.iter().step_by(span.step).fold(*result, |a, &b| F::combine(a, b));
                continue;
            }
            let mut lanes = [F::neutral(); LANES];
            let mut chunks = covered.chunks_exact(LANES);
            for chunk in &mut chunks {
                for (lane, &value) in lanes.iter_mut().zip(chunk) {
                    *lane = F::combine(*lane, value);
                }
            }
            for (lane, &value) in lanes.iter_mut().zip(chunks.remainder()) {
                *lane = F::combine(*lane, value);
            }
            *result = lanes.into_iter().fold(*result, F::combine);
        }
    }
}

multiversion! {
    /// Divides sums by the numbers of elements that they are made of.
    pub fn divide<C: Number>(results: &mut [C], rows: C, columns: &[C]) {
        for (result, &columns) in results.iter_mut().zip(columns) {
            *result = *result / (rows * columns);
        }
    }
}

#[inline(always)]
fn find_taps_by<C: Number, const STRIDE: usize>(
    line: &[C],
    window: Window,
    first_tap: i32,
    best: &mut [C],
    found: &mut [i32],
) {
    let count = best.len();
    for tap in 0..window.kernel {
        let number = first_tap + tap as i32;
        let values = taps::<C, STRIDE>(line, window, tap, count);
        for ((best, found), value) in best.iter_mut().zip(found.iter_mut()).zip(values) {
            let better = (value > *best) | (value.is_nan() & !best.is_nan());
            *found = if better { number } else { *found };
            *best = if better { value } else { *best };
        }
    }
}

multiversion! {
    /// Which tap of sliding windows has the first of the largest elements so far; those of this line
    /// are counted from `first_tap` on. The line is as for `fold_taps`.
    pub fn find_taps<C: Number>(
        line: &[C],
        window: Window,
        first_tap: i32,
        best: &mut [C],
        found: &mut [i32],
    ) {
        for_stride!(window.stride, find_taps_by::<C>(line, window, first_tap, best, found));
    }
}

multiversion! {
    /// Adds a part of each element of a row.
    pub fn add_part<C: Number>(sums: &mut [C], row: &[C], part: C) {
        for (sum, &value) in sums.iter_mut().zip(row) {
            *sum = *sum + value * part;
        }
    }
}

#[inline(always)]
fn spread_taps_by<C: Number, const STRIDE: usize>(
    values: &[C],
    window: Window,
    parts: &[C],
    line: &mut [C],
) {
    let stride = if STRIDE == 0 { window.stride } else { STRIDE };
    for tap in 0..window.kernel {
        let targets = line[tap..][..values.len() * stride].chunks_exact_mut(stride);
        for ((group, &value), &part) in targets.zip(values).zip(parts) {
            group[0] = group[0] + value * part;
        }
    }
}

multiversion! {
    /// Adds a part of each sliding window's value to every element that it covers; the line is as for
    /// `fold_taps`.
    pub fn spread_taps<C: Number>(values: &[C], window: Window, parts: &[C], line: &mut [C]) {
        for_stride!(window.stride, spread_taps_by::<C>(values, window, parts, line));
    }
}

multiversion! {
    /// Adds a part of each window's value to every element that it covers; windows are not dilated.
    pub fn spread_spans<C: Number>(values: &[C], spans: &[Span], parts: &[C], line: &mut [C]) {
        for ((span, &value), &part) in spans.iter().zip(values).zip(parts) {
            let share = value * part;
            for to in &mut line[span.first..][..span.taps] {
                *to = *to + share;
            }
        }
    }
}
