//! Squeeze, unsqueeze, transpose, tile; shapes as values.

use super::elementwise::same;
use super::{Fact, Known, Rule, arithmetic, dims};
use crate::operators;
use crate::{Dim, ElementType, Error, Result};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("DepthToSpace", depth_to_space),
    ("Expand", expand),
    ("Flatten", flatten),
    ("ReverseSequence", same),
    ("Shape", shape),
    ("Size", size),
    ("SpaceToDepth", space_to_depth),
    ("Squeeze", squeeze),
    ("Tile", tile),
    ("Transpose", transpose),
    ("Trilu", same),
    ("Unsqueeze", unsqueeze),
];

/// The integers of an operand, for a result that holds the same ones in another shape.
fn kept_entries(known: &Known<'_>, shape: &Option<Vec<Dim>>) -> Option<Vec<Dim>> {
    known.element(0).filter(|element| arithmetic::holds(*element))?;
    shape.as_ref().filter(|shape| shape.len() <= 1)?;
    arithmetic::useful(known.entries(0)?)
}

fn flatten(known: &Known<'_>) -> Result<Vec<Fact>> {
    let shape = match known.shape(0) {
        Some(shape) => {
            let number = known.attributes().int_or("axis", 1)?;
            // The axis may be the one after the last.
            let after_last = number == shape.len() as i64;
            let at = if after_last { shape.len() } else { known.axis(1, shape.len())? };
            let (before, behind) = shape.split_at(at.min(shape.len()));
            Some(vec![dims::product(before)?, dims::product(behind)?])
        }
        None => None,
    };
    Ok(vec![Fact::tensor(known.element(0), shape)])
}

fn squeeze(known: &Known<'_>) -> Result<Vec<Fact>> {
    let shape = match (known.shape(0), known.numbers("axes", 1)?) {
        (Some(shape), Some(Some(axes))) => {
            match axes.iter().map(dims::signed).collect::<Option<Vec<i64>>>() {
                Some(axes) => Some(without(shape, &axes)?),
                None => dims::open(shape.len().saturating_sub(axes.len())),
            }
        }
        (Some(shape), None) if shape.iter().all(|length| length.known().is_some()) => {
            Some(shape.into_iter().filter(|length| *length != Dim::Known(1)).collect())
        }
        _ => None,
    };
    let entries = kept_entries(known, &shape);
    arithmetic::with(Fact::tensor(known.element(0), shape), entries)
}

/// A shape without axes of length 1.
fn without(shape: Vec<Dim>, axes: &[i64]) -> Result<Vec<Dim>> {
    let mut drop = vec![false; shape.len()];
    for at in operators::distinct_axes(axes, shape.len())? {
        if shape[at].known().is_some_and(|length| length != 1) {
            let shape = dims::show(&shape);
            return Err(Error::operands(format!("the axis {at} of {shape} is not of length 1")));
        }
        drop[at] = true;
    }
    let kept = shape.into_iter().zip(drop).filter(|(_, drop)| !drop);
    Ok(kept.map(|(length, _)| length).collect())
}

fn unsqueeze(known: &Known<'_>) -> Result<Vec<Fact>> {
    let shape = match (known.shape(0), known.numbers("axes", 1)?.flatten()) {
        (Some(shape), Some(axes)) => {
            let rank = shape.len().saturating_add(axes.len());
            match axes.iter().map(dims::signed).collect::<Option<Vec<i64>>>() {
                Some(axes) => {
                    let mut is_new = vec![false; rank];
                    let axes = operators::distinct_axes(&axes, rank)?;
                    axes.into_iter().for_each(|at| is_new[at] = true);
                    let mut old = shape.into_iter();
                    let next = |new: bool| if new { None } else { old.next() };
                    let lengths = is_new.into_iter().map(next);
                    Some(lengths.map(|length| length.unwrap_or(Dim::Known(1))).collect())
                }
                None => dims::open(rank),
            }
        }
        _ => None,
    };
    let entries = kept_entries(known, &shape);
    arithmetic::with(Fact::tensor(known.element(0), shape), entries)
}

fn transpose(known: &Known<'_>) -> Result<Vec<Fact>> {
    let shape = match (known.shape(0), known.attributes().ints("perm")?) {
        (Some(shape), None) => Some(shape.into_iter().rev().collect()),
        (Some(shape), Some(order)) => {
            let axes = operators::distinct_axes(order, shape.len())?;
            if axes.len() != shape.len() {
                let shape = dims::show(&shape);
                return Err(Error::operands(format!(
                    "{order:?} is not a permutation of the axes of {shape}"
                )));
            }
            Some(axes.into_iter().map(|at| shape[at].clone()).collect())
        }
        _ => None,
    };
    Ok(vec![Fact::tensor(known.element(0), shape)])
}

fn shape(known: &Known<'_>) -> Result<Vec<Fact>> {
    let Some(shape) = known.shape(0) else {
        return Ok(vec![Fact::tensor(Some(ElementType::I64), Some(vec![Dim::Unknown]))]);
    };
    let rank = shape.len() as i64;
    let bound = |name: &str, default: i64| -> Result<usize> {
        let value = known.attributes().int_or(name, default)?;
        let from_start = if value < 0 { value.saturating_add(rank) } else { value };
        Ok(from_start.clamp(0, rank) as usize)
    };
    let (start, end) = (bound("start", 0)?, bound("end", rank)?);
    let part = shape.get(start..end).unwrap_or(&[]).to_vec();
    let fact = Fact::tensor(Some(ElementType::I64), Some(vec![Dim::Known(part.len())]));
    arithmetic::with(fact, Some(part))
}

fn size(known: &Known<'_>) -> Result<Vec<Fact>> {
    let entries = match known.shape(0) {
        Some(shape) => arithmetic::useful(vec![dims::product(&shape)?]),
        None => None,
    };
    arithmetic::with(Fact::tensor(Some(ElementType::I64), Some(Vec::new())), entries)
}

fn expand(known: &Known<'_>) -> Result<Vec<Fact>> {
    let shape = match (known.shape(0), known.entries(1)) {
        (Some(shape), Some(wanted)) => {
            let wanted = wanted.iter().map(dims::length).collect::<Result<Vec<Dim>>>()?;
            Some(dims::broadcast(&[&shape, &wanted])?)
        }
        _ => None,
    };
    Ok(vec![Fact::tensor(known.element(0), shape)])
}

fn tile(known: &Known<'_>) -> Result<Vec<Fact>> {
    let shape = match (known.shape(0), known.entries(1)) {
        (Some(shape), Some(repeats)) => {
            if shape.len() != repeats.len() {
                let (found, rank) = (repeats.len(), shape.len());
                return Err(Error::operands(format!("{found} repeats for {rank} axes")));
            }
            let pairs = shape.iter().zip(&repeats);
            let times = |(length, repeat)| dims::times(length, &dims::length(repeat)?);
            Some(pairs.map(times).collect::<Result<Vec<Dim>>>()?)
        }
        (Some(shape), None) => dims::open(shape.len()),
        _ => None,
    };
    Ok(vec![Fact::tensor(known.element(0), shape)])
}

/// Batch, channels, height and width, and the size of blocks.
fn blocks(known: &Known<'_>) -> Result<Option<([Dim; 4], usize)>> {
    let shape = known.shape(0).and_then(|shape| <[Dim; 4]>::try_from(shape).ok());
    let block = known.attributes().int("blocksize")?.and_then(|block| usize::try_from(block).ok());
    Ok(shape.zip(block.filter(|&block| block > 0)))
}

/// A length that is a multiple of another number.
fn divided(dim: &Dim, by: Option<usize>) -> Result<Dim> {
    let by = by.ok_or_else(|| Error::operands("the blocks are too large"))?;
    if by == 1 {
        return Ok(dim.clone());
    }
    dims::map(dim, |length| {
        let whole = (length % by == 0).then(|| length / by);
        whole.ok_or_else(|| Error::operands(format!("{length} cannot be divided by {by}")))
    })
}

fn depth_to_space(known: &Known<'_>) -> Result<Vec<Fact>> {
    let shape = match blocks(known)? {
        Some(([batch, channels, height, width], block)) => {
            let side = Dim::Known(block);
            let channels = divided(&channels, block.checked_mul(block))?;
            Some(vec![batch, channels, dims::times(&height, &side)?, dims::times(&width, &side)?])
        }
        None => None,
    };
    Ok(vec![Fact::tensor(known.element(0), shape)])
}

fn space_to_depth(known: &Known<'_>) -> Result<Vec<Fact>> {
    let shape = match blocks(known)? {
        Some(([batch, channels, height, width], block)) => {
            let area = block.checked_mul(block).map_or(Dim::Unknown, Dim::Known);
            let channels = dims::times(&channels, &area)?;
            let (height, width) = (divided(&height, Some(block))?, divided(&width, Some(block))?);
            Some(vec![batch, channels, height, width])
        }
        None => None,
    };
    Ok(vec![Fact::tensor(known.element(0), shape)])
}
