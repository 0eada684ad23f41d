//! GPTQ: each column at the level nearest to what it should be, given the errors of the columns before it.

use super::nearest::range;
use super::{Clip, Grid, IntMatrix, Scaling, check_matrix};
use crate::Result;
use crate::feedback::{self, ROWS};
use crate::hessian::Factor;

/// Columns that are decided before others hear of it, rounded up to whole groups.
const WIDTH: usize = 128;
/// Groups up to this length have scales of the weights as they are when the group begins; those of longer ones, and of
/// columns in another order than the matrix's, are of the weights as they were.
const MOST_GROUP: usize = 512;

/// A matrix of levels, and what they cost.
#[derive(Debug, Clone)]
pub struct Levelled {
    /// The levels.
    pub matrix: IntMatrix,
    /// The mean of the squares of what outputs change by, summed over rows; with the damping of the method.
    pub loss: f64,
}

/// The levels of a matrix, chosen column by column.
///
/// # Errors
/// If the grid is none, the elements are not those of whole rows, some are not finite, or `cancelled` says so.
pub fn gptq(
    elements: &[f32],
    grid: Grid,
    clip: Clip,
    factor: &Factor,
    cancelled: &dyn Fn() -> bool,
) -> Result<Levelled> {
    let columns = factor.columns();
    let rows = elements.len() / columns;
    grid.check()?;
    check_matrix(elements, rows, columns)?;
    let group = grid.group_in(columns);
    let groups = columns.div_ceil(group);
    let changes = factor.is_natural && group <= MOST_GROUP;
    let width = if changes { WIDTH.div_ceil(group) * group } else { WIDTH };
    let costs = factor.costs();
    let mut levels = vec![0; elements.len()];
    let mut scalings = vec![Scaling { scale: 1.0, zero: 0 }; rows * groups];
    if !changes {
        for (row, scalings) in elements.chunks(columns).zip(scalings.chunks_mut(groups)) {
            let each = row.chunks(group).zip(costs.chunks(group)).zip(scalings);
            each.for_each(|((row, costs), scaling)| *scaling = range(row, costs, grid, clip));
        }
    }
    let mut outputs: Vec<_> =
        levels.chunks_mut(ROWS * columns).zip(scalings.chunks_mut(ROWS * groups)).collect();
    let decide = |(levels, scalings): &mut (&mut [i8], &mut [Scaling]),
                  block: &mut feedback::Block<'_>| {
        for row in 0..block.rows() {
            for (at, place) in block.places.clone().enumerate() {
                let column = factor.order[place];
                let scaling = &mut scalings[row * groups + column / group];
                if changes && place % group == 0 {
                    let end = (at + group).min(block.places.len());
                    let targets = &block.targets(row)[at..end];
                    *scaling = range(targets, &block.costs[at..end], grid, clip);
                }
                let level = scaling.level(block.targets(row)[at], grid);
                levels[row * columns + column] = level;
                block.decide(row, at, scaling.value(level));
            }
        }
        Ok(())
    };
    let loss = feedback::run(elements, factor, width, &mut outputs, decide, cancelled)?;
    Ok(Levelled { matrix: IntMatrix { grid, rows, columns, levels, scalings }, loss })
}
