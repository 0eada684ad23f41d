//! Arithmetic: sums, products, remainders, powers, bounds.

use super::apply::{aligned, common_element, common_shape, fold, fold_values, pair, single};
use super::apply::{to_floats, to_numbers};
use crate::operators::{Call, one};
use crate::{Error, Result, Tensor, Value};

pub(super) fn add(call: &Call<'_>) -> Result<Vec<Value>> {
    Ok(one(fold(&pair(call)?.each_ref(), |a, b| a + b, |a, b| Ok(a + b))?))
}

pub(super) fn sub(call: &Call<'_>) -> Result<Vec<Value>> {
    Ok(one(fold(&pair(call)?.each_ref(), |a, b| a - b, |a, b| Ok(a - b))?))
}

pub(super) fn mul(call: &Call<'_>) -> Result<Vec<Value>> {
    Ok(one(fold(&pair(call)?.each_ref(), |a, b| a * b, |a, b| Ok(a.wrapping_mul(b)))?))
}

/// Integers are cut off towards zero.
pub(super) fn div(call: &Call<'_>) -> Result<Vec<Value>> {
    let integer = |a: i128, b: i128| a.checked_div(b).ok_or_else(by_zero);
    Ok(one(fold(&pair(call)?.each_ref(), |a, b| a / b, integer)?))
}

fn by_zero() -> Error {
    Error::operands("integer division by zero")
}

/// The remainder has the divisor's sign, as in Python, or with `fmod` the dividend's, as in C.
pub(super) fn modulo(call: &Call<'_>) -> Result<Vec<Value>> {
    let as_in_c = call.attributes().flag("fmod", false)?;
    let float = |a: f64, b: f64| {
        let rest = a % b;
        if !as_in_c && rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
    };
    let integer = |a: i128, b: i128| {
        let rest = a.checked_rem(b).ok_or_else(by_zero)?;
        let other_sign = rest != 0 && (rest < 0) != (b < 0);
        Ok(if !as_in_c && other_sign { rest + b } else { rest })
    };
    Ok(one(fold(&pair(call)?.each_ref(), float, integer)?))
}

/// The larger one. NaN is passed on.
pub(super) fn max(call: &Call<'_>) -> Result<Vec<Value>> {
    let float = |a: f64, b: f64| if a > b || a.is_nan() { a } else { b };
    Ok(one(fold(&call.tensors()?, float, |a, b| Ok(a.max(b)))?))
}

/// The smaller one. NaN is passed on.
pub(super) fn min(call: &Call<'_>) -> Result<Vec<Value>> {
    let float = |a: f64, b: f64| if a < b || a.is_nan() { a } else { b };
    Ok(one(fold(&call.tensors()?, float, |a, b| Ok(a.min(b)))?))
}

pub(super) fn sum(call: &Call<'_>) -> Result<Vec<Value>> {
    Ok(one(fold(&call.tensors()?, |a, b| a + b, |a, b| Ok(a + b))?))
}

pub(super) fn mean(call: &Call<'_>) -> Result<Vec<Value>> {
    let operands = call.tensors()?;
    let element = common_element(&operands)?;
    let shape = common_shape(&operands)?;
    let mut values = fold_values(&operands, &shape, Tensor::to_f64, |a, b| Ok(a + b))?;
    let count = operands.len() as f64;
    values.iter_mut().for_each(|value| *value /= count);
    Ok(one(Tensor::from_f64(element, &shape, &values)?))
}

/// The exponent's type may be another; the result has the base's.
pub(super) fn pow(call: &Call<'_>) -> Result<Vec<Value>> {
    let pair = pair(call)?;
    let [base, exponent] = pair.each_ref();
    let shape = common_shape(&[base, exponent])?;
    if base.element().is_integer() && exponent.element().is_integer() {
        let read = Tensor::to_integers;
        let values = fold_values(&[base, exponent], &shape, read, |a, b| Ok(integer_power(a, b)))?;
        return Ok(one(Tensor::from_integers(base.element(), &shape, &values)?));
    }
    let read = Tensor::to_f64;
    let values = fold_values(&[base, exponent], &shape, read, |a, b| Ok(a.powf(b)))?;
    Ok(one(Tensor::from_f64(base.element(), &shape, &values)?))
}

/// A power of an integer, wrapped to 128 bits. Below one it is cut off to zero.
fn integer_power(base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut square, mut left) = (1i128, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    result
}

pub(super) fn abs(call: &Call<'_>) -> Result<Vec<Value>> {
    to_numbers(call, f64::abs, i128::abs)
}

pub(super) fn neg(call: &Call<'_>) -> Result<Vec<Value>> {
    to_numbers(call, |x| -x, |x| -x)
}

pub(super) fn sign(call: &Call<'_>) -> Result<Vec<Value>> {
    // `signum` gives 1 for zero.
    let float = |x: f64| if x == 0.0 { x } else { x.signum() };
    to_numbers(call, float, i128::signum)
}

pub(super) fn round(call: &Call<'_>) -> Result<Vec<Value>> {
    to_floats(call, f64::round_ties_even)
}

pub(super) fn relu(call: &Call<'_>) -> Result<Vec<Value>> {
    to_numbers(call, |x| if x < 0.0 { 0.0 } else { x }, |x| x.max(0))
}

/// The slope is repeated to the first operand's shape, and never the other way round. Before version 7
/// a vector of slopes is one for each channel.
pub(super) fn prelu(call: &Call<'_>) -> Result<Vec<Value>> {
    let (x, mut slope) = (call.tensor(0)?, call.tensor(1)?.clone());
    if call.version() < 7 && slope.rank() == 1 && slope.elements() > 1 && x.rank() > 1 {
        slope = aligned(&slope, x.rank(), 1)?;
    }
    let slope = &slope;
    if common_shape(&[x, slope])? != x.shape() {
        let (found, wanted) = (slope.shape(), x.shape());
        return Err(Error::operands(format!(
            "the slope's shape {found:?} does not fit {wanted:?}"
        )));
    }
    let float = |x: f64, slope: f64| if x < 0.0 { x * slope } else { x };
    let integer = |x: i128, slope| Ok(if x < 0 { x.wrapping_mul(slope) } else { x });
    Ok(one(fold(&[x, slope], float, integer)?))
}

/// The bounds are attributes before version 11 and operands since.
pub(super) fn clip(call: &Call<'_>) -> Result<Vec<Value>> {
    if call.version() < 11 {
        let (low, high) = (call.attributes().float("min")?, call.attributes().float("max")?);
        return to_floats(call, |x| bounded(x, low.map(f64::from), high.map(f64::from)));
    }
    let (low, high) = (call.optional(1)?, call.optional(2)?);
    let bounds: Vec<&Tensor> = [low, high].into_iter().flatten().collect();
    common_element(&[&[call.tensor(0)?], bounds.as_slice()].concat())?;
    if call.tensor(0)?.element().is_integer() {
        let read = |bound: &Tensor| single(&bound.to_integers()?);
        let (low, high) = (low.map(read).transpose()?, high.map(read).transpose()?);
        return to_numbers(call, |x| x, |x| bounded(x, low, high));
    }
    let read = |bound: &Tensor| single(&bound.to_f64()?);
    let (low, high) = (low.map(read).transpose()?, high.map(read).transpose()?);
    to_floats(call, |x| bounded(x, low, high))
}

/// A number within bounds; where they cross, the upper one holds. NaN is passed on.
fn bounded<T: PartialOrd>(x: T, low: Option<T>, high: Option<T>) -> T {
    let raised = match low {
        Some(low) if x < low => low,
        _ => x,
    };
    match high {
        Some(high) if raised > high => high,
        _ => raised,
    }
}
