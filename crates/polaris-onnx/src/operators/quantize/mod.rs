//! Between numbers and their quantised forms.

mod dynamic;
mod granularity;
mod static_scale;

use super::{Call, Operator};
use crate::narrow::encode;
use crate::{ElementType, Error, Result, Tensor};

pub(super) const OPERATORS: &[(&str, Operator)] = &[
    ("DequantizeLinear", static_scale::dequantize_linear),
    ("DynamicQuantizeLinear", dynamic::dynamic_quantize_linear),
    ("QuantizeLinear", static_scale::quantize_linear),
];

/// The type that an attribute names; 0 stands for none.
fn named_type(call: &Call<'_>, name: &str) -> Result<Option<ElementType>> {
    match call.attributes().int_or(name, 0)? {
        0 => Ok(None),
        code => ElementType::from_code(i32::try_from(code).unwrap_or(0)).map(Some),
    }
}

/// The smallest and the largest number of a type that integers are quantised to.
fn bounds(element: ElementType) -> Option<(f64, f64)> {
    let bits = match element.bits_in_files() {
        Some(bits) if element.is_integer() && bits <= 32 => bits as i32,
        _ => return None,
    };
    Some(match element.is_signed_integer() {
        true => (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1) - 1.0),
        false => (0.0, 2f64.powi(bits) - 1.0),
    })
}

/// Numbers in units of a scale to a quantised type: rounded to even where it holds integers, moved by
/// the zero point, and cut off at its ends.
pub(super) fn quantized(
    element: ElementType,
    shape: &[usize],
    values: impl Iterator<Item = (f64, f64)>,
    saturate: bool,
) -> Result<Tensor> {
    if let Some((low, high)) = bounds(element) {
        let whole = |(value, zero): (f64, f64)| (value.round_ties_even() + zero).clamp(low, high);
        return Tensor::from_f64(element, shape, &values.map(whole).collect::<Vec<f64>>());
    }
    if !element.is_float() || element.size() != 1 || element == ElementType::F8E8M0 {
        return Err(Error::operands(format!("floats cannot be quantised to {element}")));
    }
    let bytes: Vec<u8> =
        values.map(|(value, zero)| encode(element, value + zero, saturate)).collect();
    Tensor::from_bytes(element, shape, bytes.into())
}
