//! Ways to apply a function to elements, with NumPy's broadcasting.

use crate::limits::checked_elements;
use crate::operators::{Call, axis, one, walk};
use crate::room::{Collected, filled};
use crate::{ElementType, Error, Result, Tensor, Value};

/// A function of the only operand's numbers.
pub(super) fn to_floats(call: &Call<'_>, function: impl Fn(f64) -> f64) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let mut values = x.to_f64()?;
    values.iter_mut().for_each(|value| *value = function(*value));
    Ok(one(Tensor::from_f64(x.element(), x.shape(), &values)?))
}

/// A function of the only operand's numbers, which integers have of their own: those of 64 bits do not
/// fit `f64`.
pub(super) fn to_numbers(
    call: &Call<'_>,
    float: impl Fn(f64) -> f64,
    integer: impl Fn(i128) -> i128,
) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    if !x.element().is_integer() {
        return to_floats(call, float);
    }
    let mut values = x.to_integers()?;
    values.iter_mut().for_each(|value| *value = integer(*value));
    Ok(one(Tensor::from_integers(x.element(), x.shape(), &values)?))
}

/// A question about each number of the only operand.
pub(super) fn to_bools(call: &Call<'_>, question: impl Fn(f64) -> bool) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let answers: Vec<bool> = x.to_f64()?.into_iter().map(question).collect();
    Ok(one(Tensor::bools(x.shape(), &answers)?))
}

/// The shape where several operands meet, if numbers in it are within the limit.
pub(super) fn common_shape(operands: &[&Tensor]) -> Result<Vec<usize>> {
    let shapes: Vec<&[usize]> = operands.iter().map(|operand| operand.shape()).collect();
    let shape = walk::broadcast_shapes(&shapes)?;
    // Elements are computed in 16 bytes at most.
    checked_elements(ElementType::C128, &shape)?;
    Ok(shape)
}

/// Elements of a shape, repeated to a larger one.
pub(super) fn spread<T: Clone>(
    values: Vec<T>,
    shape: &[usize],
    target: &[usize],
) -> Result<Vec<T>> {
    if shape == target {
        return Ok(values);
    }
    if let [value] = values.as_slice() {
        return filled(value.clone(), target.iter().product());
    }
    let places = walk::broadcast_places(shape, target)?;
    places.into_iter().map(|place| values[place].clone()).collected()
}

/// The type that all operands have.
pub(super) fn common_element(operands: &[&Tensor]) -> Result<ElementType> {
    let first = operands.first().ok_or_else(|| Error::operands("there is no operand"))?.element();
    match operands.iter().find(|operand| operand.element() != first) {
        None => Ok(first),
        Some(other) => {
            let other = other.element();
            Err(Error::operands(format!("operands of {first} and of {other} are incompatible")))
        }
    }
}

/// The two operands. Before version 7 an attribute could say at which axis of the first one the second
/// begins; axes of length 1 after it say the same today.
pub(super) fn pair(call: &Call<'_>) -> Result<[Tensor; 2]> {
    let (left, right) = (call.tensor(0)?, call.tensor(1)?);
    let right = match call.attributes().int("axis")? {
        Some(at) if call.version() < 7 => aligned(right, left.rank(), axis(at, left.rank())?)?,
        _ => right.clone(),
    };
    Ok([left.clone(), right])
}

/// A tensor with axes of length 1 after its own, so that it begins at an axis of another.
pub(super) fn aligned(tensor: &Tensor, rank: usize, at: usize) -> Result<Tensor> {
    let misfit = || Error::operands(format!("{:?} does not fit at axis {at}", tensor.shape()));
    let missing = rank.checked_sub(at + tensor.rank()).ok_or_else(misfit)?;
    tensor.reshaped(&[tensor.shape(), &vec![1; missing]].concat())
}

/// All operands put together from the left, by one function for floating-point numbers and one for
/// integers, which may refuse.
pub(super) fn fold(
    operands: &[&Tensor],
    float: impl Fn(f64, f64) -> f64,
    integer: impl Fn(i128, i128) -> Result<i128>,
) -> Result<Tensor> {
    let element = common_element(operands)?;
    let shape = common_shape(operands)?;
    if element.is_float() {
        let values = fold_values(operands, &shape, Tensor::to_f64, |a, b| Ok(float(a, b)))?;
        return Tensor::from_f64(element, &shape, &values);
    }
    let values = fold_values(operands, &shape, Tensor::to_integers, integer)?;
    Tensor::from_integers(element, &shape, &values)
}

/// As [`fold`], in one type of numbers and not yet rounded.
pub(super) fn fold_values<T: Copy>(
    operands: &[&Tensor],
    shape: &[usize],
    read: impl Fn(&Tensor) -> Result<Vec<T>>,
    function: impl Fn(T, T) -> Result<T>,
) -> Result<Vec<T>> {
    let Some((first, rest)) = operands.split_first() else {
        return Err(Error::operands("there is no operand"));
    };
    let mut values = spread(read(first)?, first.shape(), shape)?;
    for other in rest {
        let others = spread(read(other)?, other.shape(), shape)?;
        for (value, other) in values.iter_mut().zip(others) {
            *value = function(*value, other)?;
        }
    }
    Ok(values)
}

/// The only element of a tensor.
pub(super) fn single<T: Copy>(values: &[T]) -> Result<T> {
    match values {
        [value] => Ok(*value),
        _ => Err(Error::operands(format!("one element was expected, not {}", values.len()))),
    }
}
