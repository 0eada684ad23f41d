//! Coordinate descent on levels: what AdaRound (Nagel et al. 2020) looks for with gradients, for any layer whose inputs are
//! known by their second moments.
//!
//! AdaRound learns for each weight whether it is rounded up or down, by stochastic gradients on the squared error of the
//! layer's outputs. That error is quadratic in the levels, so its exact change by one level follows from the Hessian, and
//! levels are moved one by one to where it is smallest until none wants to move. A convolution has the Hessian of its
//! patches (im2col), and a row for each output channel.

use super::{IntMatrix, Scaling, check_matrix};
use crate::hessian::Hessian;
use crate::parallel::{cpu, for_each};
use crate::{Error, Result};

/// Rows that a thread improves at a time.
const ROWS: usize = 8;
/// How often threads take some rows before cancellation is asked about.
const STRIP: usize = 32;

/// How levels are moved.
#[derive(Debug, Clone, Copy)]
pub struct DescentOptions {
    /// The most times that each level is looked at.
    pub sweeps: usize,
    /// What is added to the diagonal of the Hessian, as a part of its mean.
    pub damping: f64,
}

impl Default for DescentOptions {
    fn default() -> Self {
        Self { sweeps: 20, damping: 0.01 }
    }
}

/// Moves the levels of a matrix, which may come from any other method, until no single one can move and lower the damped
/// loss, or `sweeps` are done. Scales stay. Returns how many moves were made; none makes the loss larger.
///
/// # Errors
/// If the matrix is not of these elements, its inputs are others, or `cancelled` says so.
pub fn descend(
    elements: &[f32],
    matrix: &mut IntMatrix,
    hessian: &Hessian,
    options: &DescentOptions,
    cancelled: &dyn Fn() -> bool,
) -> Result<usize> {
    let columns = matrix.columns;
    check_matrix(elements, matrix.rows, columns)?;
    if hessian.columns() != columns {
        return Err(Error::Columns { found: columns, expected: hessian.columns() });
    }
    let DescentOptions { sweeps, damping } = *options;
    let squares = hessian.mean_squares()?;
    let added = damping * squares.iter().map(|&x| f64::from(x)).sum::<f64>() / squares.len() as f64;
    let mean = hessian.mean()?;
    let pool = cpu(mean.device())?.pool();
    let moments = mean.buffer().host_slice::<f32>().map_err(polaris_ops::Error::from)?;
    let moments: &[f32] = &moments;
    let (grid, groups) = (matrix.grid, matrix.groups());
    let (lowest, highest) = grid.levels();
    let group = grid.group_in(columns);
    let improve = |elements: &[f32], levels: &mut [i8], scalings: &[Scaling], moves: &mut usize| {
        let rows = elements.chunks(columns).zip(levels.chunks_mut(columns));
        for ((elements, levels), scalings) in rows.zip(scalings.chunks(groups)) {
            let error =
                |at: usize, level: i8| f64::from(elements[at] - scalings[at / group].value(level));
            // Half the gradient of the loss by each error.
            let mut slope = vec![0.0; columns];
            for at in 0..columns {
                push(&mut slope, &moments[at * columns..(at + 1) * columns], error(at, levels[at]));
                slope[at] += added * error(at, levels[at]);
            }
            for _ in 0..sweeps {
                let mut moved = false;
                for at in 0..columns {
                    let scale = f64::from(scalings[at / group].scale);
                    let curve = f64::from(squares[at]) + added;
                    let wanted = (slope[at] / (curve * scale)).round();
                    if curve <= 0.0 || !wanted.is_finite() || wanted == 0.0 {
                        continue;
                    }
                    let old = levels[at];
                    let new = (f64::from(old) + wanted).clamp(lowest.into(), highest.into()) as i8;
                    let change = error(at, new) - error(at, old);
                    if change * (2.0 * slope[at] + change * curve) >= 0.0 {
                        continue;
                    }
                    levels[at] = new;
                    push(&mut slope, &moments[at * columns..(at + 1) * columns], change);
                    slope[at] += added * change;
                    *moves += 1;
                    moved = true;
                }
                if !moved {
                    break;
                }
            }
        }
    };
    let mut moves = vec![0; matrix.rows.div_ceil(ROWS)];
    let strip = STRIP * ROWS;
    let strips = (elements.chunks(strip * columns))
        .zip(matrix.levels.chunks_mut(strip * columns))
        .zip(matrix.scalings.chunks(strip * groups))
        .zip(moves.chunks_mut(STRIP));
    for (((elements, levels), scalings), moves) in strips {
        if cancelled() {
            return Err(Error::Cancelled);
        }
        let parts = (elements.chunks(ROWS * columns))
            .zip(levels.chunks_mut(ROWS * columns))
            .zip(scalings.chunks(ROWS * groups))
            .zip(moves);
        for_each(pool, parts, |_, (((elements, levels), scalings), moves)| {
            improve(elements, levels, scalings, moves);
        });
    }
    Ok(moves.iter().sum())
}

/// Adds an error of one column to the slopes of all.
fn push(slope: &mut [f64], moments: &[f32], error: f64) {
    for (slope, &moment) in slope.iter_mut().zip(moments) {
        *slope += error * f64::from(moment);
    }
}
