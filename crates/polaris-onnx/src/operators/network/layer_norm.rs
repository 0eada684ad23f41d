//! Normalisation over the last axes: LayerNormalization, RMSNormalization.

use crate::operators::{Call, axis, one, walk};
use crate::room::Collected;
use crate::{ElementType, Error, Result, Tensor, Value};

/// The rows that are normalised: how many numbers each has, and the shape of one number for each.
struct Rows {
    length: usize,
    count: usize,
    reduced: Vec<usize>,
}

fn rows(call: &Call<'_>, x: &Tensor) -> Result<Rows> {
    let from = axis(call.attributes().int_or("axis", -1)?, x.rank())?.min(x.rank());
    let (outer, inner) = x.shape().split_at(from);
    let mut reduced = outer.to_vec();
    reduced.extend(inner.iter().map(|_| 1));
    Ok(Rows { length: inner.iter().product(), count: outer.iter().product(), reduced })
}

/// The type in which mean and deviation are kept.
fn stash_type(call: &Call<'_>) -> Result<ElementType> {
    let code = call.attributes().int_or("stash_type", 1)?;
    let element = i32::try_from(code).ok().and_then(|code| ElementType::from_code(code).ok());
    element
        .filter(|element| element.is_float())
        .ok_or_else(|| Error::operands(format!("there is no stash_type {code}")))
}

/// An operand repeated to the shape of another.
fn repeated(operand: &Tensor, shape: &[usize]) -> Result<Vec<f64>> {
    if walk::broadcast_shapes(&[operand.shape(), shape])? != shape {
        let found = operand.shape();
        return Err(Error::operands(format!("{found:?} is not repeated to {shape:?}")));
    }
    let values = operand.to_f64()?;
    walk::broadcast_places(operand.shape(), shape)?.into_iter().map(|at| values[at]).collected()
}

/// Multiplies with the scale and adds the bias.
fn scaled(
    values: &mut [f64],
    shape: &[usize],
    scale: &Tensor,
    bias: Option<&Tensor>,
) -> Result<()> {
    for (value, factor) in values.iter_mut().zip(repeated(scale, shape)?) {
        *value *= factor;
    }
    if let Some(bias) = bias {
        for (value, more) in values.iter_mut().zip(repeated(bias, shape)?) {
            *value += more;
        }
    }
    Ok(())
}

pub fn layer_normalization(call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let epsilon = f64::from(call.attributes().float_or("epsilon", 1e-5)?);
    let (rows, stash) = (rows(call, x)?, stash_type(call)?);
    let mut values = x.to_f64()?;
    let (mut means, mut inverses) = (Vec::new(), Vec::new());
    for row in values.chunks_mut(rows.length.max(1)) {
        let mean = row.iter().sum::<f64>() / rows.length as f64;
        let variance =
            row.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / rows.length as f64;
        let inverse = 1.0 / (variance + epsilon).sqrt();
        row.iter_mut().for_each(|value| *value = (*value - mean) * inverse);
        means.push(mean);
        inverses.push(inverse);
    }
    // Rows without numbers have no mean.
    means.resize(rows.count, f64::NAN);
    inverses.resize(rows.count, f64::NAN);
    scaled(&mut values, x.shape(), call.tensor(1)?, call.optional(2)?)?;
    Ok(vec![
        Value::Tensor(Tensor::from_f64(x.element(), x.shape(), &values)?),
        Value::Tensor(Tensor::from_f64(stash, &rows.reduced, &means)?),
        Value::Tensor(Tensor::from_f64(stash, &rows.reduced, &inverses)?),
    ])
}

pub fn rms_normalization(call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let epsilon = f64::from(call.attributes().float_or("epsilon", 1e-5)?);
    let rows = rows(call, x)?;
    stash_type(call)?;
    let mut values = x.to_f64()?;
    for row in values.chunks_mut(rows.length.max(1)) {
        let square = row.iter().map(|value| value * value).sum::<f64>() / rows.length as f64;
        let inverse = 1.0 / (square + epsilon).sqrt();
        row.iter_mut().for_each(|value| *value *= inverse);
    }
    scaled(&mut values, x.shape(), call.tensor(1)?, None)?;
    // The result has the type of the scale where that differs.
    Ok(one(Tensor::from_f64(call.tensor(1)?.element(), x.shape(), &values)?))
}
