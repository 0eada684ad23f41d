//! The range whose distribution, once it has levels, diverges least from that of all values.

use super::{Histogram, Range};
use crate::integer::Grid;

/// The window of bins around zero with the least divergence.
///
/// For a window, the reference has the counts of its bins, with all values beyond it in its outermost bins: that is where
/// they end up. The candidate has the counts of the window alone, in as many groups of bins as there are levels, and spreads
/// what a group has evenly over those of its bins that are not empty. Both sides of a range without symmetry become smaller
/// together. Zeros are left out: they keep their value whatever the range is.
pub fn range(histogram: &Histogram, grid: Grid) -> Range {
    let (lowest, highest) = grid.levels();
    let (min, max) = histogram.extremes().map_or((0.0, 0.0), |(a, b)| (a.into(), b.into()));
    let width = histogram.width();
    if grid.symmetric {
        // A magnitude has the levels from zero on.
        let windows = Windows::new(&[], &histogram.magnitudes());
        let (_, bins) = windows.best(highest as usize + 1);
        return Range::symmetric((bins as f64 * width).min(f64::max(-min, max)));
    }
    let windows = Windows::new(&histogram.below(), &histogram.above());
    let (below, above) = windows.best((highest - lowest) as usize + 1);
    let (low, high) = (below as f64 * width, above as f64 * width);
    Range { low: -low.min((-min).max(0.0)), high: high.min(max.max(0.0)) }
}

/// Sums over the first bins, so that a window costs as much as it has groups.
struct Windows {
    /// Bins below zero.
    below: usize,
    counts: Vec<f64>,
    sums: Vec<f64>,
    /// Bins that are not empty.
    filled: Vec<f64>,
    /// Of counts times their logarithms.
    logarithms: Vec<f64>,
}

impl Windows {
    /// Of counts below and above zero, from zero outwards.
    fn new(below: &[f64], above: &[f64]) -> Self {
        let counts: Vec<f64> = below.iter().rev().chain(above).copied().collect();
        let running = |of: &dyn Fn(f64) -> f64| -> Vec<f64> {
            let mut sum = 0.0;
            let after = counts.iter().map(|&count| {
                sum += of(count);
                sum
            });
            std::iter::once(0.0).chain(after).collect()
        };
        Self {
            below: below.len(),
            sums: running(&|count| count),
            filled: running(&|count| f64::from(count > 0.0)),
            logarithms: running(&times_logarithm),
            counts,
        }
    }

    /// The bins below and above zero of the best window; all, where there are no more than groups.
    fn best(&self, groups: usize) -> (usize, usize) {
        let (below, above) = (self.below, self.counts.len() - self.below);
        let longer = below.max(above);
        let mut best = (f64::INFINITY, (below, above));
        for bins in 1..=longer {
            let part = |side: usize| (side * bins).div_ceil(longer);
            let window = (part(below), part(above));
            if window.0 + window.1 <= groups {
                continue;
            }
            let divergence = self.divergence(below - window.0, below + window.1, groups);
            if divergence < best.0 {
                best = (divergence, window);
            }
        }
        best.1
    }

    /// How far the window from one bin to below another diverges; infinite if values are where the candidate has none.
    fn divergence(&self, first: usize, end: usize, groups: usize) -> f64 {
        let bins = end - first;
        let inside = self.sums[end] - self.sums[first];
        let all = self.sums[self.counts.len()];
        if inside == 0.0 {
            return f64::INFINITY;
        }
        // With values beyond the window in its outermost bins.
        let outside = [(first, self.sums[first]), (end - 1, all - self.sums[end])];
        let mut own = self.logarithms[end] - self.logarithms[first];
        let mut cross = 0.0;
        for group in 0..groups {
            let from = first + group * bins / groups;
            let to = first + (group + 1) * bins / groups;
            let sum = self.sums[to] - self.sums[from];
            let filled = self.filled[to] - self.filled[from];
            let level = (sum / filled.max(1.0)).ln();
            if sum > 0.0 {
                cross += sum * level;
            }
            for (bin, more) in outside {
                if more > 0.0 && (from..to).contains(&bin) {
                    let count = self.counts[bin];
                    if count == 0.0 {
                        return f64::INFINITY;
                    }
                    own += times_logarithm(count + more) - times_logarithm(count);
                    cross += more * level;
                }
            }
        }
        (own - cross) / all - all.ln() + inside.ln()
    }
}

fn times_logarithm(count: f64) -> f64 {
    if count > 0.0 { count * count.ln() } else { 0.0 }
}
