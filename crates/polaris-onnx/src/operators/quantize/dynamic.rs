//! Quantisation with a scale that the numbers themselves give.

use super::quantized;
use crate::operators::Call;
use crate::{ElementType, Result, Tensor, Value};

/// To `u8`, so that zero and all numbers of the operand are in range.
pub(super) fn dynamic_quantize_linear(call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let numbers = x.values::<f32>()?;
    let largest = numbers.iter().copied().fold(0f32, f32::max);
    let smallest = numbers.iter().copied().fold(0f32, f32::min);
    let scale = if largest == smallest { 1.0 } else { (largest - smallest) / 255.0 };
    let zero = (-smallest / scale).clamp(0.0, 255.0).round_ties_even();
    let values = numbers.iter().map(|value| (f64::from(value / scale), f64::from(zero)));
    Ok(vec![
        Value::Tensor(quantized(ElementType::U8, x.shape(), values, true)?),
        Value::Tensor(Tensor::scalar(scale)),
        Value::Tensor(Tensor::scalar(zero as u8)),
    ])
}
