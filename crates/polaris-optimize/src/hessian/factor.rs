//! A Hessian in the form in which methods use it: what an error of one column asks of the columns behind it.
//!
//! `H = (U + I) D (U + I)^T` with `U` strictly upper triangular and `D` diagonal. For an error `E = W - Q`,
//! `tr(E H E^T)` is the sum over columns `k` and rows of `D[k] (W[k] + sum_{j < k} E[j] U[j, k] - Q[k])^2`. So if the columns
//! before `k` are decided, the best level of `k` is the one nearest to `W[k] + sum E[j] U[j, k]`, and counts `D[k]`. This is
//! GPTQ (Frantar et al. 2022), which writes it with the Cholesky factor of the inverse of `H`; the factor of `H` itself gives
//! the same numbers without inverting anything (Chee et al. 2023, LDLQ).

use polaris_core::DType;
use polaris_ops::Array;
use polaris_runtime::DeviceRef;

use super::cholesky::cholesky;
use super::{Hessian, shape};
use crate::{Error, Result};

/// The order in which columns are decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// That of the matrix.
    #[default]
    Natural,
    /// By falling mean square of the inputs (act-order): what counts most is decided while most others can still make up for
    /// it.
    Activations,
}

/// How a Hessian is factored.
#[derive(Debug, Clone, Copy)]
pub struct FactorOptions {
    /// What is added to the diagonal, as a part of its mean. Few inputs leave directions in which errors seem to cost
    /// nothing. If it does not suffice, ten times as much is tried, up to all of the mean.
    pub damping: f64,
    /// The order of the columns.
    pub order: Order,
}

impl Default for FactorOptions {
    fn default() -> Self {
        Self { damping: 0.01, order: Order::Natural }
    }
}

/// A factored Hessian; matrices with the same inputs share it.
#[derive(Debug)]
pub struct Factor {
    /// The column that is decided at each place.
    pub(crate) order: Vec<usize>,
    /// Whether that is the order of the matrix.
    pub(crate) is_natural: bool,
    /// `U`, by places.
    pub(crate) feedback: Array,
    /// `D`, by places.
    pub(crate) costs: Vec<f32>,
    damping: f64,
    dead: usize,
}

impl Factor {
    /// Factors a Hessian. A column whose inputs were all zero is rounded by itself: nothing is known about it.
    ///
    /// # Errors
    /// If the damping is not a part, the matrix is not positive definite even with all of the mean added to its diagonal, or
    /// there is no room.
    pub fn new(hessian: &Hessian, options: &FactorOptions) -> Result<Self> {
        let n = hessian.columns();
        let FactorOptions { damping, order } = *options;
        if !(0.0..=1.0).contains(&damping) {
            return Err(Error::Damping { damping });
        }
        let device = hessian.sum.device();
        let squares = hessian.mean_squares()?;
        let mut places: Vec<usize> = (0..n).collect();
        if order == Order::Activations {
            places.sort_by(|&a, &b| squares[b].total_cmp(&squares[a]));
        }
        let dead = squares.iter().filter(|&&square| square == 0.0).count();
        let total: f64 = squares.iter().map(|&square| f64::from(square)).sum();
        let mean = match total / (n - dead).max(1) as f64 {
            mean if mean > 0.0 => mean,
            _ => 1.0,
        };
        let mut damping = damping;
        loop {
            // In reverse, so that its lower factor is the upper one of the matrix.
            let matrix = reversed(device, hessian, &places, mean, damping)?;
            let least = mean * n as f64 * f64::EPSILON;
            let Some(at) = cholesky(&matrix, least)? else {
                return Self::of(&matrix, places, order, damping, dead);
            };
            if damping >= 1.0 {
                return Err(Error::NotPositive { column: places[n - 1 - at], damping });
            }
            damping = (10.0 * damping.max(1e-4)).min(1.0);
        }
    }

    fn of(
        matrix: &Array,
        places: Vec<usize>,
        order: Order,
        damping: f64,
        dead: usize,
    ) -> Result<Self> {
        let n = places.len();
        let feedback = Array::empty(matrix.device(), DType::F32, shape(n, n)?)?;
        let mut costs = vec![0.0; n];
        {
            let lower = matrix.buffer().host_slice::<f64>().map_err(polaris_ops::Error::from)?;
            let mut upper =
                feedback.buffer().host_slice_mut::<f32>().map_err(polaris_ops::Error::from)?;
            let over: Vec<f64> = (0..n).map(|i| 1.0 / lower[i * n + i]).collect();
            for (j, upper) in upper.chunks_mut(n).enumerate() {
                let row = &lower[(n - 1 - j) * n..(n - j) * n];
                costs[j] = row[n - 1 - j].powi(2) as f32;
                for (k, upper) in upper.iter_mut().enumerate() {
                    *upper = match k > j {
                        true => (row[n - 1 - k] * over[n - 1 - k]) as f32,
                        false => 0.0,
                    };
                }
            }
        }
        let is_natural = order == Order::Natural;
        Ok(Self { order: places, is_natural, feedback, costs, damping, dead })
    }

    /// Columns of the matrix.
    pub fn columns(&self) -> usize {
        self.order.len()
    }

    /// What was added to the diagonal, as a part of its mean.
    pub fn damping(&self) -> f64 {
        self.damping
    }

    /// Columns whose inputs were all zero.
    pub fn dead(&self) -> usize {
        self.dead
    }

    /// What an error of each column of the matrix costs, once the columns behind it have made up for it as far as they can.
    pub fn costs(&self) -> Vec<f32> {
        let mut costs = vec![0.0; self.order.len()];
        for (&column, &cost) in self.order.iter().zip(&self.costs) {
            costs[column] = cost;
        }
        costs
    }
}

/// The lower triangle of the damped matrix, the last place first.
fn reversed(
    device: &DeviceRef,
    hessian: &Hessian,
    places: &[usize],
    mean: f64,
    damping: f64,
) -> Result<Array> {
    let n = places.len();
    let matrix = Array::empty(device, DType::F64, shape(n, n)?)?;
    {
        let mut matrix =
            matrix.buffer().host_slice_mut::<f64>().map_err(polaris_ops::Error::from)?;
        let sum = hessian.sum.buffer().host_slice::<f32>().map_err(polaris_ops::Error::from)?;
        let over = 1.0 / hessian.rows().max(1) as f64;
        for (a, row) in matrix.chunks_mut(n).enumerate() {
            let i = places[n - 1 - a];
            for (b, to) in row[..=a].iter_mut().enumerate() {
                let j = places[n - 1 - b];
                *to = f64::from(sum[i.min(j) * n + i.max(j)]) * over;
            }
            row[a + 1..].fill(0.0);
            if row[a] == 0.0 {
                row[..a].fill(0.0);
                row[a] = mean;
            }
            row[a] += damping * mean;
        }
    }
    Ok(matrix)
}
