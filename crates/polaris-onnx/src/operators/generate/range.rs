//! Numbers in a row, and ones on a diagonal.

use super::dtype;
use crate::limits::checked_elements;
use crate::operators::{Call, one};
use crate::room::{Collected, filled};
use crate::{ElementType, Error, Result, Tensor, Value};

/// From the first operand up to, but not, the second, in steps of the third.
pub(super) fn range(call: &Call<'_>) -> Result<Vec<Value>> {
    let bounds = [call.tensor(0)?, call.tensor(1)?, call.tensor(2)?];
    let element = bounds[0].element();
    if bounds.iter().any(|bound| bound.elements() != 1 || bound.element() != element) {
        return Err(Error::operands("three single numbers of one type were expected"));
    }
    if element.is_integer() {
        let read = |bound: &Tensor| bound.to_integers().map(|list| list[0]);
        let (start, limit, step) = (read(bounds[0])?, read(bounds[1])?, read(bounds[2])?);
        // Rounded up; numbers of 64 bits do not overflow 128.
        let count = match step {
            0 => return Err(Error::operands("a range needs a step other than 0")),
            step if step > 0 => (limit - start + step - 1).div_euclid(step),
            step => (start - limit - step - 1).div_euclid(-step),
        };
        let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
        // The numbers are in 16 bytes each at first.
        checked_elements(ElementType::C128, &[count])?;
        let values = (0..count).map(|index| start + index as i128 * step).collected()?;
        return Ok(one(Tensor::from_integers(element, &[count], &values)?));
    }
    let read = |bound: &Tensor| bound.to_f64().map(|list| list[0]);
    let (start, limit, step) = (read(bounds[0])?, read(bounds[1])?, read(bounds[2])?);
    let count = ((limit - start) / step).ceil();
    if count.is_nan() || step == 0.0 {
        return Err(Error::operands(format!("no range from {start} to {limit} by {step}")));
    }
    // Too large a number becomes the largest, which is beyond the limit.
    let count = count.max(0.0) as usize;
    checked_elements(ElementType::F64, &[count])?;
    let values = (0..count).map(|index| start + index as f64 * step).collected()?;
    Ok(one(Tensor::from_f64(element, &[count], &values)?))
}

/// Ones on the diagonal number `k` of a matrix.
pub(super) fn eye_like(call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let &[rows, columns] = x.shape() else {
        return Err(Error::operands(format!("a matrix was expected, not {:?}", x.shape())));
    };
    let element = dtype(call)?.unwrap_or(x.element());
    let k = i128::from(call.attributes().int_or("k", 0)?);
    let one_element = Tensor::from_integers(element, &[], &[1])?;
    let unit = one_element.bytes()?;
    let mut bytes = filled(0u8, checked_elements(element, x.shape())? * unit.len())?;
    for row in 0..rows {
        if let Some(column) = usize::try_from(row as i128 + k).ok().filter(|&at| at < columns) {
            let place = (row * columns + column) * unit.len();
            bytes[place..place + unit.len()].copy_from_slice(unit);
        }
    }
    Ok(one(Tensor::from_bytes(element, x.shape(), bytes.into())?))
}
