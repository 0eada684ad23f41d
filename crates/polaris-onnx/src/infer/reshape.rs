//! Reshape: which length follows from the others.

use super::{Fact, Known, Rule, arithmetic, dims};
use crate::{Dim, Error, Result};

pub(super) const RULES: &[(&str, Rule)] = &[("Reshape", reshape)];

fn reshape(known: &Known<'_>) -> Result<Vec<Fact>> {
    let shape = match known.numbers("shape", 1)?.flatten() {
        Some(wanted) => Some(reshaped(known, &wanted)?),
        None => None,
    };
    let short = shape.as_ref().is_some_and(|shape| shape.len() <= 1);
    let entries = if short { known.entries(0).and_then(arithmetic::useful) } else { None };
    let holds = known.element(0).is_some_and(arithmetic::holds);
    arithmetic::with(Fact::tensor(known.element(0), shape), entries.filter(|_| holds))
}

fn reshaped(known: &Known<'_>, wanted: &[Dim]) -> Result<Vec<Dim>> {
    let from = known.shape(0);
    let keep_zeros = known.attributes().flag("allowzero", false)?;
    let mut shape = Vec::with_capacity(wanted.len());
    let mut holes = Vec::new();
    // Lengths that are taken over, though nobody knows them, are the same on both sides.
    let mut taken = vec![false; from.as_ref().map_or(0, Vec::len)];
    for (axis, entry) in wanted.iter().enumerate() {
        shape.push(match dims::signed(entry) {
            Some(0) if !keep_zeros => match &from {
                None => Dim::Unknown,
                Some(from) => {
                    let length = from.get(axis).cloned().ok_or_else(|| {
                        Error::operands(format!("there is no axis {axis} to take the length of"))
                    })?;
                    taken[axis] = length.known().is_none();
                    length
                }
            },
            Some(-1) => {
                holes.push(axis);
                Dim::Unknown
            }
            Some(_) => dims::length(entry)?,
            None => entry.clone(),
        });
    }
    if holes.len() > 1 {
        return Err(Error::operands("more than one length of the new shape is -1"));
    }
    let Some(from) = from else { return Ok(shape) };
    let is_taken = |axis: usize| taken.get(axis).copied().unwrap_or(false);
    let open: Vec<usize> =
        (0..shape.len()).filter(|&axis| shape[axis] == Dim::Unknown && !is_taken(axis)).collect();
    let rest = |shape: &[Dim], skip: Option<usize>| -> Vec<Dim> {
        let stays = |axis: &usize| Some(*axis) != skip && !is_taken(*axis);
        (0..shape.len()).filter(stays).map(|axis| shape[axis].clone()).collect()
    };
    if let &[hole] = open.as_slice() {
        shape[hole] = quotient(&rest(&from, None), &rest(&shape, Some(hole)))
            .ok_or_else(|| does_not_fit(&from, wanted))?;
    } else if let (Dim::Known(a), Dim::Known(b)) = (dims::product(&from)?, dims::product(&shape)?)
        && a != b
    {
        return Err(does_not_fit(&from, wanted));
    }
    Ok(shape)
}

fn does_not_fit(from: &[Dim], wanted: &[Dim]) -> Error {
    let (from, wanted) = (dims::show(from), dims::show(wanted));
    Error::operands(format!("{from} cannot take the shape {wanted}"))
}

/// The product of all lengths by the product of others, names cancelled; `None` if it is not a length.
fn quotient(all: &[Dim], others: &[Dim]) -> Option<Dim> {
    let mut names: Vec<&Dim> = all.iter().filter(|dim| dim.known().is_none()).collect();
    for other in others.iter().filter(|dim| dim.known().is_none()) {
        match names.iter().position(|name| *name == other && *other != Dim::Unknown) {
            Some(at) => names.swap_remove(at),
            None => return Some(Dim::Unknown),
        };
    }
    let product = |list: &[Dim]| {
        list.iter().filter_map(Dim::known).try_fold(1usize, |all, length| all.checked_mul(length))
    };
    let (Some(over), Some(under)) = (product(all), product(others)) else {
        return Some(Dim::Unknown);
    };
    match names.as_slice() {
        [] if under == 0 => Some(Dim::Unknown),
        [] => (over % under == 0).then(|| Dim::Known(over / under)),
        [name] if over == under && under > 0 => Some((*name).clone()),
        _ => Some(Dim::Unknown),
    }
}
