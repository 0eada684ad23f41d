//! Coordinate descent on levels: what AdaRound (Nagel et al. 2020) looks for with gradients, for any layer whose inputs are
//! known by their second moments.
//!
//! AdaRound learns for each weight whether it is rounded up or down, by stochastic gradients on the squared error of the
//! layer's outputs. That error is quadratic in the levels, so its exact change by one level follows from the Hessian, and
//! levels are moved one by one to where it is smallest until none wants to move. A convolution has the Hessian of its
//! patches (im2col), and a row for each output channel.

use polaris_ops::Array;

use crate::hessian::Hessian;
use crate::parallel::{cpu, for_each};
use crate::{Error, Result};

/// Rows that a thread improves at a time.
const ROWS: usize = 8;
/// Elements whose slopes are in memory at once.
const STRIP: usize = 1 << 24;

/// How levels are moved.
#[derive(Debug, Clone, Copy)]
pub struct DescentOptions {
    /// The most times that each level is looked at; none for no descent.
    pub sweeps: usize,
    /// What is added to the diagonal of the Hessian, as a part of its mean.
    pub damping: f64,
}

impl Default for DescentOptions {
    fn default() -> Self {
        Self { sweeps: 20, damping: 0.01 }
    }
}

/// What errors of a row cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loss {
    /// The mean of the squares of what the output changes by.
    pub outputs: f64,
    /// The same with the damping.
    pub damped: f64,
}

/// A Hessian as descent reads it.
#[derive(Debug)]
pub(crate) struct Curves {
    mean: Array,
    /// The damped diagonal.
    diagonal: Vec<f32>,
    /// What is added to it.
    added: f32,
    sweeps: usize,
}

impl Curves {
    pub fn new(hessian: &Hessian, options: &DescentOptions) -> Result<Self> {
        let squares = hessian.mean_squares()?;
        let total: f64 = squares.iter().map(|&x| f64::from(x)).sum();
        let added = (options.damping * total / squares.len() as f64) as f32;
        let diagonal = squares.iter().map(|square| square + added).collect();
        Ok(Self { mean: hessian.mean()?, diagonal, added, sweeps: options.sweeps })
    }

    /// Moves the floats of levels, row by row, to those that `nearest` gives for what a column of a row should be. Returns
    /// how many moves were made; none makes the damped loss larger.
    pub fn descend(
        &self,
        elements: &[f32],
        floats: &mut [f32],
        nearest: impl Fn(usize, usize, f32) -> f32 + Sync,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<usize> {
        let columns = self.diagonal.len();
        let strip = (STRIP / columns / ROWS).max(1) * ROWS;
        let pool = cpu(self.mean.device())?.pool();
        let mut count = 0;
        if self.sweeps == 0 {
            return Ok(0);
        }
        for (number, (elements, floats)) in
            elements.chunks(strip * columns).zip(floats.chunks_mut(strip * columns)).enumerate()
        {
            if cancelled() {
                return Err(Error::Cancelled);
            }
            let errors: Vec<f32> = elements.iter().zip(&*floats).map(|(w, q)| w - q).collect();
            let dims = [elements.len() / columns, columns];
            let array = Array::from_slice(self.mean.device(), &dims, &errors)?;
            // Half the gradient of the loss by each error, but for the damping.
            let mut slopes = polaris_ops::matmul::matmul(&array, &self.mean)?.to_vec::<f32>()?;
            let moments =
                self.mean.buffer().host_slice::<f32>().map_err(polaris_ops::Error::from)?;
            let moments: &[f32] = &moments;
            let mut moves = vec![0; dims[0].div_ceil(ROWS)];
            let parts = (elements.chunks(ROWS * columns))
                .zip(floats.chunks_mut(ROWS * columns))
                .zip(slopes.chunks_mut(ROWS * columns))
                .zip(&mut moves);
            for_each(pool, parts, |part, (((elements, floats), slopes), moves)| {
                let first = number * strip + part * ROWS;
                let rows = elements.chunks(columns).zip(floats.chunks_mut(columns));
                for (row, ((elements, floats), slopes)) in
                    rows.zip(slopes.chunks_mut(columns)).enumerate()
                {
                    let nearest = |column, wanted| nearest(first + row, column, wanted);
                    *moves += self.row(elements, floats, slopes, moments, nearest);
                }
            });
            count += moves.iter().sum::<usize>();
        }
        Ok(count)
    }

    /// What floats in the place of elements cost, row by row.
    pub fn losses(&self, elements: &[f32], floats: &[f32]) -> Result<Vec<Loss>> {
        let columns = self.diagonal.len();
        let errors: Vec<f32> = elements.iter().zip(floats).map(|(w, q)| w - q).collect();
        let dims = [elements.len() / columns, columns];
        let array = Array::from_slice(self.mean.device(), &dims, &errors)?;
        let slopes = polaris_ops::matmul::matmul(&array, &self.mean)?.to_vec::<f32>()?;
        let rows = errors.chunks(columns).zip(slopes.chunks(columns));
        let of = |(errors, slopes): (&[f32], &[f32])| {
            let pairs = errors.iter().zip(slopes);
            let outputs = pairs.map(|(&e, &slope)| f64::from(e) * f64::from(slope)).sum();
            let norm: f64 = errors.iter().map(|&e| f64::from(e).powi(2)).sum();
            Loss { outputs, damped: outputs + f64::from(self.added) * norm }
        };
        Ok(rows.map(of).collect())
    }

    fn row(
        &self,
        elements: &[f32],
        floats: &mut [f32],
        slopes: &mut [f32],
        moments: &[f32],
        nearest: impl Fn(usize, f32) -> f32,
    ) -> usize {
        let columns = elements.len();
        let mut moves = 0;
        for _ in 0..self.sweeps {
            let before = moves;
            for at in 0..columns {
                let curve = self.diagonal[at];
                let slope = slopes[at] + self.added * (elements[at] - floats[at]);
                let wanted = floats[at] + slope / curve;
                if !wanted.is_finite() {
                    continue;
                }
                let new = nearest(at, wanted);
                let change = floats[at] - new;
                // What the loss changes by; a little must be gained, so that rounding makes no circles.
                if change * (2.0 * slope + change * curve) >= -1e-5 * change * change * curve {
                    continue;
                }
                floats[at] = new;
                let moments = &moments[at * columns..(at + 1) * columns];
                for (slope, moment) in slopes.iter_mut().zip(moments) {
                    *slope += change * moment;
                }
                moves += 1;
            }
            if moves == before {
                break;
            }
        }
        moves
    }
}
