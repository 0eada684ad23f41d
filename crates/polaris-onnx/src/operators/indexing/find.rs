//! Compress, NonZero, OneHot.

use std::borrow::Cow;

use super::gather::take;
use crate::limits::checked_elements;
use crate::operators::{Call, axis, one, walk};
use crate::room::with_room;
use crate::{ElementType, Error, Result, Tensor, Value};

pub fn compress(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, wanted) = (call.tensor(0)?, call.tensor(1)?.to_bools()?);
    let (data, at) = along_or_flat(call, data)?;
    let all = wanted.iter().zip(0i64..);
    let indices: Vec<i64> = all.filter(|&(&wanted, _)| wanted).map(|(_, index)| index).collect();
    Ok(one(take(&data, at, &indices)?))
}

/// The tensor and the axis that is named; all elements in a row where none is.
pub(super) fn along_or_flat<'a>(
    call: &Call<'_>,
    data: &'a Tensor,
) -> Result<(Cow<'a, Tensor>, usize)> {
    match call.attributes().int("axis")? {
        Some(number) => Ok((Cow::Borrowed(data), axis(number, data.rank())?)),
        None => Ok((Cow::Owned(data.reshaped(&[data.elements()])?), 0)),
    }
}

pub fn non_zero(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let is_there: Vec<bool> = match data.element() {
        ElementType::String => data.as_strings()?.iter().map(|text| !text.is_empty()).collect(),
        _ => data.to_complex()?.iter().map(|&parts| parts != [0.0, 0.0]).collect(),
    };
    let found: Vec<usize> = (0..is_there.len()).filter(|&place| is_there[place]).collect();
    let shape = [data.rank(), found.len()];
    checked_elements(ElementType::I64, &shape)?;
    let mut indices = with_room(shape[0] * shape[1])?;
    for (&length, stride) in data.shape().iter().zip(walk::strides(data.shape())) {
        indices.extend(found.iter().map(|&place| (place / stride % length) as i64));
    }
    Ok(one(Tensor::new(&shape, indices)?))
}

pub fn one_hot(call: &Call<'_>) -> Result<Vec<Value>> {
    let (indices, depth, values) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    if values.shape() != [2] {
        let found = values.shape();
        return Err(Error::operands(format!("two values were expected, not {found:?}")));
    }
    let depth = match whole_numbers(depth)?.as_slice() {
        [depth] => usize::try_from(*depth).ok(),
        _ => None,
    };
    let depth = depth.ok_or_else(|| Error::operands("the depth is not a single length"))?;
    let at = axis(call.attributes().int_or("axis", -1)?, indices.rank() + 1)?;
    let mut shape = indices.shape().to_vec();
    shape.insert(at, depth);
    checked_elements(values.element(), &shape)?;
    let numbers = whole_numbers(indices)?;
    let inner: usize = indices.shape()[at..].iter().product();
    let outer: usize = indices.shape()[..at].iter().product();
    let signed = depth as i128;
    let is_on = |number: i128, level: usize| {
        let from_start = if number < 0 { number + signed } else { number };
        from_start == level as i128
    };
    let numbers = numbers.as_slice();
    let places = (0..outer).flat_map(|row| {
        (0..depth).flat_map(move |level| {
            let line = &numbers[row * inner..(row + 1) * inner];
            line.iter().map(move |&number| usize::from(is_on(number, level)))
        })
    });
    Ok(one(walk::pick(values, &shape, places)?))
}

/// Numbers of any real type, cut off at the point.
fn whole_numbers(tensor: &Tensor) -> Result<Vec<i128>> {
    if tensor.element().is_float() {
        return Ok(tensor.to_f64()?.into_iter().map(|value| i128::from(value as i64)).collect());
    }
    tensor.to_integers()
}
