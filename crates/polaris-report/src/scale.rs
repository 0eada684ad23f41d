//! From values to positions on an axis: ranges, round ticks, linear and logarithmic scales.

use crate::number::{exact, fixed, magnitude};

/// Values beyond this are drawn at the edge. It keeps differences of values and the powers of ten
/// around them finite, so that no arithmetic below needs to look for overflow.
const LIMIT: f64 = 1e290;

/// Intervals aimed at. Steps of 1, 2 and 5 then give between 5 and 10 ticks that cover the range,
/// of which at least 3 lie inside it.
const INTERVALS: f64 = 8.0;

/// The smallest and the largest of some finite values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Range {
    pub(crate) lo: f64,
    pub(crate) hi: f64,
}

impl Range {
    /// The range of the finite values among these, if there are any.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        values.into_iter().filter(|v| v.is_finite()).fold(None, |range: Option<Self>, v| {
            let v = v.clamp(-LIMIT, LIMIT);
            Some(match range {
                None => Self { lo: v, hi: v },
                Some(range) => range.with(v),
            })
        })
    }

    /// The range that also holds `value`.
    pub(crate) fn with(self, value: f64) -> Self {
        Self { lo: self.lo.min(value), hi: self.hi.max(value) }
    }

    /// The same range if it has a length that can be divided, else a wider one around it.
    fn widened(self) -> Self {
        let Self { lo, hi } = self;
        let size = lo.abs().max(hi.abs());
        if hi - lo > size * 1e-9 && hi - lo > 1.0 / LIMIT {
            self
        } else if size < 1e-280 {
            Self { lo: lo.min(0.0), hi: 1.0 }
        } else {
            Self { lo: lo - 0.1 * size, hi: hi + 0.1 * size }
        }
    }
}

/// A place on an axis that has a line and a label.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// A scale with its ticks.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    lo: f64,
    hi: f64,
    pub(crate) log: bool,
    pub(crate) ticks: Vec<Tick>,
}

impl Axis {
    /// An axis that begins and ends at a tick.
    pub(crate) fn covering(range: Range, log: bool) -> Self {
        let ticks = if log { log_ticks(range) } else { linear_ticks(range) };
        let (lo, hi) = match (ticks.first(), ticks.last()) {
            (Some(first), Some(last)) => (first.value, last.value),
            _ => (range.lo, range.hi),
        };
        Self { lo, hi, log, ticks }
    }

    /// An axis that begins and ends where the values do. `whole` leaves out ticks between whole
    /// numbers: there is no epoch 2.5.
    pub(crate) fn fitted(range: Range, whole: bool) -> Self {
        let range = range.widened();
        let mut ticks = linear_ticks(range);
        ticks.retain(|tick| (range.lo..=range.hi).contains(&tick.value));
        if whole {
            ticks.retain(|tick| tick.value.fract() == 0.0);
            // The step was chosen before: 1.0 and 2.0 are to be written as 1 and 2.
            for tick in ticks.iter_mut().filter(|tick| tick.label.ends_with(".0")) {
                tick.label.truncate(tick.label.len() - 2);
            }
        }
        Self { lo: range.lo, hi: range.hi, log: false, ticks }
    }

    /// Where a finite value lies between the ends, from 0 to 1.
    pub(crate) fn position(&self, value: f64) -> f64 {
        let at = if self.log {
            let value = value.max(self.lo);
            (value.ln() - self.lo.ln()) / (self.hi.ln() - self.lo.ln())
        } else {
            (value - self.lo) / (self.hi - self.lo)
        };
        at.clamp(0.0, 1.0)
    }
}

/// `count` times 1, 2 or 5 times a power of ten, as near as a double comes to the decimal number:
/// multiples of 0.1 are divided by ten, not multiplied by a tenth.
fn multiple(count: f64, mantissa: f64, exponent: i32) -> f64 {
    let value = if exponent >= 0 {
        count * mantissa * 10f64.powi(exponent)
    } else {
        count * mantissa / 10f64.powi(-exponent)
    };
    value + 0.0
}

/// The smallest 1, 2 or 5 times a power of ten that is not below `least`.
fn round_step(least: f64) -> (f64, i32) {
    let exponent = magnitude(least);
    [1.0, 2.0, 5.0]
        .into_iter()
        .find(|&mantissa| multiple(1.0, mantissa, exponent) >= least * (1.0 - 1e-12))
        .map_or((1.0, exponent + 1), |mantissa| (mantissa, exponent))
}

/// Ticks at multiples of a round step, from the last at or below the range to the first at or
/// above it.
fn linear_ticks(range: Range) -> Vec<Tick> {
    let Range { lo, hi } = range.widened();
    let (mantissa, exponent) = round_step((hi - lo) / INTERVALS);
    let at = |count: f64| multiple(count, mantissa, exponent);
    // The quotient may be off by one where an end is itself a multiple.
    let mut first = (lo / at(1.0)).floor();
    first += f64::from(at(first + 1.0) <= lo) - f64::from(at(first) > lo);
    let mut last = (hi / at(1.0)).ceil();
    last += f64::from(at(last) < hi) - f64::from(at(last - 1.0) >= hi);

    let size = at(first).abs().max(at(last).abs());
    let intervals = (last - first) as usize;
    let label = |value: f64| {
        if (1e-4..1e7).contains(&size) {
            fixed(value, (-exponent).max(0) as usize)
        } else if value == 0.0 {
            "0".to_owned()
        } else {
            let digits = (magnitude(value.abs()) - exponent).max(0) as usize;
            format!("{value:.digits$e}")
        }
    };
    (0..=intervals)
        .map(|index| at(first + index as f64))
        .map(|value| Tick { value, label: label(value) })
        .collect()
}

/// Ticks at 1, 2 and 5 times powers of ten; at powers of ten alone over many decades, and at even
/// steps where the range lies between two of those.
fn log_ticks(range: Range) -> Vec<Tick> {
    let lo = range.lo.max(1.0 / LIMIT);
    let hi = range.hi.max(lo);
    let (lo, hi) = if hi / lo > 1.0 + 1e-9 { (lo, hi) } else { (lo / 2.0, hi * 2.0) };

    // 1, 2, 5, 10, 20, 50, ... numbered from 1 = 0.
    let at = |index: i32| {
        multiple(1.0, [1.0, 2.0, 5.0][index.rem_euclid(3) as usize], index.div_euclid(3))
    };
    let mut first = 3 * magnitude(lo) + 3;
    while at(first) > lo {
        first -= 1;
    }
    let mut last = 3 * magnitude(hi) - 1;
    while at(last) < hi {
        last += 1;
    }
    let values: Vec<f64> = match last - first + 1 {
        ..3 => return linear_ticks(Range { lo, hi }),
        3..=11 => (first..=last).map(at).collect(),
        _ => {
            let (low, high) = (first.div_euclid(3), (last + 2).div_euclid(3));
            let stride = (high - low + 9) / 10;
            let steps = (high - low + stride - 1) / stride;
            (0..=steps).map(|step| at(3 * (low + step * stride))).collect()
        }
    };
    let label = |value: f64| match value {
        1.0..1e6 => fixed(value, 0),
        1e-3..1.0 => exact(value),
        _ => format!("{value:e}"),
    };
    values.into_iter().map(|value| Tick { value, label: label(value) }).collect()
}

#[cfg(test)]
#[path = "scale_tests.rs"]
mod tests;
