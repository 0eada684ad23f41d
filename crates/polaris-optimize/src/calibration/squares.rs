//! Ranges that keep a share of the values, and ranges with the least expected squared error.

use super::{Histogram, Range};
use crate::integer::Grid;

/// The range that keeps a share of the values that are not zero: of a tensor that is mostly zeros, its zeros alone would be the
/// share.
pub fn percentile(histogram: &Histogram, percent: f64, symmetric: bool) -> Range {
    let values = (histogram.total() - histogram.zeros()) as f64;
    let (min, max) = histogram.extremes().map_or((0.0, 0.0), |(a, b)| (a.into(), b.into()));
    let width = histogram.width();
    let (below, above) = (histogram.below(), histogram.above());
    if symmetric {
        let wanted = (values * percent / 100.0).ceil();
        let bins = reached(0.0, &histogram.magnitudes(), wanted);
        return Range::symmetric((bins as f64 * width).min(f64::max(-min, max)));
    }
    let wanted = (values * (0.5 + percent / 200.0)).ceil();
    // From the other end: what lies before zero counts.
    let end = |before: &[f64], after: &[f64]| -> f64 {
        reached(before.iter().sum(), after, wanted) as f64 * width
    };
    Range { low: -end(&above, &below).min(-min), high: end(&below, &above).min(max) }
}

/// How many bins there must be for so many values.
fn reached(mut sum: f64, counts: &[f64], wanted: f64) -> usize {
    let mut bins = 0;
    while bins < counts.len() && sum < wanted {
        sum += counts[bins];
        bins += 1;
    }
    bins
}

/// The range with the least expected squared error.
pub fn least(histogram: &Histogram, grid: Grid) -> Range {
    let (lowest, highest) = grid.levels();
    let values = (histogram.total() - histogram.zeros()) as f64;
    let (min, max) = histogram.extremes().map_or((0.0, 0.0), |(a, b)| (a.into(), b.into()));
    let width = histogram.width();
    if grid.symmetric {
        let side = Side::new(&histogram.magnitudes(), width, f64::max(-min, max));
        let steps = f64::from(highest);
        let error = |bins: usize| side.beyond(bins) + values * noise(side.end(bins) / steps);
        return Range::symmetric(side.end(smallest(side.bins(), error)));
    }
    let steps = f64::from(highest - lowest);
    let low = Side::new(&histogram.below(), width, -min);
    let high = Side::new(&histogram.above(), width, max);
    let error = |below: usize, above: usize| {
        let step = (low.end(below) + high.end(above)) / steps;
        low.beyond(below) + high.beyond(above) + values * noise(step)
    };
    let below = |above: usize| smallest(low.bins(), |below| error(below, above));
    let above = smallest(high.bins(), |above| error(below(above), above));
    Range { low: -low.end(below(above)), high: high.end(above) }
}

/// The expected square of what rounding adds, for a step.
fn noise(step: f64) -> f64 {
    step * step / 12.0
}

/// Where a convex function of 0 to `last` is smallest. The sum of all errors is convex in both ends, and so is its least
/// over one of them.
fn smallest(last: usize, function: impl Fn(usize) -> f64) -> usize {
    let (mut first, mut last) = (0, last);
    while first < last {
        let middle = first + (last - first) / 2;
        match function(middle) <= function(middle + 1) {
            true => last = middle,
            false => first = middle + 1,
        }
    }
    first
}

/// The values on one side of zero, as if each were in the middle of its bin.
struct Side {
    width: f64,
    /// The largest magnitude.
    most: f64,
    /// The number, sum and sum of squares of the magnitudes from each bin on.
    from: Vec<[f64; 3]>,
}

impl Side {
    fn new(counts: &[f64], width: f64, most: f64) -> Self {
        let mut from = vec![[0.0; 3]; counts.len() + 1];
        for (bin, &count) in counts.iter().enumerate().rev() {
            let middle = (bin as f64 + 0.5) * width;
            let [number, sum, squares] = from[bin + 1];
            from[bin] = [number + count, sum + count * middle, squares + count * middle * middle];
        }
        Self { width, most: most.max(0.0), from }
    }

    fn bins(&self) -> usize {
        self.from.len() - 1
    }

    /// Where the range ends that has so many bins.
    fn end(&self, bins: usize) -> f64 {
        (bins as f64 * self.width).min(self.most)
    }

    /// The sum of the squared distances of what lies beyond so many bins.
    fn beyond(&self, bins: usize) -> f64 {
        let ([number, sum, squares], end) = (self.from[bins], self.end(bins));
        squares - 2.0 * end * sum + end * end * number
    }
}
