//! Fourier transforms.

use super::{Fact, Known, Rule, dims};
use crate::{Dim, Error, Result, operators};

pub(super) const RULES: &[(&str, Rule)] = &[("DFT", dft), ("STFT", stft)];

/// What is left of a spectrum that is its own mirror image.
fn half(length: &Dim) -> Result<Dim> {
    dims::map(length, |length| Ok(length / 2 + 1))
}

fn dft(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = known.element(0);
    let Some(mut shape) = known.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
    let attributes = known.attributes();
    let (inverse, one_sided) =
        (attributes.flag("inverse", false)?, attributes.flag("onesided", false)?);
    let number = match known.fact(2) {
        _ if known.version() < 20 => Some(attributes.int_or("axis", 1)?),
        None => Some(-2),
        Some(_) => dims::signed(&known.entry(2)),
    };
    let Some(number) = number else {
        return Ok(vec![Fact::tensor(element, dims::open(shape.len()))]);
    };
    let at = operators::axis(number, shape.len())?;
    if at + 1 >= shape.len() {
        return Err(Error::operands("the transformed axis must lie before that of the parts"));
    }
    let length = match known.fact(1) {
        Some(_) => dims::length(&known.entry(1))?,
        None if inverse && one_sided => {
            dims::map(&shape[at], |given| Ok(given.saturating_sub(1).saturating_mul(2)))?
        }
        None => shape[at].clone(),
    };
    shape[at] = if one_sided && !inverse { half(&length)? } else { length };
    let last = shape.len() - 1;
    shape[last] = Dim::Known(if one_sided && inverse { 1 } else { 2 });
    Ok(vec![Fact::tensor(element, Some(shape))])
}

fn stft(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = known.element(0);
    let shape = known.shape(0);
    let Some([batch, samples, ..]) = shape.as_deref() else {
        return Ok(vec![Fact::tensor(element, dims::open(4))]);
    };
    let window = known.shape(2).map(|shape| dims::product(&shape)).transpose()?;
    let length = match (known.fact(3), known.fact(2)) {
        (Some(_), _) => dims::length(&known.entry(3))?,
        (None, Some(_)) => window.unwrap_or(Dim::Unknown),
        (None, None) => samples.clone(),
    };
    let frames = match (samples.known(), length.known(), known.entry(1).known()) {
        (Some(samples), Some(length), Some(step)) if step > 0 => {
            let rest = samples.checked_sub(length).ok_or_else(|| {
                Error::operands(format!("a frame of {length} is longer than {samples} samples"))
            })?;
            Dim::Known(rest / step + 1)
        }
        _ => Dim::Unknown,
    };
    let one_sided = known.attributes().flag("onesided", true)?;
    let kept = if one_sided { half(&length)? } else { length };
    let shape = vec![batch.clone(), frames, kept, Dim::Known(2)];
    Ok(vec![Fact::tensor(element, Some(shape))])
}
