//! HQQ: scales and zero points for errors of which a few are large and most are small, without data.
//!
//! Half-quadratic quantisation (Badri and Shaji 2023) lowers `sum |w - q|^p` with `p < 1`, which outliers do not dominate as
//! they dominate squares. A target `t` for the errors makes each step easy: `t` is the error shrunk towards zero, and scale
//! and zero point are those of the least squares for `w - t`; then elements are rounded again. The method of the paper moves
//! real zero points alone; here zero points are levels, as in integer models, so the scale moves too.

use super::{Grid, IntMatrix, Scaling, check_matrix};
use crate::Result;

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
        Self { norm: 0.7, steps: 20, strength: (4.0, 1.1) }
    }
}

/// Parts of the range from the smallest to the largest element that steps begin with, in hundredths.
const PARTS: [u32; 7] = [100, 92, 84, 76, 68, 60, 52];

/// The levels of a matrix by HQQ.
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
    grid.check()?;
    check_matrix(elements, rows, columns)?;
    if !(options.norm > 0.0 && options.norm <= 2.0) {
        return Err(crate::Error::Norm { norm: options.norm });
    }
    let mut levels = Vec::with_capacity(elements.len());
    let mut scalings = Vec::new();
    for row in elements.chunks(columns.max(1)) {
        for group in row.chunks(grid.group_in(columns)) {
            let scaling = best(group, grid, options);
            levels.extend(group.iter().map(|&element| scaling.level(element, grid)));
            scalings.push(scaling);
        }
    }
    Ok(IntMatrix { grid, rows, columns, levels, scalings })
}

/// The scaling with the smallest norm of the errors of a group, of those that steps come by.
fn best(group: &[f32], grid: Grid, options: &HqqOptions) -> Scaling {
    let low = group.iter().copied().fold(0.0, f32::min);
    let high = group.iter().copied().fold(0.0, f32::max);
    let norm = |scaling: Scaling| -> f64 {
        let error = |&x: &f32| f64::from(x - scaling.value(scaling.level(x, grid))).abs();
        group.iter().map(error).map(|error| error.powf(options.norm)).sum()
    };
    let mut best = (f64::INFINITY, Scaling { scale: 1.0, zero: 0 });
    for hundredths in PARTS {
        let part = hundredths as f32 / 100.0;
        let mut scaling = Scaling::of_range(low * part, high * part, grid);
        let mut here = norm(scaling);
        let mut strength = options.strength.0;
        for _ in 0..options.steps {
            let next = step(group, scaling, grid, options.norm, strength);
            strength *= options.strength.1;
            let there = norm(next);
            if next == scaling || there >= here {
                break;
            }
            (scaling, here) = (next, there);
        }
        if here < best.0 {
            best = (here, scaling);
        }
    }
    best.1
}

/// The least squares of the levels for the elements without the targets of their errors.
fn step(group: &[f32], scaling: Scaling, grid: Grid, norm: f64, strength: f64) -> Scaling {
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
    let zero = match grid.symmetric {
        true => 0,
        false => sums.zero(grid).unwrap_or(scaling.zero),
    };
    let scale = sums.scale(f64::from(zero)) as f32;
    match scale > 0.0 && scale.is_finite() {
        true => Scaling { scale, zero },
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

    /// The level of zero in the least squares of `v = scale * (q - zero)`, rounded.
    fn zero(&self, grid: Grid) -> Option<i8> {
        let over = self.count * self.qq - self.q * self.q;
        let scale = (self.count * self.qv - self.q * self.v) / over;
        let zero = (self.q * scale - self.v) / (self.count * scale);
        let (lowest, highest) = grid.levels();
        zero.is_finite().then(|| zero.round().clamp(lowest.into(), highest.into()) as i8)
    }

    /// The scale in the least squares with a zero that is given.
    fn scale(&self, zero: f64) -> f64 {
        (self.qv - zero * self.v) / (self.qq - 2.0 * zero * self.q + zero * zero * self.count)
    }
}
