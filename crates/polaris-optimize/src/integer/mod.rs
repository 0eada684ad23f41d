//! Matrices of integers with scales: what INT8 and INT4 models have in the place of floats.
//!
//! A matrix has a row for each output. A group of consecutive elements of a row has a scale and a zero point of its own;
//! [`Grid`] says how many levels there are and how long groups are. Methods differ in how they choose the levels:
//! [`nearest`] rounds each element by itself.

mod descent;
mod gptq;
mod hqq;
mod nearest;

pub use descent::descend;
pub use gptq::{Levelled, gptq};
pub use hqq::{HqqOptions, RealMatrix, RealScaling, hqq, hqq_real};
pub use nearest::{Clip, nearest};

use crate::{Error, Result};

/// The levels that elements may have, and which elements share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Bits of a level: 2 to 8.
    pub bits: u32,
    /// Consecutive elements of a row that share a scale; the last group of a row may be shorter. Rows without groups have one
    /// scale each.
    pub group: Option<usize>,
    /// Whether zero points are zero. Then the lowest level is not used, so that levels are symmetric around zero too.
    pub symmetric: bool,
}

impl Grid {
    /// Eight bits, symmetric, a scale for each row.
    pub const INT8: Self = Self { bits: 8, group: None, symmetric: true };

    /// Four bits, symmetric, a scale for each group of so many elements.
    pub const fn int4(group: usize) -> Self {
        Self { bits: 4, group: Some(group), symmetric: true }
    }

    /// The lowest and the highest level.
    pub fn levels(self) -> (i32, i32) {
        let half = 1 << (self.bits - 1);
        (if self.symmetric { 1 - half } else { -half }, half - 1)
    }

    /// The elements of a group in rows of so many.
    pub fn group_in(self, columns: usize) -> usize {
        self.group.unwrap_or(columns).clamp(1, columns.max(1))
    }

    /// # Errors
    /// If there is no such grid.
    pub fn check(self) -> Result<()> {
        if !(2..=8).contains(&self.bits) {
            return Err(Error::Bits { bits: self.bits });
        }
        if self.group == Some(0) {
            return Err(Error::EmptyGroup);
        }
        Ok(())
    }
}

/// Scale and zero point of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// What a step from one level to the next is.
    pub scale: f32,
    /// The level of zero.
    pub zero: i8,
}

impl Scaling {
    /// The float of a level.
    pub fn value(self, level: i8) -> f32 {
        (i32::from(level) - i32::from(self.zero)) as f32 * self.scale
    }

    /// The level that is nearest to a float.
    pub fn level(self, value: f32, grid: Grid) -> i8 {
        let (low, high) = grid.levels();
        let level = (value / self.scale).round_ties_even() + f32::from(self.zero);
        // A float that is no number becomes zero, which is a level.
        (level as i32).clamp(low, high) as i8
    }

    /// That of the range between two floats, which is widened to contain zero. A range that is only zero has scale 1.
    pub fn of_range(low: f32, high: f32, grid: Grid) -> Self {
        let (lowest, highest) = grid.levels();
        let (low, high) = (low.min(0.0), high.max(0.0));
        if grid.symmetric {
            let scale = low.abs().max(high) / highest as f32;
            return Self { scale: if scale > 0.0 { scale } else { 1.0 }, zero: 0 };
        }
        let scale = (high - low) / (highest - lowest) as f32;
        if scale.is_nan() || scale <= 0.0 {
            return Self { scale: 1.0, zero: 0 };
        }
        let zero = (lowest as f32 - low / scale).round_ties_even();
        Self { scale, zero: (zero as i32).clamp(lowest, highest) as i8 }
    }
}

/// A matrix of levels, with what they mean.
#[derive(Debug, Clone, PartialEq)]
pub struct IntMatrix {
    /// Its grid.
    pub grid: Grid,
    /// Rows, one for each output.
    pub rows: usize,
    /// Elements of a row.
    pub columns: usize,
    /// The levels, row by row.
    pub levels: Vec<i8>,
    /// Scales and zero points, row by row, group by group.
    pub scalings: Vec<Scaling>,
}

impl IntMatrix {
    /// Groups of a row.
    pub fn groups(&self) -> usize {
        self.columns.div_ceil(self.grid.group_in(self.columns))
    }

    /// What the levels of element (`row`, `column`) mean.
    pub fn scaling(&self, row: usize, column: usize) -> Scaling {
        self.scalings[row * self.groups() + column / self.grid.group_in(self.columns)]
    }

    /// The floats.
    pub fn dequantize(&self) -> Vec<f32> {
        let group = self.grid.group_in(self.columns);
        let rows = self.levels.chunks(self.columns.max(1));
        let scalings = self.scalings.chunks(self.groups().max(1));
        let mut floats = Vec::with_capacity(self.levels.len());
        for (levels, scalings) in rows.zip(scalings) {
            for (levels, scaling) in levels.chunks(group).zip(scalings) {
                floats.extend(levels.iter().map(|&level| scaling.value(level)));
            }
        }
        floats
    }

    /// The bits of an element, with its share of scales of `scale_bits` bits and, if the grid is not symmetric, zero points.
    pub fn bits(&self, scale_bits: u32) -> f64 {
        let zero = if self.grid.symmetric { 0 } else { self.grid.bits };
        let group = self.grid.group_in(self.columns) as f64;
        f64::from(self.grid.bits) + f64::from(scale_bits + zero) / group
    }
}

/// # Errors
/// If there are not `rows` times `columns` elements, or some are not finite.
pub(crate) fn check_matrix(elements: &[f32], rows: usize, columns: usize) -> Result<()> {
    if rows.checked_mul(columns) != Some(elements.len()) {
        return Err(Error::Elements { elements: elements.len(), rows, columns });
    }
    match elements.iter().position(|element| !element.is_finite()) {
        Some(at) => Err(Error::NotFinite { value: elements[at], at }),
        None => Ok(()),
    }
}
