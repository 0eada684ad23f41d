//! Symbolic dimensions, and how they combine.

use super::known::MOST_ELEMENTS;
use crate::{Dim, Error, Result};

/// An element of a vector as a number, if it is one.
pub fn signed(entry: &Dim) -> Option<i64> {
    match entry {
        Dim::Known(value) => i64::try_from(*value).ok(),
        Dim::Named(name) => name.parse().ok().filter(|&value: &i64| value < 0),
        Dim::Unknown => None,
    }
}

/// A number as an element of a vector.
pub fn from_signed(value: i64) -> Dim {
    usize::try_from(value).map_or_else(|_| Dim::Named(value.to_string()), Dim::Known)
}

/// A length; what is not a length, though it is written as one, is unknown.
pub fn as_length(dim: &Dim) -> Dim {
    if signed(dim).is_some_and(|value| value < 0) { Dim::Unknown } else { dim.clone() }
}

/// An element of a vector that is to be a length.
pub fn length(entry: &Dim) -> Result<Dim> {
    match signed(entry) {
        Some(value) if value < 0 => Err(Error::operands(format!("{value} is not a valid length"))),
        _ => Ok(entry.clone()),
    }
}

/// A shape of so many symbolic dimensions.
pub fn open(rank: usize) -> Option<Vec<Dim>> {
    (rank <= MOST_ELEMENTS).then(|| vec![Dim::Unknown; rank])
}

/// A shape in messages.
pub fn show(shape: &[Dim]) -> String {
    let list: Vec<String> = shape.iter().map(Dim::to_string).collect();
    format!("[{}]", list.join(", "))
}

/// The length where two meet of which one may be repeated.
fn meet(a: &Dim, b: &Dim) -> Option<Dim> {
    Some(match (a, b) {
        (Dim::Known(a), Dim::Known(b)) if a == b || *b == 1 => Dim::Known(*a),
        (Dim::Known(1), other) | (other, Dim::Known(1)) => other.clone(),
        (Dim::Known(_), Dim::Known(_)) => return None,
        (Dim::Known(length), _) | (_, Dim::Known(length)) => Dim::Known(*length),
        (Dim::Named(a), Dim::Named(b)) if a == b => Dim::Named(a.clone()),
        _ => Dim::Unknown,
    })
}

/// The shape where several meet, by NumPy's rule.
pub fn broadcast(shapes: &[&[Dim]]) -> Result<Vec<Dim>> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut result = vec![Dim::Known(1); rank];
    for shape in shapes {
        for (target, length) in result[rank - shape.len()..].iter_mut().zip(*shape) {
            *target = meet(target, length).ok_or_else(|| {
                let shapes: Vec<String> = shapes.iter().map(|shape| show(shape)).collect();
                let shapes = shapes.join(" and ");
                Error::operands(format!("the shapes {shapes} are incompatible"))
            })?;
        }
    }
    Ok(result)
}

/// The length where two meet that must be the same.
pub fn same(a: &Dim, b: &Dim) -> Result<Dim> {
    match (a, b) {
        (Dim::Known(x), Dim::Known(y)) if x != y => {
            Err(Error::operands(format!("lengths of {x} and {y} are incompatible")))
        }
        (Dim::Known(_), _) | (Dim::Named(_), Dim::Named(_) | Dim::Unknown) => Ok(a.clone()),
        _ => Ok(b.clone()),
    }
}

/// What is the same in both.
pub fn common(a: &Dim, b: &Dim) -> Dim {
    if a == b { a.clone() } else { Dim::Unknown }
}

fn too_large() -> Error {
    Error::operands("the result would be too large")
}

pub fn product(list: &[Dim]) -> Result<Dim> {
    let mut number = 1usize;
    let mut open: Option<&Dim> = None;
    let mut several = false;
    for dim in list {
        match dim {
            Dim::Known(0) => return Ok(Dim::Known(0)),
            Dim::Known(length) => number = number.checked_mul(*length).ok_or_else(too_large)?,
            other => several |= open.replace(other).is_some(),
        }
    }
    Ok(match open {
        None => Dim::Known(number),
        Some(name) if number == 1 && !several => name.clone(),
        Some(_) => Dim::Unknown,
    })
}

pub fn times(a: &Dim, b: &Dim) -> Result<Dim> {
    product(&[a.clone(), b.clone()])
}

pub fn sum(list: &[Dim]) -> Result<Dim> {
    let mut number = 0usize;
    let mut open: Option<&Dim> = None;
    let mut several = false;
    for dim in list {
        match dim {
            Dim::Known(length) => number = number.checked_add(*length).ok_or_else(too_large)?,
            other => several |= open.replace(other).is_some(),
        }
    }
    Ok(match open {
        None => Dim::Known(number),
        Some(name) if number == 0 && !several => name.clone(),
        Some(_) => Dim::Unknown,
    })
}

/// A length that becomes longer or shorter by so much.
pub fn plus(dim: &Dim, more: i128) -> Result<Dim> {
    match dim {
        Dim::Known(length) => {
            let sum = (*length as i128).checked_add(more);
            let sum = sum.and_then(|sum| usize::try_from(sum).ok());
            sum.map(Dim::Known).ok_or_else(|| {
                Error::operands(format!("{length} and {more} are not a valid length"))
            })
        }
        other if more == 0 => Ok(other.clone()),
        _ => Ok(Dim::Unknown),
    }
}

/// What a function makes of a number; names become open.
pub fn map(dim: &Dim, convert: impl Fn(usize) -> Result<usize>) -> Result<Dim> {
    dim.known().map_or(Ok(Dim::Unknown), |length| convert(length).map(Dim::Known))
}
