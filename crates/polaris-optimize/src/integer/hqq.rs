//! HQQ: scales and zero points for errors of which a few are large and most are small, without data.
//!
//! Half-quadratic quantisation (Badri and Shaji 2023) lowers `sum |w - q|^p` with `p < 1`, which outliers do not dominate as
//! they dominate squares. A target `t` for the errors makes each step easy: `t` is the error shrunk towards zero, and scale
//! and zero point are those of the least squares for `w - t`; then elements are rounded again. Steps begin with the range from
//! the smallest to the largest element and stay near it: the smallest norm of all leaves large elements far off, which costs
//! more in outputs than it gains.
//!
//! The paper has real zero points, [`hqq_real`], where most of the gain is; [`hqq`] rounds them to levels, as integer models
//! have them.

use super::{Grid, IntMatrix, Scaling, check_matrix};
use crate::{Error, Result};

/// How HQQ goes on.
#[derive(Debug, Clone, Copy)]
pub struct HqqOptions {
    /// The exponent of the norm, above 0 and at most 2.
    pub norm: f64,
    /// The most steps.
    pub steps: usize,
    /// How strongly targets stay at the errors, in steps from level to level; and what that is multiplied by each time.
    pub strength: (f64, f64),
}

impl Default for HqqOptions {
    fn default() -> Self {
        Self { norm: 0.7, steps: 20, strength: (4.0, 1.05) }
    }
}

/// Scale and zero point of a group, where that is no level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RealScaling {
    /// What a step from one level to the next is.
    pub scale: f32,
    /// Where zero is among the levels.
    pub zero: f32,
}

impl RealScaling {
    /// The float of a level.
    pub fn value(self, level: i8) -> f32 {
        (f32::from(level) - self.zero) * self.scale
    }

    /// The level that is nearest to a float.
    pub fn level(self, value: f32, grid: Grid) -> i8 {
        let (low, high) = grid.levels();
        ((value / self.scale + self.zero).round_ties_even() as i32).clamp(low, high) as i8
    }
}

/// A matrix of levels with real zero points.
#[derive(Debug, Clone, PartialEq)]
pub struct RealMatrix {
    /// Its grid.
    pub grid: Grid,
    /// Rows, one for each output.
    pub rows: usize,
    /// Elements of a row.
    pub columns: usize,
    /// The levels, row by row.
    pub levels: Vec<i8>,
    /// Scales and zero points, row by row, group by group.
    pub scalings: Vec<RealScaling>,
}

impl RealMatrix {
    /// The floats.
    pub fn dequantize(&self) -> Vec<f32> {
        let group = self.grid.group_in(self.columns);
        let rows = self.levels.chunks(self.columns.max(1));
        let groups = rows.flat_map(|row| row.chunks(group)).zip(&self.scalings);
        groups.flat_map(|(levels, scaling)| levels.iter().map(|&q| scaling.value(q))).collect()
    }
}

/// The levels of a matrix by HQQ, with zero points that are levels.
///
/// # Errors
/// If the grid is none, the matrix does not have the elements it should, or some are not finite; if the norm is none.
pub fn hqq(
    elements: &[f32],
    rows: usize,
    columns: usize,
    grid: Grid,
    options: &HqqOptions,
) -> Result<IntMatrix> {
    let all = scalings(elements, rows, columns, grid, options, true)?;
    let scalings: Vec<_> = all
        .into_iter()
        .map(|found| Scaling { scale: found.scale, zero: found.zero as i8 })
        .collect();
    let groups = elements.chunks(columns.max(1)).flat_map(|row| row.chunks(grid.group_in(columns)));
    let levels = groups
        .zip(&scalings)
        .flat_map(|(group, scaling)| group.iter().map(|&element| scaling.level(element, grid)));
    Ok(IntMatrix { grid, rows, columns, levels: levels.collect(), scalings })
}

/// The levels of a matrix by HQQ, with real zero points.
///
/// # Errors
/// As [`hqq`], and if the grid is symmetric: it has no zero points.
pub fn hqq_real(
    elements: &[f32],
    rows: usize,
    columns: usize,
    grid: Grid,
    options: &HqqOptions,
) -> Result<RealMatrix> {
    if grid.symmetric {
        return Err(Error::Symmetric);
    }
    let scalings = scalings(elements, rows, columns, grid, options, false)?;
    let groups = elements.chunks(columns.max(1)).flat_map(|row| row.chunks(grid.group_in(columns)));
    let levels = groups
        .zip(&scalings)
        .flat_map(|(group, scaling)| group.iter().map(|&element| scaling.level(element, grid)));
    Ok(RealMatrix { grid, rows, columns, levels: levels.collect(), scalings })
}

fn scalings(
    elements: &[f32],
    rows: usize,
    columns: usize,
    grid: Grid,
    options: &HqqOptions,
    rounds: bool,
) -> Result<Vec<RealScaling>> {
    grid.check()?;
    check_matrix(elements, rows, columns)?;
    if !(options.norm > 0.0 && options.norm <= 2.0) {
        return Err(Error::Norm { norm: options.norm });
    }
    let groups = elements.chunks(columns.max(1)).flat_map(|row| row.chunks(grid.group_in(columns)));
    Ok(groups.map(|group| best(group, grid, options, rounds)).collect())
}

/// The scaling with the smallest norm of the errors of a group, of those that steps come by.
fn best(group: &[f32], grid: Grid, options: &HqqOptions, rounds: bool) -> RealScaling {
    let low = group.iter().copied().fold(0.0, f32::min);
    let high = group.iter().copied().fold(0.0, f32::max);
    let norm = |scaling: RealScaling| -> f64 {
        let error = |&x: &f32| f64::from(x - scaling.value(scaling.level(x, grid))).abs();
        group.iter().map(error).map(|error| error.powf(options.norm)).sum()
    };
    let Scaling { scale, zero } = Scaling::of_range(low, high, grid);
    let mut scaling = RealScaling { scale, zero: zero.into() };
    let mut best = (norm(scaling), scaling);
    let mut strength = options.strength.0;
    for _ in 0..options.steps {
        let next = step(group, scaling, grid, options.norm, strength, rounds);
        if next == scaling {
            break;
        }
        scaling = next;
        strength *= options.strength.1;
        let here = norm(scaling);
        if here < best.0 {
            best = (here, scaling);
        }
    }
    best.1
}

/// The least squares of the levels for the elements without the targets of their errors.
fn step(
    group: &[f32],
    scaling: RealScaling,
    grid: Grid,
    norm: f64,
    strength: f64,
    rounds: bool,
) -> RealScaling {
    let scale = f64::from(scaling.scale);
    let mut sums = Sums::default();
    for &x in group {
        let level = scaling.level(x, grid);
        let error = (f64::from(x) - f64::from(scaling.value(level))) / scale;
        // The proximal step of |t|^p / strength, with its slope at the error.
        let shrunk = (error.abs() - error.abs().powf(norm - 1.0) * norm / strength).max(0.0);
        let target = if error == 0.0 { 0.0 } else { shrunk.copysign(error) };
        sums.add(f64::from(level), f64::from(x) - scale * target);
    }
    let (lowest, highest) = grid.levels();
    let zero = match grid.symmetric {
        true => 0.0,
        false => match sums.zero() {
            zero if !zero.is_finite() => f64::from(scaling.zero),
            zero if rounds => zero.round().clamp(lowest.into(), highest.into()),
            zero => zero,
        },
    };
    let scale = sums.scale(zero) as f32;
    match scale > 0.0 && scale.is_finite() {
        true => RealScaling { scale, zero: zero as f32 },
        false => scaling,
    }
}

/// Of levels `q` and what they should stand for, `v`.
#[derive(Default)]
struct Sums {
    count: f64,
    q: f64,
    qq: f64,
    v: f64,
    qv: f64,
}

impl Sums {
    fn add(&mut self, q: f64, v: f64) {
        self.count += 1.0;
        self.q += q;
        self.qq += q * q;
        self.v += v;
        self.qv += q * v;
    }

    /// Where zero is in the least squares of `v = scale * (q - zero)`.
    fn zero(&self) -> f64 {
        let over = self.count * self.qq - self.q * self.q;
        let scale = (self.count * self.qv - self.q * self.v) / over;
        (self.q * scale - self.v) / (self.count * scale)
    }

    /// The scale in the least squares with a zero that is given.
    fn scale(&self, zero: f64) -> f64 {
        (self.qv - zero * self.v) / (self.qq - 2.0 * zero * self.q + zero * zero * self.count)
    }
}
