//! Descent on the levels of integers.

use super::{IntMatrix, check_matrix};
use crate::descent::{Curves, DescentOptions};
use crate::hessian::Hessian;
use crate::{Error, Result};

/// Moves the levels of a matrix, which may come from any other method, until no single one can move and lower the damped
/// loss, or all sweeps are done. Scales stay. Returns how many moves were made; none makes the loss larger.
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
        return Err(Error::Width { found: columns, expected: hessian.columns() });
    }
    let mut floats = matrix.dequantize();
    let (grid, scaling) = (matrix.grid, |row, column| matrix.scaling(row, column));
    let nearest = |row, column, wanted| {
        let scaling = scaling(row, column);
        scaling.value(scaling.level(wanted, grid))
    };
    let curves = Curves::new(hessian, options)?;
    let moves = curves.descend(elements, &mut floats, nearest, cancelled)?;
    let levels = floats
        .iter()
        .enumerate()
        .map(|(at, &float)| matrix.scaling(at / columns, at % columns).level(float, grid));
    matrix.levels = levels.collect();
    Ok(moves)
}
