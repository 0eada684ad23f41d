//! Tensors of random numbers.

use super::{Random, dtype, lengths};
use crate::limits::checked_elements;
use crate::operators::{Call, one};
use crate::room::{Collected, with_room};
use crate::{ElementType, Error, Result, Tensor, Value};

fn random(call: &Call<'_>) -> Result<Random> {
    // A seed is a number with a point here.
    Ok(Random::new(call.attributes().float("seed")?.map(|seed| seed as u32)))
}

/// Draws each element of a shape.
fn draw(
    element: ElementType,
    shape: &[usize],
    mut next: impl FnMut() -> f64,
) -> Result<Vec<Value>> {
    let count = checked_elements(ElementType::F64, shape)?;
    let values = (0..count).map(|_| next()).collected()?;
    Ok(one(Tensor::from_f64(element, shape, &values)?))
}

fn shape_attribute(call: &Call<'_>) -> Result<Vec<usize>> {
    let missing = || Error::operands("the attribute `shape` is missing");
    lengths(call.attributes().ints("shape")?.ok_or_else(missing)?)
}

/// The type that is requested, or the operand's.
fn element_like(call: &Call<'_>) -> Result<ElementType> {
    Ok(dtype(call)?.unwrap_or(call.tensor(0)?.element()))
}

pub(super) fn random_normal(call: &Call<'_>) -> Result<Vec<Value>> {
    normal(call, dtype(call)?.unwrap_or(ElementType::F32), &shape_attribute(call)?)
}

pub(super) fn random_normal_like(call: &Call<'_>) -> Result<Vec<Value>> {
    normal(call, element_like(call)?, call.tensor(0)?.shape())
}

fn normal(call: &Call<'_>, element: ElementType, shape: &[usize]) -> Result<Vec<Value>> {
    let mean = f64::from(call.attributes().float_or("mean", 0.0)?);
    let scale = f64::from(call.attributes().float_or("scale", 1.0)?);
    let mut random = random(call)?;
    draw(element, shape, || mean + scale * random.normal())
}

pub(super) fn random_uniform(call: &Call<'_>) -> Result<Vec<Value>> {
    uniform(call, dtype(call)?.unwrap_or(ElementType::F32), &shape_attribute(call)?)
}

pub(super) fn random_uniform_like(call: &Call<'_>) -> Result<Vec<Value>> {
    uniform(call, element_like(call)?, call.tensor(0)?.shape())
}

fn uniform(call: &Call<'_>, element: ElementType, shape: &[usize]) -> Result<Vec<Value>> {
    let low = f64::from(call.attributes().float_or("low", 0.0)?);
    let high = f64::from(call.attributes().float_or("high", 1.0)?);
    let mut random = random(call)?;
    draw(element, shape, || low + (high - low) * random.unit())
}

/// One with the probability that the operand says, and else zero.
pub(super) fn bernoulli(call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let mut random = random(call)?;
    let hit = |p: f64| f64::from(u8::from(random.unit() < p));
    let values: Vec<f64> = x.to_f64()?.into_iter().map(hit).collect();
    Ok(one(Tensor::from_f64(element_like(call)?, x.shape(), &values)?))
}

/// Classes, drawn from rows of logarithms of probabilities that need not add up to one.
pub(super) fn multinomial(call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let &[batch, classes] = x.shape() else {
        return Err(Error::operands(format!("a matrix was expected, not {:?}", x.shape())));
    };
    let samples = lengths(&[call.attributes().int_or("sample_size", 1)?])?[0];
    let shape = [batch, samples];
    let element = dtype(call)?.unwrap_or(ElementType::I32);
    let count = checked_elements(ElementType::F64, &shape)?;
    if classes == 0 && count > 0 {
        return Err(Error::operands("there is no class to draw"));
    }
    let mut random = random(call)?;
    let mut values = with_room(count)?;
    for row in x.to_f64()?.chunks_exact(classes.max(1)) {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut total = 0.0;
        let sums: Vec<f64> = (row.iter())
            .map(|score| {
                total += (score - largest).exp();
                total
            })
            .collect();
        if !total.is_finite() {
            return Err(Error::operands("a row holds no probabilities"));
        }
        for _ in 0..samples {
            let at = random.unit() * total;
            values.push(sums.partition_point(|&sum| sum <= at).min(classes - 1) as f64);
        }
    }
    Ok(one(Tensor::from_f64(element, &shape, &values)?))
}
