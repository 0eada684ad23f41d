//! Ranges of activations: what values a tensor takes over many samples, and which part of that gets levels.
//!
//! A [`Histogram`] takes values as they come and keeps counts only: its memory depends on its bins, not on how many values
//! there were. Its bins are powers of two wide and aligned at zero, so that a range that grows merges whole bins, and
//! histograms of parts of the data add up to exactly that of all of it. [`Histograms`] are those of a model by the names of
//! its tensors; they are saved, loaded and merged. A [`Calibrator`] chooses a [`Range`] for each.

mod entropy;
mod file;
mod histogram;
mod squares;
mod tensors;

pub use file::Source;
pub use histogram::Histogram;
pub use tensors::{Histograms, TensorHistogram};

use crate::integer::Grid;
use crate::{Error, Result};

/// How the part of the values is chosen that levels are spread over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Calibrator {
    /// From the smallest to the largest value.
    MinMax,
    /// All but a share of the values that are not zero, in percent of those that stay. Where levels are not symmetric, each
    /// end loses half of the others.
    Percentile(f64),
    /// The part whose distribution, once it has levels, diverges least from that of all values (Kullback-Leibler).
    Entropy,
    /// The part with the least expected squared error: beyond it the squared distance to it, within it a twelfth of a
    /// squared step.
    Mse,
}

impl Calibrator {
    /// The share that [`Calibrator::Percentile`] usually keeps, in percent.
    pub const USUAL_PERCENT: f64 = 99.99;

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::MinMax => "minmax",
            Self::Percentile(_) => "percentile",
            Self::Entropy => "entropy",
            Self::Mse => "mse",
        }
    }

    /// # Errors
    /// If it keeps no share of the values.
    pub fn check(self) -> Result<()> {
        match self {
            Self::Percentile(percent) if !(50.0..=100.0).contains(&percent) => {
                Err(Error::Percent { percent })
            }
            _ => Ok(()),
        }
    }

    /// The range of a histogram's values for a grid; `None` if there are no values. It contains zero, which always has a
    /// level, and is symmetric if the grid is.
    pub fn range(self, histogram: &Histogram, grid: Grid) -> Option<Range> {
        let (min, max) = histogram.extremes()?;
        let (min, max) = (f64::from(min), f64::from(max));
        let range = match self {
            Self::MinMax if grid.symmetric => Range::symmetric(min.abs().max(max.abs())),
            Self::MinMax => Range { low: min, high: max },
            Self::Percentile(percent) => squares::percentile(histogram, percent, grid.symmetric),
            Self::Entropy => entropy::range(histogram, grid),
            Self::Mse => squares::least(histogram, grid),
        };
        Some(Range { low: range.low.min(0.0), high: range.high.max(0.0) })
    }
}

/// What gets levels: values beyond it become its ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Range {
    fn symmetric(high: f64) -> Self {
        Self { low: -high, high }
    }

    /// The smallest one that contains both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}
