//! Matmul, of integers too, and determinants.

mod dense;
mod einsum;
mod product;
mod quantized;

use super::{Operator, walk};
use crate::{Result, Tensor};

pub(super) const OPERATORS: &[(&str, Operator)] = &[
    ("Det", dense::det),
    ("Einsum", einsum::einsum),
    ("Gemm", dense::gemm),
    ("MatMul", dense::mat_mul),
    ("MatMulInteger", quantized::mat_mul_integer),
    ("QLinearMatMul", quantized::qlinear_mat_mul),
];

/// Integers of any width in 64 bits: sums and products that wrap end in the same low bits.
fn wrapped(tensor: &Tensor) -> Result<Vec<i64>> {
    Ok(tensor.to_integers()?.into_iter().map(|value| value as i64).collect())
}

/// A matrix with rows and columns exchanged.
fn transposed(matrix: &Tensor) -> Result<Tensor> {
    let shape: Vec<usize> = matrix.shape().iter().rev().copied().collect();
    let steps: Vec<usize> = walk::strides(matrix.shape()).into_iter().rev().collect();
    walk::pick(matrix, &shape, walk::strided_places(&shape, &steps, 0)?)
}
