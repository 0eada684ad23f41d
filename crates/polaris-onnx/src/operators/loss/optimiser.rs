//! Steps of optimisers.

use crate::operators::Call;
use crate::{Error, Result, Tensor, Value};

/// Numbers of a step that are the same for all elements.
struct Step {
    /// The learning rate.
    rate: f64,
    /// How many steps were made before.
    count: f64,
}

fn scalar(tensor: &Tensor) -> Result<f64> {
    match tensor.to_f64()?.as_slice() {
        [value] => Ok(*value),
        other => Err(Error::operands(format!("one number was expected, not {}", other.len()))),
    }
}

fn parameter(call: &Call<'_>, name: &str, default: f32) -> Result<f64> {
    Ok(f64::from(call.attributes().float_or(name, default)?))
}

/// Applies a step to each optimised tensor. The operands after the rate and the count are the tensors,
/// then their gradients, then `N - 2` kinds of what is remembered of them; the results are the new
/// tensors and then the new memories. A step takes an element with all that belongs to it and gives
/// the new element followed by its new memories; the gradient's place is not used.
fn optimise<const N: usize>(
    call: &Call<'_>,
    update: impl Fn(&Step, [f64; N]) -> [f64; N],
) -> Result<Vec<Value>> {
    let step = Step { rate: scalar(call.tensor(0)?)?, count: scalar(call.tensor(1)?)? };
    let operands = call.inputs.len().saturating_sub(2);
    if operands == 0 || !operands.is_multiple_of(N) {
        let why = format!("{operands} tensors cannot be optimised {N} by {N}");
        return Err(Error::operands(why));
    }
    let count = operands / N;
    let mut results: Vec<Vec<Value>> = vec![Vec::new(); N];
    for index in 0..count {
        let mut parts = Vec::with_capacity(N);
        for kind in 0..N {
            parts.push(call.tensor(2 + kind * count + index)?);
        }
        let first = parts[0];
        if parts.iter().any(|part| part.shape() != first.shape()) {
            return Err(Error::operands("a tensor and what belongs to it have different shapes"));
        }
        let mut columns =
            parts.iter().map(|part| part.to_f64()).collect::<Result<Vec<Vec<f64>>>>()?;
        for at in 0..first.elements() {
            let updated = update(&step, std::array::from_fn(|kind| columns[kind][at]));
            for (column, value) in columns.iter_mut().zip(updated) {
                column[at] = value;
            }
        }
        for (kind, (part, column)) in parts.iter().zip(&columns).enumerate() {
            let tensor = Tensor::from_f64(part.element(), part.shape(), column)?;
            results[kind].push(Value::Tensor(tensor));
        }
    }
    // The gradients are not results.
    results.remove(1);
    Ok(results.into_iter().flatten().collect())
}

pub(super) fn adagrad(call: &Call<'_>) -> Result<Vec<Value>> {
    let decay = parameter(call, "decay_factor", 0.0)?;
    let epsilon = parameter(call, "epsilon", 1e-6)?;
    let norm = parameter(call, "norm_coefficient", 0.0)?;
    optimise(call, |step, [x, gradient, squares]| {
        let rate = step.rate / (1.0 + step.count * decay);
        let regularised = norm * x + gradient;
        let squares = squares + regularised * regularised;
        [x - rate * regularised / (squares.sqrt() + epsilon), gradient, squares]
    })
}

pub(super) fn adam(call: &Call<'_>) -> Result<Vec<Value>> {
    let (alpha, beta) = (parameter(call, "alpha", 0.9)?, parameter(call, "beta", 0.999)?);
    let epsilon = parameter(call, "epsilon", 1e-6)?;
    let norm = parameter(call, "norm_coefficient", 0.0)?;
    let norm_after = parameter(call, "norm_coefficient_post", 0.0)?;
    optimise(call, |step, [x, gradient, momentum, squares]| {
        let regularised = norm * x + gradient;
        let momentum = alpha * momentum + (1.0 - alpha) * regularised;
        let squares = beta * squares + (1.0 - beta) * regularised * regularised;
        // The averages begin at zero, which is made up for.
        let correction = if step.count > 0.0 {
            (1.0 - beta.powf(step.count)).sqrt() / (1.0 - alpha.powf(step.count))
        } else {
            1.0
        };
        let moved = x - step.rate * correction * momentum / (squares.sqrt() + epsilon);
        [(1.0 - norm_after) * moved, gradient, momentum, squares]
    })
}

pub(super) fn momentum(call: &Call<'_>) -> Result<Vec<Value>> {
    let attributes = call.attributes();
    let required = |name: &str| {
        let value = attributes.float(name)?.map(f64::from);
        value.ok_or_else(|| Error::operands(format!("the attribute `{name}` is missing")))
    };
    let (alpha, beta) = (required("alpha")?, required("beta")?);
    let norm = required("norm_coefficient")?;
    let nesterov = match attributes.string("mode")? {
        Some("standard") => false,
        Some("nesterov") => true,
        _ => return Err(Error::operands("`mode` should be standard or nesterov")),
    };
    optimise(call, |step, [x, gradient, momentum]| {
        let regularised = norm * x + gradient;
        let beta = if step.count > 0.0 { beta } else { 1.0 };
        let momentum = alpha * momentum + beta * regularised;
        let direction = if nesterov { regularised + alpha * momentum } else { momentum };
        [x - step.rate * direction, gradient, momentum]
    })
}
