//! Activation functions of neural networks.

use std::f64::consts::{PI, SQRT_2};

use super::apply::{to_floats, to_numbers};
use super::special::erf;
use crate::operators::Call;
use crate::{Error, Result, Value};

fn parameter(call: &Call<'_>, name: &str, default: f32) -> Result<f64> {
    Ok(f64::from(call.attributes().float_or(name, default)?))
}

pub(in crate::operators) fn sigmoid_of(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `ln(1 + exp(x))` without overflow.
fn softplus_of(x: f64) -> f64 {
    (-x.abs()).exp().ln_1p() + if x > 0.0 { x } else { 0.0 }
}

pub(super) fn sigmoid(call: &Call<'_>) -> Result<Vec<Value>> {
    to_floats(call, sigmoid_of)
}

pub(super) fn softplus(call: &Call<'_>) -> Result<Vec<Value>> {
    to_floats(call, softplus_of)
}

pub(super) fn softsign(call: &Call<'_>) -> Result<Vec<Value>> {
    to_floats(call, |x| x / (1.0 + x.abs()))
}

pub(super) fn mish(call: &Call<'_>) -> Result<Vec<Value>> {
    to_floats(call, |x| x * softplus_of(x).tanh())
}

pub(super) fn swish(call: &Call<'_>) -> Result<Vec<Value>> {
    let alpha = parameter(call, "alpha", 1.0)?;
    to_floats(call, |x| x * sigmoid_of(alpha * x))
}

pub(super) fn hard_sigmoid(call: &Call<'_>) -> Result<Vec<Value>> {
    let (alpha, beta) = (parameter(call, "alpha", 0.2)?, parameter(call, "beta", 0.5)?);
    to_floats(call, |x| (alpha * x + beta).clamp(0.0, 1.0))
}

pub(super) fn hard_swish(call: &Call<'_>) -> Result<Vec<Value>> {
    to_floats(call, |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0))
}

pub(super) fn elu(call: &Call<'_>) -> Result<Vec<Value>> {
    let alpha = parameter(call, "alpha", 1.0)?;
    to_floats(call, |x| if x < 0.0 { alpha * x.exp_m1() } else { x })
}

pub(super) fn celu(call: &Call<'_>) -> Result<Vec<Value>> {
    let alpha = parameter(call, "alpha", 1.0)?;
    to_floats(call, |x| {
        let below = alpha * (x / alpha).exp_m1();
        (if x < 0.0 { 0.0 } else { x }) + if below > 0.0 { 0.0 } else { below }
    })
}

pub(super) fn selu(call: &Call<'_>) -> Result<Vec<Value>> {
    let alpha = parameter(call, "alpha", 1.673_263_2)?;
    let gamma = parameter(call, "gamma", 1.050_701)?;
    to_floats(call, |x| gamma * if x > 0.0 { x } else { alpha * x.exp_m1() })
}

pub(super) fn leaky_relu(call: &Call<'_>) -> Result<Vec<Value>> {
    let alpha = parameter(call, "alpha", 0.01)?;
    to_floats(call, |x| if x < 0.0 { alpha * x } else { x })
}

pub(super) fn thresholded_relu(call: &Call<'_>) -> Result<Vec<Value>> {
    let alpha = parameter(call, "alpha", 1.0)?;
    to_floats(call, |x| if x > alpha { x } else { 0.0 })
}

pub(super) fn shrink(call: &Call<'_>) -> Result<Vec<Value>> {
    let (bias, limit) = (parameter(call, "bias", 0.0)?, parameter(call, "lambd", 0.5)?);
    let float = |x: f64| {
        if x < -limit {
            x + bias
        } else if x > limit {
            x - bias
        } else {
            0.0
        }
    };
    to_numbers(call, float, |x| float(x as f64) as i128)
}

pub(super) fn gelu(call: &Call<'_>) -> Result<Vec<Value>> {
    match call.attributes().string_or("approximate", "none")? {
        "none" => to_floats(call, |x| 0.5 * x * (1.0 + erf(x / SQRT_2))),
        "tanh" => to_floats(call, |x| {
            0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
        }),
        other => Err(Error::operands(format!("there is no approximation `{other}` of Gelu"))),
    }
}
