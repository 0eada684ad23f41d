//! Choosing levels column by column, where later columns make up for what earlier ones miss.
//!
//! Columns are decided in blocks. What all blocks before one ask of it is a matmul of their errors with a part of
//! [`Factor`]; within a block each decided column is added to the others at once. Rows do not depend on each other, so they
//! are in memory some at a time, and threads share them.

use std::ops::Range;

use polaris_core::DType;
use polaris_ops::{Array, MatMul};
use polaris_runtime::Buffer;

use crate::hessian::{Factor, shape};
use crate::parallel::{cpu, for_each};
use crate::{Error, Result};

/// Rows that a thread decides together.
pub(crate) const ROWS: usize = 8;
/// Elements that are in memory at once, four times over.
const STRIP: usize = 1 << 24;

/// A block of columns of [`ROWS`] rows, or fewer at the end of a matrix, while it is decided.
pub(crate) struct Block<'a> {
    /// The places that these columns are decided at.
    pub places: Range<usize>,
    /// What each column costs, once those behind it have made up for it.
    pub costs: &'a [f32],
    weights: &'a [f32],
    targets: &'a mut [f32],
    errors: &'a mut [f32],
    columns: usize,
    feedback: &'a [f32],
    loss: f64,
}

impl Block<'_> {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.targets.len() / self.places.len()
    }

    /// What the columns of a row should be, as far as others are decided. That of a decided column stays what it was.
    pub fn targets(&self, row: usize) -> &[f32] {
        let width = self.places.len();
        &self.targets[row * width..(row + 1) * width]
    }

    /// Decides a column of a row: those before it are decided.
    #[inline]
    pub fn decide(&mut self, row: usize, column: usize, value: f32) {
        let width = self.places.len();
        let at = row * width + column;
        let error = self.weights[row * self.columns + self.places.start + column] - value;
        self.errors[row * self.columns + self.places.start + column] = error;
        self.loss += f64::from(self.costs[column]) * f64::from(self.targets[at] - value).powi(2);
        let later = &mut self.targets[at + 1..(row + 1) * width];
        let feedback = &self.feedback[column * width + column + 1..(column + 1) * width];
        for (target, feedback) in later.iter_mut().zip(feedback) {
            *target += error * feedback;
        }
    }
}

/// Decides all elements of a matrix, whose rows are in `weights`, and returns the loss. Blocks have `width` columns, or fewer
/// at the end. `outputs` has what `decide` writes for each [`ROWS`] rows.
///
/// # Errors
/// If there is no room, or `cancelled` says so.
pub(crate) fn run<T: Send>(
    weights: &[f32],
    factor: &Factor,
    width: usize,
    outputs: &mut [T],
    decide: impl Fn(&mut T, &mut Block<'_>) -> Result<()> + Sync,
    cancelled: &dyn Fn() -> bool,
) -> Result<f64> {
    let columns = factor.columns();
    let rows = (STRIP / columns / ROWS).max(1) * ROWS;
    let mut loss = 0.0;
    for (weights, outputs) in weights.chunks(rows * columns).zip(outputs.chunks_mut(rows / ROWS)) {
        loss += strip(weights, factor, width, outputs, &decide, cancelled)?;
    }
    Ok(loss)
}

fn strip<T: Send>(
    weights: &[f32],
    factor: &Factor,
    width: usize,
    outputs: &mut [T],
    decide: &(impl Fn(&mut T, &mut Block<'_>) -> Result<()> + Sync),
    cancelled: &dyn Fn() -> bool,
) -> Result<f64> {
    let columns = factor.columns();
    let rows = weights.len() / columns;
    let device = factor.feedback.device();
    let pool = cpu(device)?.pool();
    let ordered: Vec<f32>;
    let weights = match factor.is_natural {
        true => weights,
        false => {
            let each = weights.chunks(columns);
            ordered = each.flat_map(|row| factor.order.iter().map(|&at| row[at])).collect();
            &ordered
        }
    };
    let errors = Array::empty(device, DType::F32, shape(rows, columns)?)?;
    let mut loss = 0.0;
    for start in (0..columns).step_by(width) {
        if cancelled() {
            return Err(Error::Cancelled);
        }
        let places = start..(start + width).min(columns);
        let width = places.len();
        let each = weights.chunks(columns);
        let targets: Vec<f32> = each.flat_map(|row| &row[places.clone()]).copied().collect();
        let targets = Buffer::from_vec(device, targets).map_err(polaris_ops::Error::from)?;
        let targets = Array::new(targets, polaris_core::Layout::contiguous(shape(rows, width)?))?;
        if start > 0 {
            let known = errors.slice(1, 0..start, 1)?;
            let asked = factor.feedback.slice(0, 0..start, 1)?.slice(1, places.clone(), 1)?;
            MatMul { beta: 1.0, ..MatMul::default() }.run(&[&known, &asked, &targets], &targets)?;
        }
        let slice = |buffer: &Buffer| -> Result<Vec<f32>> {
            let all = buffer.host_slice::<f32>().map_err(polaris_ops::Error::from)?;
            let rows = places.clone().map(|row| row * columns);
            Ok(rows.flat_map(|row| &all[row + places.start..row + places.end]).copied().collect())
        };
        let feedback = slice(factor.feedback.buffer())?;
        let mut targets =
            targets.buffer().host_slice_mut::<f32>().map_err(polaris_ops::Error::from)?;
        let mut errors =
            errors.buffer().host_slice_mut::<f32>().map_err(polaris_ops::Error::from)?;
        let mut results: Vec<Result<f64>> = outputs.iter().map(|_| Ok(0.0)).collect();
        let parts = (weights.chunks(ROWS * columns))
            .zip(targets.chunks_mut(ROWS * width))
            .zip(errors.chunks_mut(ROWS * columns))
            .zip(outputs.iter_mut().zip(&mut results));
        for_each(pool, parts, |_, (((weights, targets), errors), (output, result))| {
            let mut block = Block {
                places: places.clone(),
                costs: &factor.costs[places.clone()],
                weights,
                targets,
                errors,
                columns,
                feedback: &feedback,
                loss: 0.0,
            };
            *result = decide(output, &mut block).map(|()| block.loss);
        });
        for result in results {
            loss += result?;
        }
    }
    Ok(loss)
}
