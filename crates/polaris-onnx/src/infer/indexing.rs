//! Gather and scatter.

use super::elementwise::same;
use super::{Fact, Known, Rule, arithmetic, dims};
use crate::{Dim, ElementType, Error, Result};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Compress", compress),
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("GatherND", gather_nd),
    ("NonMaxSuppression", non_max_suppression),
    ("NonZero", non_zero),
    ("OneHot", one_hot),
    ("Scatter", same),
    ("ScatterElements", same),
    ("ScatterND", same),
    ("TensorScatter", same),
    ("Unique", unique),
];

fn gather(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = known.element(0);
    let (data, indices) = (known.shape(0), known.shape(1));
    let mut at = 0;
    if let Some(data) = &data {
        at = known.axis(0, data.len())?;
        if data.is_empty() {
            return Err(Error::operands("a scalar has no axis to pick from"));
        }
    }
    let shape = data.zip(indices).map(|(mut shape, indices)| {
        shape.splice(at..=at, indices);
        shape
    });
    let is_short = shape.as_ref().is_some_and(|shape| shape.len() <= 1);
    let holds = is_short && element.is_some_and(arithmetic::holds);
    let entries = if holds { picked(known) } else { None };
    arithmetic::with(Fact::tensor(element, shape), entries)
}

/// Elements of a list that is partly known.
fn picked(known: &Known<'_>) -> Option<Vec<Dim>> {
    let (list, indices) = (known.entries(0)?, known.entries(1)?);
    let pick = |entry: &Dim| -> Option<Dim> {
        let Some(index) = dims::signed(entry) else { return Some(Dim::Unknown) };
        let from_start = if index < 0 { index.checked_add(list.len() as i64)? } else { index };
        list.get(usize::try_from(from_start).ok()?).cloned()
    };
    arithmetic::useful(indices.iter().map(pick).collect::<Option<Vec<Dim>>>()?)
}

fn gather_elements(known: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![Fact::tensor(known.element(0), known.shape(1))])
}

fn gather_nd(known: &Known<'_>) -> Result<Vec<Fact>> {
    let batch = usize::try_from(known.attributes().int_or("batch_dims", 0)?).ok();
    let picked = |data: Vec<Dim>, indices: Vec<Dim>| -> Option<Vec<Dim>> {
        let (last, places) = indices.split_last()?;
        let taken = batch?.checked_add(last.known()?)?;
        let mut shape = places.to_vec();
        shape.extend_from_slice(data.get(taken..)?);
        Some(shape)
    };
    let shape = known.shape(0).zip(known.shape(1));
    let shape = shape.and_then(|(data, indices)| picked(data, indices));
    Ok(vec![Fact::tensor(known.element(0), shape)])
}

fn one_hot(known: &Known<'_>) -> Result<Vec<Fact>> {
    let depth = match (known.entry(1), known.floats(1).as_deref()) {
        // The depth may be of any type of numbers.
        (Dim::Unknown, Some(&[depth])) => dims::from_signed(depth as i64),
        (depth, _) => depth,
    };
    let depth = dims::length(&depth)?;
    let mut shape = known.shape(0);
    if let Some(shape) = &mut shape {
        let at = known.axis(-1, shape.len() + 1)?;
        shape.insert(at, depth);
    }
    Ok(vec![Fact::tensor(known.element(2), shape)])
}

/// A result whose length along an axis, or as a whole, only the elements say.
fn open_along(known: &Known<'_>) -> Result<Option<Vec<Dim>>> {
    if known.attributes().int("axis")?.is_none() {
        return Ok(Some(vec![Dim::Unknown]));
    }
    let mut shape = known.shape(0);
    if let Some(shape) = &mut shape {
        let at = known.axis(0, shape.len())?;
        if let Some(length) = shape.get_mut(at) {
            *length = Dim::Unknown;
        }
    }
    Ok(shape)
}

fn compress(known: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![Fact::tensor(known.element(0), open_along(known)?)])
}

fn unique(known: &Known<'_>) -> Result<Vec<Fact>> {
    let list = Fact::tensor(Some(ElementType::I64), Some(vec![Dim::Unknown]));
    let values = Fact::tensor(known.element(0), open_along(known)?);
    Ok(vec![values, list.clone(), list.clone(), list])
}

fn non_zero(known: &Known<'_>) -> Result<Vec<Fact>> {
    let axes = match known.shape(0).map(|shape| shape.len()) {
        Some(rank) if rank > 0 => Dim::Known(rank),
        _ => Dim::Unknown,
    };
    Ok(vec![Fact::tensor(Some(ElementType::I64), Some(vec![axes, Dim::Unknown]))])
}

fn non_max_suppression(_: &Known<'_>) -> Result<Vec<Fact>> {
    let shape = vec![Dim::Unknown, Dim::Known(3)];
    Ok(vec![Fact::tensor(Some(ElementType::I64), Some(shape))])
}
