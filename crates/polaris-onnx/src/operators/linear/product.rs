//! Matmul of matrices and of batches of them.

use crate::limits::checked_elements;
use crate::operators::walk;
use crate::room::{Collected, filled};
use crate::{ElementType, Error, Result};

/// Rows of the right matrix that are taken at once, so that they stay in the cache.
const ROWS_AT_ONCE: usize = 64;

/// How the matrices of two operands meet, by NumPy's rules.
pub(super) struct Plan {
    /// The shape of the result.
    pub shape: Vec<usize>,
    /// Pairs of matrices, by their numbers.
    pairs: Vec<(usize, usize)>,
    rows: usize,
    inner: usize,
    columns: usize,
}

impl Plan {
    /// The plan for two shapes.
    pub fn new(left: &[usize], right: &[usize]) -> Result<Self> {
        let misfit =
            || Error::operands(format!("matrices of {left:?} and of {right:?} have no product"));
        // A vector is a row on the left and a column on the right, and that axis goes away again.
        let (left_batch, rows, left_inner) = match left {
            [] => return Err(misfit()),
            &[inner] => (&[][..], None, inner),
            [batch @ .., rows, inner] => (batch, Some(*rows), *inner),
        };
        let (right_batch, right_inner, columns) = match right {
            [] => return Err(misfit()),
            &[inner] => (&[][..], inner, None),
            [batch @ .., inner, columns] => (batch, *inner, Some(*columns)),
        };
        if left_inner != right_inner {
            return Err(misfit());
        }
        let batch = walk::broadcast_shapes(&[left_batch, right_batch]).map_err(|_| misfit())?;
        let mut shape = batch.clone();
        shape.extend(rows);
        shape.extend(columns);
        checked_elements(ElementType::F64, &shape)?;
        // Without elements nothing limits the number of pairs.
        let pairs = if shape.contains(&0) {
            Vec::new()
        } else {
            let left = walk::broadcast_places(left_batch, &batch)?;
            left.into_iter().zip(walk::broadcast_places(right_batch, &batch)?).collected()?
        };
        let (rows, columns) = (rows.unwrap_or(1), columns.unwrap_or(1));
        Ok(Self { shape, pairs, rows, inner: left_inner, columns })
    }

    /// The products, given how to add the product of two numbers to a sum.
    pub fn multiply<T: Copy + Default>(
        &self,
        left: &[T],
        right: &[T],
        add_product: impl Fn(T, T, T) -> T,
    ) -> Result<Vec<T>> {
        let (rows, inner, columns) = (self.rows, self.inner, self.columns);
        let mut result = filled(T::default(), self.shape.iter().product())?;
        if result.is_empty() {
            return Ok(result);
        }
        let blocks = result.chunks_exact_mut(rows * columns);
        for (target, &(a, b)) in blocks.zip(&self.pairs) {
            let left = &left[a * rows * inner..(a + 1) * rows * inner];
            let right = &right[b * inner * columns..(b + 1) * inner * columns];
            for start in (0..inner).step_by(ROWS_AT_ONCE) {
                let end = inner.min(start + ROWS_AT_ONCE);
                for (row, sums) in target.chunks_exact_mut(columns).enumerate() {
                    for at in start..end {
                        let factor = left[row * inner + at];
                        let others = &right[at * columns..(at + 1) * columns];
                        for (sum, &other) in sums.iter_mut().zip(others) {
                            *sum = add_product(*sum, factor, other);
                        }
                    }
                }
            }
        }
        Ok(result)
    }

    /// The products of floating-point numbers.
    pub fn multiply_floats(&self, left: &[f64], right: &[f64]) -> Result<Vec<f64>> {
        self.multiply(left, right, |sum, a, b| sum + a * b)
    }

    /// The products of integers, wrapped to 64 bits.
    pub fn multiply_integers(&self, left: &[i64], right: &[i64]) -> Result<Vec<i64>> {
        self.multiply(left, right, |sum, a, b| sum.wrapping_add(a.wrapping_mul(b)))
    }
}
