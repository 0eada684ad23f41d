//! MatMul, Gemm and Det.

use super::product::Plan;
use super::{transposed, wrapped};
use crate::limits::checked_elements;
use crate::operators::{Call, one, walk};
use crate::room::filled;
use crate::{ElementType, Error, Result, Tensor, Value};

/// The product of two tensors of one type.
fn product(left: &Tensor, right: &Tensor) -> Result<Tensor> {
    let element = left.element();
    if element != right.element() {
        let other = right.element();
        return Err(Error::operands(format!("matrices of {element} and of {other}")));
    }
    let plan = Plan::new(left.shape(), right.shape())?;
    if element.is_integer() {
        let sums = plan.multiply_integers(&wrapped(left)?, &wrapped(right)?)?;
        let sums: Vec<i128> = sums.into_iter().map(i128::from).collect();
        return Tensor::from_integers(element, &plan.shape, &sums);
    }
    let sums = plan.multiply_floats(&left.to_f64()?, &right.to_f64()?)?;
    Tensor::from_f64(element, &plan.shape, &sums)
}

pub(super) fn mat_mul(call: &Call<'_>) -> Result<Vec<Value>> {
    Ok(one(product(call.tensor(0)?, call.tensor(1)?)?))
}

/// `alpha · A · B + beta · C`.
pub(super) fn gemm(call: &Call<'_>) -> Result<Vec<Value>> {
    let attributes = call.attributes();
    let (alpha, beta) = (attributes.float_or("alpha", 1.0)?, attributes.float_or("beta", 1.0)?);
    let matrix = |index: usize, flag: &str| {
        let tensor = call.tensor(index)?;
        if tensor.rank() != 2 {
            return Err(Error::operands(format!(
                "a matrix was expected, not {:?}",
                tensor.shape()
            )));
        }
        if attributes.flag(flag, false)? { transposed(tensor) } else { Ok(tensor.clone()) }
    };
    let (a, b) = (matrix(0, "transA")?, matrix(1, "transB")?);
    let (element, c) = (a.element(), call.optional(2)?.filter(|_| beta != 0.0));
    let plan = Plan::new(a.shape(), b.shape())?;
    let shape = plan.shape.as_slice();
    if let Some(c) = c {
        let together = walk::broadcast_shapes(&[c.shape(), shape])?;
        if together != shape || c.element() != element {
            return Err(Error::operands(format!("C of {:?} does not fit {shape:?}", c.shape())));
        }
    }
    // Integers of 64 bits stay exact unless they are scaled.
    if element.is_integer() && alpha == 1.0 && beta == 1.0 {
        let mut sums = plan.multiply_integers(&wrapped(&a)?, &wrapped(&b)?)?;
        if let Some(c) = c {
            let values = wrapped(c)?;
            for (sum, place) in sums.iter_mut().zip(walk::broadcast_places(c.shape(), shape)?) {
                *sum = sum.wrapping_add(values[place]);
            }
        }
        let sums: Vec<i128> = sums.into_iter().map(i128::from).collect();
        return Ok(one(Tensor::from_integers(element, shape, &sums)?));
    }
    let mut sums = plan.multiply_floats(&a.to_f64()?, &b.to_f64()?)?;
    sums.iter_mut().for_each(|sum| *sum *= f64::from(alpha));
    if let Some(c) = c {
        let values = c.to_f64()?;
        for (sum, place) in sums.iter_mut().zip(walk::broadcast_places(c.shape(), shape)?) {
            *sum += f64::from(beta) * values[place];
        }
    }
    Ok(one(Tensor::from_f64(element, shape, &sums)?))
}

/// The determinant of each matrix of a stack.
pub(super) fn det(call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let (batch, size) = match x.shape() {
        [batch @ .., rows, columns] if rows == columns => (batch, *rows),
        other => return Err(Error::operands(format!("{other:?} are not square matrices"))),
    };
    if size == 0 {
        let ones = filled(1.0, checked_elements(ElementType::F64, batch)?)?;
        return Ok(one(Tensor::from_f64(x.element(), batch, &ones)?));
    }
    let mut values = x.to_f64()?;
    let results: Vec<f64> =
        values.chunks_exact_mut(size * size).map(|matrix| determinant(matrix, size)).collect();
    Ok(one(Tensor::from_f64(x.element(), batch, &results)?))
}

/// By elimination, with the largest pivot of each column. The matrix is used up.
fn determinant(matrix: &mut [f64], size: usize) -> f64 {
    let mut product = 1.0;
    for at in 0..size {
        let height = |row: &usize| matrix[row * size + at].abs();
        let pivot = (at..size).max_by(|a, b| height(a).total_cmp(&height(b))).unwrap_or(at);
        if pivot != at {
            let (above, below) = matrix.split_at_mut(pivot * size);
            above[at * size..(at + 1) * size].swap_with_slice(&mut below[..size]);
            product = -product;
        }
        let divisor = matrix[at * size + at];
        product *= divisor;
        if divisor == 0.0 {
            return 0.0;
        }
        let (above, below) = matrix.split_at_mut((at + 1) * size);
        let pivot_row = &above[at * size..];
        for row in below.chunks_exact_mut(size) {
            let factor = row[at] / divisor;
            for (value, pivot) in row[at..].iter_mut().zip(&pivot_row[at..]) {
                *value -= factor * pivot;
            }
        }
    }
    product
}
