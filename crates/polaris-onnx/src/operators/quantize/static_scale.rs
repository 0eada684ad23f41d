//! Quantisation with scales that are given.

use half::{bf16, f16};

use super::{granularity, named_type, quantized};
use crate::operators::{Call, one};
use crate::{ElementType, Error, Result, Tensor, Value};

/// The place in the scale of each element of `x`.
fn places(call: &Call<'_>, scale: &Tensor, x: &Tensor) -> Result<Vec<usize>> {
    let axis = call.attributes().int_or("axis", 1)?;
    granularity::places(scale, x.shape(), axis, call.attributes().int_or("block_size", 0)?)
}

/// A number rounded to a type that quotients are computed in.
fn rounded(element: ElementType, value: f64) -> f64 {
    match element {
        ElementType::F64 => value,
        ElementType::F16 => f16::from_f32(value as f32).to_f64(),
        ElementType::BF16 => bf16::from_f32(value as f32).to_f64(),
        _ => f64::from(value as f32),
    }
}

/// The zero point in numbers, one for each element of the scale. Zero if it is left out.
fn zero_points(zero: Option<&Tensor>, scale: &Tensor) -> Result<Vec<f64>> {
    match zero {
        None => Ok(vec![0.0; scale.elements()]),
        Some(zero) if zero.elements() == scale.elements() => zero.to_f64(),
        Some(zero) => {
            let (found, wanted) = (zero.shape(), scale.shape());
            Err(Error::operands(format!(
                "zero points of {found:?} do not fit scales of {wanted:?}"
            )))
        }
    }
}

pub(super) fn quantize_linear(call: &Call<'_>) -> Result<Vec<Value>> {
    let (x, scale, zero) = (call.tensor(0)?, call.tensor(1)?, call.optional(2)?);
    let named = named_type(call, "output_dtype")?;
    let element = match (zero.map(Tensor::element), named) {
        (Some(zero), Some(named)) if zero != named => {
            return Err(Error::operands(format!("zero points of {zero}, but results of {named}")));
        }
        (zero, named) => zero.or(named).unwrap_or(ElementType::U8),
    };
    let precision = named_type(call, "precision")?;
    let places = places(call, scale, x)?;
    let zeros = zero_points(zero, scale)?;
    // The quotient is rounded in the scale's type unless another is asked for, and ties depend on it.
    let scale_element = scale.element();
    let prepared = |value: f64| precision.map_or(value, |precision| rounded(precision, value));
    let scales: Vec<f64> = scale.to_f64()?.into_iter().map(prepared).collect();
    let values = x.to_f64()?.into_iter().zip(places).map(|(value, place)| {
        let quotient = prepared(value) / scales[place];
        (rounded(precision.unwrap_or(scale_element), quotient), zeros[place])
    });
    let saturate = call.attributes().flag("saturate", true)?;
    Ok(one(quantized(element, x.shape(), values, saturate)?))
}

pub(super) fn dequantize_linear(call: &Call<'_>) -> Result<Vec<Value>> {
    let (x, scale, zero) = (call.tensor(0)?, call.tensor(1)?, call.optional(2)?);
    if let Some(zero) = zero.filter(|zero| zero.element() != x.element()) {
        let (zero, x) = (zero.element(), x.element());
        return Err(Error::operands(format!("zero points of {zero} for elements of {x}")));
    }
    let element = named_type(call, "output_dtype")?.unwrap_or(scale.element());
    if !element.is_float() || element == ElementType::F8E8M0 {
        return Err(Error::operands(format!("floats cannot be quantised to {element}")));
    }
    let places = places(call, scale, x)?;
    let (scales, zeros) = (scale.to_f64()?, zero_points(zero, scale)?);
    let numbers = x.to_f64()?.into_iter().zip(places);
    let values: Vec<f64> =
        numbers.map(|(value, place)| (value - zeros[place]) * scales[place]).collect();
    Ok(one(Tensor::from_f64(element, x.shape(), &values)?))
}
