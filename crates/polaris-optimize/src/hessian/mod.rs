//! Second moments of the inputs of a matrix: what an error of its weights costs.
//!
//! If a matrix `W` becomes `Q`, its outputs for inputs `x` change by `(W - Q) x`. The mean of the squares of that is
//! `tr((W - Q) H (W - Q)^T)`, where `H` is the mean of `x x^T`: the Hessian of the layer's squared error, but for a factor
//! of two. [`Hessian`] collects it, in memory of 4 bytes times the square of the columns; [`Factor`] is what methods use.

mod cholesky;
mod factor;
mod file;

pub use factor::{Factor, FactorOptions, Order};

use polaris_core::{DType, Shape};
use polaris_ops::{Array, MatMul};
use polaris_runtime::DeviceRef;

use crate::parallel::cpu;
use crate::{Error, Result};

/// Inputs that are multiplied at once. A sum in `f32` then has an addition for each so many, and an error of about its root
/// times 6e-8: far less than what is added to the diagonal.
const ROWS: usize = 512;
/// Columns of the sum that are computed at once: what is below the diagonal is left out but for the ends of these.
const PANEL: usize = 256;

/// The sum of `x x^T` over inputs `x`.
#[derive(Debug)]
pub struct Hessian {
    /// Only elements on and above the diagonal are meant.
    sum: Array,
    columns: usize,
    rows: u64,
}

impl Hessian {
    /// Of no inputs yet.
    ///
    /// # Errors
    /// If there are no columns, or no room for their square; if the device is not the CPU.
    pub fn new(device: &DeviceRef, columns: usize) -> Result<Self> {
        cpu(device)?;
        if columns == 0 {
            return Err(Error::Elements { elements: 0, rows: 0, columns });
        }
        let sum = Array::empty(device, DType::F32, shape(columns, columns)?)?;
        sum.buffer().fill(0f32).map_err(polaris_ops::Error::from)?;
        Ok(Self { sum, columns, rows: 0 })
    }

    /// Elements of an input: columns of the matrix.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Inputs that are in it.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Where it is.
    pub fn device(&self) -> &DeviceRef {
        self.sum.device()
    }

    /// Adds inputs, one behind the other.
    ///
    /// # Errors
    /// If they are not whole, or not finite; then none of them is in it.
    pub fn add(&mut self, inputs: &[f32]) -> Result<()> {
        super::integer::check_matrix(inputs, inputs.len() / self.columns, self.columns)?;
        for inputs in inputs.chunks(ROWS * self.columns) {
            let rows = inputs.len() / self.columns;
            let inputs = Array::from_slice(self.sum.device(), &[rows, self.columns], inputs)?;
            for start in (0..self.columns).step_by(PANEL) {
                let end = (start + PANEL).min(self.columns);
                let sum = self.sum.slice(0, start..end, 1)?.slice(1, start..self.columns, 1)?;
                let left = inputs.slice(1, start..end, 1)?.permute(&[1, 0])?;
                let right = inputs.slice(1, start..self.columns, 1)?;
                MatMul { beta: 1.0, ..MatMul::default() }.run(&[&left, &right, &sum], &sum)?;
            }
            self.rows += rows as u64;
        }
        Ok(())
    }

    /// Adds what another one has collected: calibration may be done in parts.
    ///
    /// # Errors
    /// If that has other columns.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if other.columns != self.columns {
            let (found, expected) = (other.columns, self.columns);
            return Err(Error::Width { found, expected });
        }
        let mut sum =
            self.sum.buffer().host_slice_mut::<f32>().map_err(polaris_ops::Error::from)?;
        let added = other.sum.buffer().host_slice::<f32>().map_err(polaris_ops::Error::from)?;
        sum.iter_mut().zip(added.iter()).for_each(|(sum, added)| *sum += added);
        self.rows += other.rows;
        Ok(())
    }

    /// The mean square of each element of inputs.
    ///
    /// # Errors
    /// If someone else uses its memory.
    pub fn mean_squares(&self) -> Result<Vec<f32>> {
        let sum = self.sum.buffer().host_slice::<f32>().map_err(polaris_ops::Error::from)?;
        let over = 1.0 / self.rows.max(1) as f64;
        let mean = |&square: &f32| (f64::from(square) * over) as f32;
        Ok(sum.iter().step_by(self.columns + 1).map(mean).collect())
    }

    /// All of it, row by row: the means of the products of two elements.
    ///
    /// # Errors
    /// If there is no room for it.
    pub fn mean(&self) -> Result<Array> {
        let n = self.columns;
        let mean = Array::empty(self.sum.device(), DType::F32, shape(n, n)?)?;
        {
            let mut mean =
                mean.buffer().host_slice_mut::<f32>().map_err(polaris_ops::Error::from)?;
            let sum = self.sum.buffer().host_slice::<f32>().map_err(polaris_ops::Error::from)?;
            let over = 1.0 / self.rows.max(1) as f64;
            for i in 0..n {
                for j in i..n {
                    let value = (f64::from(sum[i * n + j]) * over) as f32;
                    (mean[i * n + j], mean[j * n + i]) = (value, value);
                }
            }
        }
        Ok(mean)
    }

    /// What the outputs of a matrix change by in the mean, squared and summed over its rows, if its weights change by
    /// `change`: `tr(E H E^T)`.
    ///
    /// # Errors
    /// If `change` has no whole rows, or there is no room.
    pub fn loss(&self, change: &[f32]) -> Result<f64> {
        let rows = change.len() / self.columns;
        super::integer::check_matrix(change, rows, self.columns)?;
        let mean = self.mean()?;
        let mut loss = 0.0;
        for change in change.chunks(ROWS * self.columns) {
            let rows = change.len() / self.columns;
            let array = Array::from_slice(mean.device(), &[rows, self.columns], change)?;
            let product = polaris_ops::matmul::matmul(&array, &mean)?.to_vec::<f32>()?;
            let pairs = change.iter().zip(product);
            loss += pairs.map(|(&a, b)| f64::from(a) * f64::from(b)).sum::<f64>();
        }
        Ok(loss)
    }
}

/// # Errors
/// If there is no such shape.
pub(crate) fn shape(rows: usize, columns: usize) -> Result<Shape> {
    Ok(Shape::new(&[rows, columns]).map_err(polaris_ops::Error::from)?)
}
