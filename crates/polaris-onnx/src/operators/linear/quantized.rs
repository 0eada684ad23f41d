//! Products of quantised matrices.

use super::product::Plan;
use crate::operators::{Call, one, quantize, walk};
use crate::room::{Collected, filled};
use crate::{ElementType, Error, Result, Tensor, Value};

/// A matrix without its zero point, in numbers.
fn centred(matrix: &Tensor, zero: Option<&Tensor>, by_row: bool) -> Result<Vec<f64>> {
    let mut values = matrix.to_f64()?;
    if let Some(zero) = zero {
        let zeros = repeated(zero, matrix.rank(), by_row, matrix.shape())?;
        values.iter_mut().zip(zeros).for_each(|(value, zero)| *value -= zero);
    }
    Ok(values)
}

/// Parameters of matrices, repeated to a shape. A vector of them is one for each row of the left matrix,
/// or one for each column of the right one.
fn repeated(
    parameter: &Tensor,
    matrix_rank: usize,
    by_row: bool,
    target: &[usize],
) -> Result<Vec<f64>> {
    let values = parameter.to_f64()?;
    let elements = target.iter().product();
    if let [value] = values.as_slice() {
        return filled(*value, elements);
    }
    let shape = match parameter.shape() {
        &[rows] if by_row && matrix_rank >= 2 => vec![rows, 1],
        other => other.to_vec(),
    };
    if walk::broadcast_shapes(&[&shape, target])? != target {
        return Err(Error::operands(format!("scales or zero points of {shape:?} do not fit")));
    }
    walk::broadcast_places(&shape, target)?.into_iter().map(|place| values[place]).collected()
}

pub(super) fn mat_mul_integer(call: &Call<'_>) -> Result<Vec<Value>> {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    let plan = Plan::new(a.shape(), b.shape())?;
    let left = centred(a, call.optional(2)?, true)?;
    let right = centred(b, call.optional(3)?, false)?;
    // Numbers of 9 bits: whole sums are exact in `f64`.
    let sums = plan.multiply_floats(&left, &right)?;
    Ok(one(Tensor::from_f64(ElementType::I32, &plan.shape, &sums)?))
}

pub(super) fn qlinear_mat_mul(call: &Call<'_>) -> Result<Vec<Value>> {
    let (a, b) = (call.tensor(0)?, call.tensor(3)?);
    let plan = Plan::new(a.shape(), b.shape())?;
    let left = centred(a, call.optional(2)?, true)?;
    let right = centred(b, call.optional(5)?, false)?;
    let sums = plan.multiply_floats(&left, &right)?;
    let shape = plan.shape.as_slice();
    let a_scales = repeated(call.tensor(1)?, a.rank(), true, shape)?;
    let b_scales = repeated(call.tensor(4)?, b.rank(), false, shape)?;
    let y_scales = repeated(call.tensor(6)?, shape.len(), true, shape)?;
    let (element, zeros) = match call.optional(7)? {
        Some(zero) => (zero.element(), repeated(zero, shape.len(), true, shape)?),
        None => (a.element(), vec![0.0; sums.len()]),
    };
    let scales = a_scales.into_iter().zip(b_scales).zip(y_scales).map(|((a, b), y)| a * b / y);
    let values = sums.into_iter().zip(scales).map(|(sum, scale)| sum * scale).zip(zeros);
    Ok(one(quantize::quantized(element, shape, values, true)?))
}
