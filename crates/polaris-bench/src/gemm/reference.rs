//! The error of a result against the product in `f64`.

use polaris_core::random::SplitMix64;
use polaris_core::{DType, Shape};
use polaris_ops::elementwise::Elementwise;
use polaris_ops::{Array, Operation, Unary};
use polaris_runtime::DeviceRef;

use super::cases::{Case, Dims};
use super::operands::{Operands, bytes_of, element};
use crate::Result;

/// Products with at most this many multiplications are compared as a whole.
const WHOLE: u128 = 1 << 27;

/// Of larger ones about this many entries are.
const SAMPLE: usize = 1024;

/// Rows of such a sample, as far as there are.
const SAMPLE_ROWS: usize = 32;

/// The product in `f64`, at some rows and columns.
pub struct Reference {
    rows: Vec<usize>,
    columns: Vec<usize>,
    /// Columns of the whole result.
    width: usize,
    dtype: DType,
    /// By row, then column.
    values: Vec<f64>,
}

impl Reference {
    /// Computes it for these operands.
    ///
    /// # Errors
    /// If the operands on the host cannot be read.
    pub fn new(case: &Case, operands: &Operands) -> Result<Self> {
        let Dims { m, n, k } = case.dims;
        let (rows, columns) = if m as u128 * n as u128 * k as u128 <= WHOLE {
            ((0..m).collect(), (0..n).collect())
        } else {
            let rows = some_of(m, SAMPLE_ROWS, 11);
            let columns = some_of(n, SAMPLE / rows.len(), 12);
            (rows, columns)
        };
        let [a, b] = operands.host()?;
        let dtype = case.numbers.dtype();
        let index = |row: usize, column: usize, [rows, columns]: [usize; 2], transposed: bool| {
            if transposed { column * rows + row } else { row * columns + column }
        };
        let mut values = vec![0.0; rows.len() * columns.len()];
        // B's columns as rows of k, once: each is used for every row of A.
        let (a, b) = (a.bytes(), b.bytes());
        let at_b = |l: usize, j: usize| element(dtype, b, index(l, j, [k, n], case.transpose.b()));
        let b: Vec<f64> = (0..k).flat_map(|l| columns.iter().map(move |&j| at_b(l, j))).collect();
        for (&i, sums) in rows.iter().zip(values.chunks_exact_mut(columns.len())) {
            for (l, b) in b.chunks_exact(columns.len()).enumerate() {
                let a = element(dtype, a, index(i, l, [m, k], case.transpose.a()));
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum += a * b;
                }
            }
        }
        Ok(Self { rows, columns, width: n, dtype: case.numbers.output(), values })
    }

    /// The same with a bias for each column added, and GELU applied.
    ///
    /// # Errors
    /// If the bias cannot be read.
    pub fn bias_gelu(&self, bias: &Array, host: &DeviceRef) -> Result<Self> {
        let (bytes, dtype) = (bytes_of(bias)?, bias.dtype());
        let width = self.columns.len();
        let values = self.values.iter().enumerate();
        let sums: Vec<f64> = values
            .map(|(place, value)| value + element(dtype, &bytes, self.columns[place % width]))
            .collect();
        let shape = Array::empty(host, DType::F64, Shape::new(&[sums.len()])?)?;
        let gelu = Elementwise { function: Unary::GeluErf.into() };
        let values = gelu.reference(&[sums], &[&shape], &shape);
        let (rows, columns) = (self.rows.clone(), self.columns.clone());
        Ok(Self { rows, columns, values, ..*self })
    }

    /// The error of a result: the Frobenius norm of the difference by that of the reference; of
    /// integers, how many are wrong.
    pub fn error_of(&self, result: &[u8]) -> f64 {
        let (mut wrong, mut distance, mut norm) = (0.0, 0.0, 0.0);
        let places = self.rows.iter().flat_map(|i| self.columns.iter().map(move |j| (i, j)));
        for ((i, j), &expected) in places.zip(&self.values) {
            let found = element(self.dtype, result, i * self.width + j);
            wrong += f64::from(u8::from(found != expected));
            distance += (found - expected).powi(2);
            norm += expected.powi(2);
        }
        match self.dtype.is_float() {
            true if distance == 0.0 => 0.0,
            true => (distance / norm).sqrt(),
            false => wrong,
        }
    }
}

/// About `count` indices below `size`, the first and the last among them: kernels err at edges.
fn some_of(size: usize, count: usize, seed: u64) -> Vec<usize> {
    if size <= count {
        return (0..size).collect();
    }
    let mut random = SplitMix64::new(seed);
    let mut next = || (random.bits() % size as u64) as usize;
    let mut indices = vec![0, size - 1];
    indices.extend((2..count).map(|_| next()));
    indices.truncate(count);
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_reach_both_ends_and_stay_inside() {
        assert_eq!(some_of(3, 32, 1), [0, 1, 2]);
        let sample = some_of(1000, 32, 1);
        assert_eq!((sample.len(), sample[0], sample[1]), (32, 0, 999));
        assert!(sample.iter().all(|&index| index < 1000));
    }

    #[test]
    fn errors_are_relative_and_of_integers_counted() {
        let reference = |dtype| Reference {
            rows: vec![0, 1],
            columns: vec![0, 1],
            width: 2,
            dtype,
            values: vec![3.0, 0.0, 0.0, 4.0],
        };
        let floats: Vec<u8> =
            [3.0f32, 0.0, 0.0, 4.5].iter().flat_map(|x| x.to_le_bytes()).collect();
        assert!((reference(DType::F32).error_of(&floats) - 0.1).abs() < 1e-12);
        let ints: Vec<u8> = [3i32, 0, 1, 5].iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(reference(DType::I32).error_of(&ints), 2.0);
        let nan = f32::NAN.to_le_bytes().repeat(4);
        assert!(reference(DType::F32).error_of(&nan).is_nan());
    }
}
