//! Windows: weights that fade a frame of a signal in and out.

use std::f64::consts::PI;

use super::single_length;
use crate::limits::checked_elements;
use crate::operators::{Call, one};
use crate::room::Collected;
use crate::{ElementType, Error, Result, Tensor, Value};

/// A window made of the weight at each part of a full turn.
fn window(call: &Call<'_>, weight: impl Fn(f64) -> f64) -> Result<Vec<Value>> {
    let size = single_length(call, 0)?.ok_or_else(|| Error::operands("the size is missing"))?;
    let element = output_element(call)?;
    checked_elements(ElementType::F64, &[size])?;
    let periodic = call.attributes().flag("periodic", true)?;
    let whole = if periodic { size } else { size.saturating_sub(1) };
    let weights = (0..size)
        .map(|index| if whole == 0 { 1.0 } else { weight(2.0 * PI * index as f64 / whole as f64) })
        .collected()?;
    Ok(one(Tensor::from_f64(element, &[size], &weights)?))
}

/// The type that the attribute `output_datatype` names.
pub fn output_element(call: &Call<'_>) -> Result<ElementType> {
    let code = call.attributes().int_or("output_datatype", 1)?;
    let code = i32::try_from(code).map_err(|_| Error::operands(format!("{code} is not a type")))?;
    ElementType::from_code(code)
}

pub fn hann(call: &Call<'_>) -> Result<Vec<Value>> {
    window(call, |angle| 0.5 - 0.5 * angle.cos())
}

pub fn hamming(call: &Call<'_>) -> Result<Vec<Value>> {
    window(call, |angle| 25.0 / 46.0 - 21.0 / 46.0 * angle.cos())
}

pub fn blackman(call: &Call<'_>) -> Result<Vec<Value>> {
    window(call, |angle| 0.42 - 0.5 * angle.cos() + 0.08 * (2.0 * angle).cos())
}
