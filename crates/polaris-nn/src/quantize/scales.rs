//! Ranges of tensors, computed where these lie.
//!
//! Grids are those of `polaris-optimize`: weights have levels around zero without the lowest, activations all levels
//! from zero on with a zero point.

use polaris_ops::fused::Value;
use polaris_ops::{Binary, Ternary, Unary};
use polaris_tensor::Tensor;

use super::Scales;
use crate::Result;

/// Parts of the extremes that are tried for the least squared error.
fn parts() -> impl Iterator<Item = f64> {
    (20..=50).rev().map(|part| f64::from(part) / 50.0)
}

/// The limits of levels of so many bits around zero.
pub(super) fn around_zero(bits: u32) -> (i32, i32) {
    let high = (1 << (bits - 1)) - 1;
    (-high, high)
}

/// The limits of levels of so many bits from zero on.
pub(super) fn from_zero(bits: u32) -> (i32, i32) {
    (0, (1 << bits) - 1)
}

/// 1 where a scale would be zero: then there are only zeros.
fn or_one(scale: Value<'_>) -> Value<'_> {
    scale.binary(Binary::Greater, 0.0).ternary(Ternary::Where, scale, 1.0)
}

/// The scales of groups, `[rows, groups, 1]`, of numbers `[rows, groups, elements]` with levels around zero.
pub(super) fn of_groups(x: &Tensor, bits: u32, method: Scales) -> Result<Tensor> {
    let high = f64::from(around_zero(bits).1);
    let extremes = x.abs()?.amax(&[2], true)?;
    let widest = Tensor::fused([&extremes], |[m]| or_one(m / high))?;
    if method == Scales::Range {
        return Ok(widest);
    }
    best(&widest, |scale| {
        let squares = Tensor::fused([x, scale], |[x, s]| {
            let level = (x / s).unary(Unary::Round).ternary(Ternary::Clamp, -high, high);
            (level * s - x).unary(Unary::Square)
        })?;
        Ok(squares.sum_axes(&[2], true)?)
    })
}

/// The one among the parts of these scales with the least error.
fn best(widest: &Tensor, error: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let mut best = (error(widest)?, widest.clone());
    for part in parts().skip(1) {
        let scale = widest.mul_scalar(part)?;
        let error = error(&scale)?;
        let is_better = error.lt(&best.0)?;
        best = (is_better.where_(&error, &best.0)?, is_better.where_(&scale, &best.1)?);
    }
    Ok(best.1)
}

/// The lowest and the highest number that a tensor needs levels for, both of shape `[]`. Zero is between them.
pub(super) fn of_tensor(x: &Tensor, bits: u32, method: Scales) -> Result<[Tensor; 2]> {
    let x = x.flatten()?;
    let low = x.amin(&[0], false)?.minimum_scalar(0.0)?;
    let high = x.amax(&[0], false)?.maximum_scalar(0.0)?;
    if method == Scales::Range {
        return Ok([low, high]);
    }
    let one = Tensor::ones(x.device(), &[], x.dtype())?;
    let part = best(&one, |part| {
        let [scale, zero] = levels(&[low.mul(part)?, high.mul(part)?], bits)?;
        let rounded = x.fake_quantize(&scale, &zero, from_zero(bits), 1.0)?;
        Ok(rounded.sub(&x)?.square()?.sum()?)
    })?;
    Ok([low.mul(&part)?, high.mul(&part)?])
}

/// Scale and zero point of a range that zero is in.
pub(super) fn levels([low, high]: &[Tensor; 2], bits: u32) -> Result<[Tensor; 2]> {
    let top = f64::from(from_zero(bits).1);
    let scale = Tensor::fused([low, high], |[low, high]| or_one((high - low) / top))?;
    let zero = Tensor::fused([low, &scale], |[low, scale]| {
        (-(low / scale)).unary(Unary::Round).ternary(Ternary::Clamp, 0.0, top)
    })?;
    Ok([scale, zero])
}
