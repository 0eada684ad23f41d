//! Dropout, which drops something only in training.

use super::apply::single;
use crate::operators::generate::Random;
use crate::operators::{Call, one};
use crate::{Error, Result, Tensor, Value};

pub(super) fn dropout(call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    // Before version 12 a node cannot say that it is in training.
    let training = match call.optional(2)? {
        Some(flag) if call.version() >= 12 => single(&flag.to_bools()?)?,
        _ => false,
    };
    let ratio = match call.optional(1)? {
        Some(ratio) if training => single(&ratio.to_f64()?)?,
        _ => 0.5,
    };
    if !training || ratio == 0.0 {
        let mut results = one(x.clone());
        results.push(Value::Tensor(mask(call, x, &vec![true; x.elements()])?));
        return Ok(results);
    }
    if !(0.0..1.0).contains(&ratio) {
        return Err(Error::operands(format!("the ratio {ratio} is not from 0 up to 1")));
    }
    let mut random = Random::new(call.attributes().int("seed")?.map(|seed| seed as u32));
    let kept: Vec<bool> = (0..x.elements()).map(|_| random.unit() >= ratio).collect();
    let scale = 1.0 / (1.0 - ratio);
    let scaled = x.to_f64()?.into_iter().zip(&kept);
    let values: Vec<f64> =
        scaled.map(|(value, &kept)| if kept { value * scale } else { 0.0 }).collect();
    let mut results = one(Tensor::from_f64(x.element(), x.shape(), &values)?);
    results.push(Value::Tensor(mask(call, x, &kept)?));
    Ok(results)
}

/// What was kept: bools, or before version 10 numbers of the operand's type.
fn mask(call: &Call<'_>, x: &Tensor, kept: &[bool]) -> Result<Tensor> {
    if call.version() >= 10 {
        return Tensor::bools(x.shape(), kept);
    }
    let values: Vec<f64> = kept.iter().map(|&kept| f64::from(u8::from(kept))).collect();
    Tensor::from_f64(x.element(), x.shape(), &values)
}
