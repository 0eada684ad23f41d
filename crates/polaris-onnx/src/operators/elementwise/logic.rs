//! Comparisons, bools, what they choose, and bits.

use std::cmp::Ordering;

use super::apply::{common_element, common_shape, fold, pair, spread, to_bools};
use crate::operators::{Call, one};
use crate::{ElementType, Error, Result, Tensor, Value};

/// Compares elements; NaN has no order.
fn compare(call: &Call<'_>, accept: fn(Option<Ordering>) -> bool) -> Result<Vec<Value>> {
    let pair = pair(call)?;
    let operands = pair.each_ref();
    let element = common_element(&operands)?;
    let shape = common_shape(&operands)?;
    let answers = if element == ElementType::String {
        answer(operands, &shape, |tensor| Ok(tensor.as_strings()?.iter().collect()), accept)?
    } else if element.is_float() {
        answer(operands, &shape, Tensor::to_f64, accept)?
    } else {
        answer(operands, &shape, Tensor::to_integers, accept)?
    };
    Ok(one(Tensor::bools(&shape, &answers)?))
}

fn answer<'a, T: PartialOrd + Clone>(
    operands: [&'a Tensor; 2],
    shape: &[usize],
    read: impl Fn(&'a Tensor) -> Result<Vec<T>>,
    accept: fn(Option<Ordering>) -> bool,
) -> Result<Vec<bool>> {
    let [left, right] = operands;
    let (a, b) = (read(left)?, read(right)?);
    let pairs = spread(a, left.shape(), shape)?.into_iter().zip(spread(b, right.shape(), shape)?);
    Ok(pairs.map(|(a, b)| accept(a.partial_cmp(&b))).collect())
}

pub(super) fn equal(call: &Call<'_>) -> Result<Vec<Value>> {
    compare(call, |order| order == Some(Ordering::Equal))
}

pub(super) fn less(call: &Call<'_>) -> Result<Vec<Value>> {
    compare(call, |order| order == Some(Ordering::Less))
}

pub(super) fn less_or_equal(call: &Call<'_>) -> Result<Vec<Value>> {
    compare(call, |order| matches!(order, Some(Ordering::Less | Ordering::Equal)))
}

pub(super) fn greater(call: &Call<'_>) -> Result<Vec<Value>> {
    compare(call, |order| order == Some(Ordering::Greater))
}

pub(super) fn greater_or_equal(call: &Call<'_>) -> Result<Vec<Value>> {
    compare(call, |order| matches!(order, Some(Ordering::Greater | Ordering::Equal)))
}

/// Integers and bools bit by bit.
fn bits(call: &Call<'_>, function: fn(i128, i128) -> i128) -> Result<Vec<Value>> {
    let pair = pair(call)?;
    let operands = pair.each_ref();
    if operands[0].element().is_float() {
        let found = operands[0].element();
        return Err(Error::operands(format!("integers were expected, not {found}")));
    }
    Ok(one(fold(&operands, |a, _| a, |a, b| Ok(function(a, b)))?))
}

pub(super) fn and(call: &Call<'_>) -> Result<Vec<Value>> {
    bits(call, |a, b| a & b)
}

pub(super) fn or(call: &Call<'_>) -> Result<Vec<Value>> {
    bits(call, |a, b| a | b)
}

pub(super) fn xor(call: &Call<'_>) -> Result<Vec<Value>> {
    bits(call, |a, b| a ^ b)
}

pub(super) fn not(call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let answers: Vec<bool> = x.to_bools()?.into_iter().map(|value| !value).collect();
    Ok(one(Tensor::bools(x.shape(), &answers)?))
}

pub(super) fn bitwise_not(call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let values: Vec<i128> = x.to_integers()?.into_iter().map(|value| !value).collect();
    Ok(one(Tensor::from_integers(x.element(), x.shape(), &values)?))
}

/// Shifts by a type's whole width and more leave nothing.
pub(super) fn bit_shift(call: &Call<'_>) -> Result<Vec<Value>> {
    let pair = pair(call)?;
    let operands = pair.each_ref();
    let element = operands[0].element();
    if !element.is_integer() {
        return Err(Error::operands(format!("integers were expected, not {element}")));
    }
    let left = match call.attributes().string("direction")? {
        Some("LEFT") => true,
        Some("RIGHT") => false,
        _ => return Err(Error::operands("`direction` should be LEFT or RIGHT")),
    };
    let width = element.bits_in_files().unwrap_or(0) as i128;
    let shift = |value: i128, amount: i128| {
        if amount < 0 {
            return Err(Error::operands(format!("bits cannot be shifted by {amount}")));
        }
        Ok(match (amount < width, left) {
            (true, true) => value << amount,
            (true, false) => value >> amount,
            (false, _) => 0,
        })
    };
    Ok(one(fold(&operands, |a, _| a, shift)?))
}

pub(super) fn is_nan(call: &Call<'_>) -> Result<Vec<Value>> {
    to_bools(call, f64::is_nan)
}

pub(super) fn is_inf(call: &Call<'_>) -> Result<Vec<Value>> {
    let positive = call.attributes().flag("detect_positive", true)?;
    let negative = call.attributes().flag("detect_negative", true)?;
    to_bools(call, |x| x.is_infinite() && if x > 0.0 { positive } else { negative })
}

/// The condition chooses between the other two operands, of any type.
pub(super) fn choose(call: &Call<'_>) -> Result<Vec<Value>> {
    let (condition, yes, no) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let element = common_element(&[yes, no])?;
    let shape = common_shape(&[condition, yes, no])?;
    let conditions = spread(condition.to_bools()?, condition.shape(), &shape)?;
    let places = |tensor: &Tensor| {
        spread((0..tensor.elements()).collect::<Vec<usize>>(), tensor.shape(), &shape)
    };
    let choices = conditions.into_iter().zip(places(yes)?.into_iter().zip(places(no)?));
    if element == ElementType::String {
        let (yes, no) = (yes.as_strings()?, no.as_strings()?);
        let pick = |(condition, (a, b)): (bool, (usize, usize))| {
            if condition { yes[a].clone() } else { no[b].clone() }
        };
        return Ok(one(Tensor::strings(&shape, choices.map(pick).collect())?));
    }
    let (yes, no, size) = (yes.bytes()?, no.bytes()?, element.size());
    let mut bytes = Vec::with_capacity(choices.len() * size);
    for (condition, (a, b)) in choices {
        let (source, place) = if condition { (yes, a) } else { (no, b) };
        bytes.extend_from_slice(&source[place * size..(place + 1) * size]);
    }
    Ok(one(Tensor::from_bytes(element, &shape, bytes.into())?))
}
