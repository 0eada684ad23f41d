//! The Cholesky factor of a matrix in `f64`, a panel of columns at a time.
//!
//! A panel is factored by the host and solved by all threads; what it changes in the columns behind it is a matmul, which is
//! nearly all of the arithmetic: a third of the cube of the columns.

use polaris_ops::{Array, MatMul};
use polaris_runtime::Buffer;

use crate::Result;
use crate::parallel::{cpu, for_each};

/// Columns of a panel.
const PANEL: usize = 128;
/// Columns of the rest that are updated at once; what is above the diagonal is left out but for the ends of these.
const WIDE: usize = 512;
/// Rows that a thread solves at a time.
const ROWS: usize = 32;

/// Overwrites the lower triangle of a symmetric matrix `A`, of which nothing else is read, by `L` with `A = L L^T`. Gives
/// the first column whose pivot is not above `least`, if there is one: then the matrix is not positive definite.
pub(super) fn cholesky(matrix: &Array, least: f64) -> Result<Option<usize>> {
    let n = matrix.shape()[0];
    let device = matrix.device();
    let pool = cpu(device)?.pool();
    for start in (0..n).step_by(PANEL) {
        let end = (start + PANEL).min(n);
        let width = end - start;
        let mut below = vec![0.0; (n - end) * width];
        {
            let mut all =
                matrix.buffer().host_slice_mut::<f64>().map_err(polaris_ops::Error::from)?;
            let mut corner: Vec<f64> = (start..end)
                .flat_map(|row| &all[row * n + start..row * n + end])
                .copied()
                .collect();
            if let Some(at) = factor(&mut corner, width, least) {
                return Ok(Some(start + at));
            }
            for (row, corner) in (start..end).zip(corner.chunks(width)) {
                all[row * n + start..row * n + end].copy_from_slice(corner);
            }
            let transposed: Vec<f64> =
                (0..width * width).map(|i| corner[i % width * width + i / width]).collect();
            let rows = all[end * n..].chunks_mut(ROWS * n).zip(below.chunks_mut(ROWS * width));
            for_each(pool, rows, |_, (rows, below)| {
                for (row, below) in rows.chunks_mut(n).zip(below.chunks_mut(width)) {
                    solve(&transposed, &mut row[start..end]);
                    below.copy_from_slice(&row[start..end]);
                }
            });
        }
        if end == n {
            break;
        }
        let below = Buffer::from_vec(device, below).map_err(polaris_ops::Error::from)?;
        let below =
            Array::new(below, polaris_core::Layout::contiguous(super::shape(n - end, width)?))?;
        for first in (end..n).step_by(WIDE) {
            let last = (first + WIDE).min(n);
            let rest = matrix.slice(0, first..n, 1)?.slice(1, first..last, 1)?;
            let left = below.slice(0, first - end..n - end, 1)?;
            let right = below.slice(0, first - end..last - end, 1)?.permute(&[1, 0])?;
            MatMul { alpha: -1.0, beta: 1.0, ..MatMul::default() }
                .run(&[&left, &right, &rest], &rest)?;
        }
    }
    Ok(None)
}

/// The same for a small matrix. What is above the diagonal becomes zero.
fn factor(a: &mut [f64], n: usize, least: f64) -> Option<usize> {
    for j in 0..n {
        let (above, row) = a.split_at_mut(j * n);
        let row = &mut row[..n];
        for k in 0..j {
            let other = &above[k * n..k * n + k + 1];
            let dot: f64 = other[..k].iter().zip(&row[..k]).map(|(a, b)| a * b).sum();
            row[k] = (row[k] - dot) / other[k];
        }
        let pivot = row[j] - row[..j].iter().map(|x| x * x).sum::<f64>();
        if pivot.is_nan() || pivot <= least {
            return Some(j);
        }
        row[j] = pivot.sqrt();
        row[j + 1..].fill(0.0);
    }
    None
}

/// Overwrites a row `b` by the `x` with `x L^T = b`, where `transposed` is `L^T`.
fn solve(transposed: &[f64], x: &mut [f64]) {
    let n = x.len();
    for j in 0..n {
        let row = &transposed[j * n..(j + 1) * n];
        x[j] /= row[j];
        let known = x[j];
        // `x[k]` for `k > j` lacks the product with element (k, j) of `L`.
        for (x, l) in x[j + 1..].iter_mut().zip(&row[j + 1..]) {
            *x -= known * l;
        }
    }
}
