//! Elementwise functions that are composed of several, fused into one pass.

use polaris_onnx::Node;
use polaris_ops::fused::{Builder as Formula, Value};
use polaris_ops::{Binary, Ternary, Unary};

use super::{Lowering, array, constant_number, input, repeat_to, result};
use crate::Result;
use crate::build::Builder;
use crate::plan::Action;

pub const LOWERINGS: &[(&str, Lowering)] = &[
    ("Celu", celu),
    ("Clip", clip),
    ("Elu", elu),
    ("Gelu", gelu),
    ("HardSigmoid", hard_sigmoid),
    ("HardSwish", |b, n| of_one(b, n, |x| x * hard(x, 1.0 / 6.0, 0.5))),
    ("LeakyRelu", leaky_relu),
    ("Mean", mean),
    ("Mish", |b, n| of_one(b, n, |x| x * softplus(x).unary(Unary::Tanh))),
    ("PRelu", prelu),
    ("Selu", selu),
    ("Softplus", |b, n| of_one(b, n, softplus)),
    ("Softsign", |b, n| of_one(b, n, |x| x / (x.unary(Unary::Abs) + 1.0))),
    ("Swish", swish),
    ("Tan", |b, n| of_one(b, n, |x| x.unary(Unary::Sin) / x.unary(Unary::Cos))),
    ("ThresholdedRelu", thresholded_relu),
];

/// A formula of the first operand.
fn of_one(
    b: &mut Builder<'_>,
    node: &Node,
    formula: impl for<'f> Fn(Value<'f>) -> Value<'f>,
) -> Result<bool> {
    of_many(b, node, 1, |inputs| formula(inputs[0]))
}

/// A formula of the first operands, which are of one floating-point type.
fn of_many(
    b: &mut Builder<'_>,
    node: &Node,
    count: usize,
    formula: impl for<'f> Fn(&[Value<'f>]) -> Value<'f>,
) -> Result<bool> {
    let Some((made, dtype, shape)) = result(b, node) else { return Ok(false) };
    let arrays: Option<Vec<_>> = (0..count).map(|index| array(b, node, index)).collect();
    let Some(arrays) = arrays else { return Ok(false) };
    let fits = dtype.is_float()
        && count <= polaris_ops::fused::MAX_INPUTS
        && repeat_to(arrays.iter().map(|(_, _, shape)| shape), &shape)
        && arrays.iter().all(|(_, found, _)| *found == dtype);
    if !fits {
        return Ok(false);
    }
    let builder = Formula::new(count);
    let inputs: Vec<Value<'_>> = (0..count).map(|index| builder.input(index)).collect();
    let expression = builder.finish(formula(&inputs))?;
    let mut operands = Vec::with_capacity(count);
    for (id, ..) in &arrays {
        operands.push(b.operand(*id)?);
    }
    let operand = b.compute_elements(Action::new(expression), &operands, dtype, shape)?;
    b.set(Some(made), operand);
    Ok(true)
}

/// `positive` where x is above zero, otherwise `negative`; NaN goes to `negative`.
fn by_sign<'f>(x: Value<'f>, positive: Value<'f>, negative: Value<'f>) -> Value<'f> {
    x.binary(Binary::Greater, 0.0).ternary(Ternary::Where, positive, negative)
}

/// A line between 0 and 1.
fn hard(x: Value<'_>, slope: f64, offset: f64) -> Value<'_> {
    (x * slope + offset).ternary(Ternary::Clamp, 0.0, 1.0)
}

/// `log(1 + exp(x))`, without overflow.
fn softplus(x: Value<'_>) -> Value<'_> {
    let tail = (x.unary(Unary::Abs) * -1.0).unary(Unary::Exp) + 1.0;
    x.unary(Unary::Relu) + tail.unary(Unary::Log)
}

fn number(node: &Node, name: &str, default: f64) -> Result<f64> {
    Ok(node.attributes.float(name)?.map_or(default, f64::from))
}

fn celu(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let alpha = number(node, "alpha", 1.0)?;
    of_one(b, node, |x| by_sign(x, x, ((x * (1.0 / alpha)).unary(Unary::Exp) - 1.0) * alpha))
}

fn elu(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let alpha = number(node, "alpha", 1.0)?;
    of_one(b, node, |x| by_sign(x, x, (x.unary(Unary::Exp) - 1.0) * alpha))
}

fn selu(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let alpha = number(node, "alpha", 1.673_263_192_176_818_8)?;
    let gamma = number(node, "gamma", 1.050_701_022_148_132_3)?;
    of_one(b, node, |x| by_sign(x, x * gamma, (x.unary(Unary::Exp) - 1.0) * (alpha * gamma)))
}

fn gelu(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let function = match node.attributes.string_or("approximate", "none")? {
        "tanh" => Unary::GeluTanh,
        _ => Unary::GeluErf,
    };
    of_one(b, node, |x| x.unary(function))
}

fn hard_sigmoid(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (alpha, beta) = (number(node, "alpha", 0.2)?, number(node, "beta", 0.5)?);
    of_one(b, node, |x| hard(x, alpha, beta))
}

fn leaky_relu(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let alpha = number(node, "alpha", 0.01)?;
    of_one(b, node, |x| by_sign(x, x, x * alpha))
}

fn thresholded_relu(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let alpha = number(node, "alpha", 1.0)?;
    of_one(b, node, |x| x.binary(Binary::Greater, alpha).ternary(Ternary::Where, x, 0.0))
}

fn swish(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let alpha = number(node, "alpha", 1.0)?;
    of_one(b, node, |x| match alpha {
        1.0 => x.unary(Unary::Silu),
        _ => x * (x * alpha).unary(Unary::Sigmoid),
    })
}

fn prelu(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    of_many(b, node, 2, |inputs| by_sign(inputs[0], inputs[0], inputs[0] * inputs[1]))
}

fn mean(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let count = node.inputs.len();
    of_many(b, node, count, |inputs| {
        let sum = inputs[1..].iter().fold(inputs[0], |sum, &next| sum + next);
        sum * (1.0 / count as f64)
    })
}

/// Limits are attributes before version 11, then operands; those must be constants here.
fn clip(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let limit = |b: &Builder<'_>, index: usize, name: &str, default: f64| -> Result<Option<f64>> {
        if node.version < 11 {
            return Ok(Some(node.attributes.float(name)?.map_or(default, f64::from)));
        }
        Ok(match input(node, index) {
            None => Some(default),
            Some(_) => constant_number(b, node, index),
        })
    };
    let low = limit(b, 1, "min", f64::NEG_INFINITY)?;
    let high = limit(b, 2, "max", f64::INFINITY)?;
    let (Some(low), Some(high)) = (low, high) else { return Ok(false) };
    // Where the limits cross, the upper one counts.
    of_one(b, node, |x| match low <= high {
        true => x.ternary(Ternary::Clamp, low, high),
        false => x.binary(Binary::Maximum, low).binary(Binary::Minimum, high),
    })
}
