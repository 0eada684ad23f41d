//! Concatenation, splitting, padding and cropping.

use super::elementwise::shared_element;
use super::{Fact, Known, Rule, arithmetic, dims};
use crate::operators;
use crate::{Dim, Error, Result};

pub(super) const RULES: &[(&str, Rule)] =
    &[("CenterCropPad", center_crop_pad), ("Concat", concat), ("Pad", pad), ("Split", split)];

/// The shape of shapes one after another along an axis.
pub fn joined(shapes: &[Vec<Dim>], axis: i64) -> Result<Vec<Dim>> {
    let rank = shapes.first().map_or(0, Vec::len);
    if rank == 0 {
        return Err(Error::operands("scalars cannot be concatenated"));
    }
    let at = crate::operators::axis(axis, rank)?;
    let mut result: Vec<Dim> = vec![Dim::Unknown; rank];
    let mut along = Vec::with_capacity(shapes.len());
    for shape in shapes {
        let length = shape.get(at).filter(|_| shape.len() == rank).ok_or_else(|| {
            let shapes: Vec<String> = shapes.iter().map(|shape| dims::show(shape)).collect();
            Error::operands(format!("{} cannot be concatenated", shapes.join(" and ")))
        })?;
        along.push(length.clone());
        for (axis, length) in shape.iter().enumerate().filter(|(axis, _)| *axis != at) {
            result[axis] = dims::same(&result[axis], length)?;
        }
    }
    result[at] = dims::sum(&along)?;
    Ok(result)
}

fn concat(known: &Known<'_>) -> Result<Vec<Fact>> {
    let operands: Vec<usize> =
        (0..known.inputs.len()).filter(|&index| known.fact(index).is_some()).collect();
    let element = shared_element(known, &operands);
    let shapes: Option<Vec<Vec<Dim>>> = operands.iter().map(|&index| known.shape(index)).collect();
    let axis = known.attributes().int_or("axis", 1)?;
    let shape = match shapes {
        Some(shapes) => Some(joined(&shapes, axis)?),
        None => None,
    };
    let is_list = shape.as_ref().is_some_and(|shape| shape.len() == 1);
    let entries: Option<Vec<Vec<Dim>>> = match element {
        Some(element) if is_list && arithmetic::holds(element) => {
            operands.iter().map(|&index| known.entries(index)).collect()
        }
        _ => None,
    };
    let entries = entries.map(|lists| lists.concat()).and_then(arithmetic::useful);
    arithmetic::with(Fact::tensor(element, shape), entries)
}

fn split(known: &Known<'_>) -> Result<Vec<Fact>> {
    let count = known.node.outputs.len();
    let Some(shape) = known.shape(0) else {
        return Ok(vec![Fact::tensor(known.element(0), None); count]);
    };
    let at = known.axis(0, shape.len())?;
    let Some(whole) = shape.get(at) else {
        return Err(Error::operands("a scalar cannot be split"));
    };
    let lengths = match known.numbers("split", 1)? {
        Some(Some(lengths)) => {
            let lengths = lengths.iter().map(dims::length).collect::<Result<Vec<Dim>>>()?;
            dims::same(whole, &dims::sum(&lengths)?)?;
            lengths
        }
        Some(None) => vec![Dim::Unknown; count],
        None => {
            let wanted = Dim::Known(count);
            let said = known.attributes().int("num_outputs")?.map(dims::from_signed);
            dims::same(&wanted, &said.unwrap_or_else(|| wanted.clone()))?;
            let part = |index: usize| {
                dims::map(whole, |whole| {
                    let part = whole.div_ceil(count.max(1));
                    Ok(part.min(whole.saturating_sub(part.saturating_mul(index))))
                })
            };
            (0..count).map(part).collect::<Result<Vec<Dim>>>()?
        }
    };
    let holds = known.element(0).is_some_and(arithmetic::holds) && shape.len() == 1;
    let entries = if holds { known.entries(0) } else { None };
    let mut start = Some(0usize);
    let part = |length: Dim| {
        let mut shape = shape.clone();
        let end = start.zip(length.known()).and_then(|(start, length)| start.checked_add(length));
        let range = start.zip(end).map(|(start, end)| start..end);
        let list = range.and_then(|range| Some(entries.as_ref()?.get(range)?.to_vec()));
        start = end;
        shape[at] = length;
        let mut fact = Fact::tensor(known.element(0), Some(shape));
        fact.dims = list.and_then(arithmetic::useful);
        fact
    };
    Ok(lengths.into_iter().map(part).collect())
}

fn pad(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = known.element(0);
    let Some(mut shape) = known.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
    let axes = match known.fact(3) {
        None => Some((0..shape.len()).collect()),
        Some(_) => match known.ints(3) {
            Some(axes) => Some(operators::distinct_axes(&axes, shape.len())?),
            None => None,
        },
    };
    let pads = known.numbers("pads", 1)?.flatten();
    let (Some(axes), Some(pads)) = (axes, pads) else {
        return Ok(vec![Fact::tensor(element, dims::open(shape.len()))]);
    };
    if axes.len().checked_mul(2) != Some(pads.len()) {
        let (found, axes) = (pads.len(), axes.len());
        return Err(Error::operands(format!("{found} pads for {axes} axes")));
    }
    for (index, &at) in axes.iter().enumerate() {
        let (before, behind) = (&pads[index], &pads[axes.len() + index]);
        shape[at] = match (dims::signed(before), dims::signed(behind)) {
            (Some(before), Some(behind)) => {
                dims::plus(&shape[at], i128::from(before) + i128::from(behind))?
            }
            _ => Dim::Unknown,
        };
    }
    Ok(vec![Fact::tensor(element, Some(shape))])
}

fn center_crop_pad(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = known.element(0);
    let Some(mut shape) = known.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
    let axes = match known.attributes().ints("axes")? {
        Some(axes) => operators::distinct_axes(axes, shape.len())?,
        None => (0..shape.len()).collect(),
    };
    let wanted = known.entries(1).unwrap_or_else(|| vec![Dim::Unknown; axes.len()]);
    if wanted.len() != axes.len() {
        let (found, axes) = (wanted.len(), axes.len());
        return Err(Error::operands(format!("{found} lengths for {axes} axes")));
    }
    for (&at, length) in axes.iter().zip(&wanted) {
        shape[at] = dims::length(length)?;
    }
    Ok(vec![Fact::tensor(element, Some(shape))])
}
