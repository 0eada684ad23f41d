//! Arithmetic on elements that are only partly known: shapes that are computed from shapes.

use super::{Fact, Known, dims};
use crate::{Dim, ElementType, Result};

/// What two elements become.
type Combine = fn(&Dim, &Dim) -> Dim;

/// Two vectors or scalars of integers, element by element.
pub fn combine(known: &Known<'_>, combine: Combine) -> Option<Vec<Dim>> {
    let element = known.element(0).filter(|element| holds(*element))?;
    let (a, b) = (known.entries(0)?, known.entries(1)?);
    let fits = |entry: Dim| if fits(&entry, element) { entry } else { Dim::Unknown };
    let list = (0..length(&[&a, &b])?).map(|at| fits(combine(pick(&a, at), pick(&b, at))));
    useful(list.collect())
}

/// Whether elements of this type may be lengths.
pub fn holds(element: ElementType) -> bool {
    matches!(element, ElementType::I64 | ElementType::I32)
}

/// Whether a number fits the type; lengths with a name are taken to.
pub fn fits(entry: &Dim, element: ElementType) -> bool {
    element != ElementType::I32
        || dims::signed(entry).is_none_or(|value| i32::try_from(value).is_ok())
}

/// A list of which at least something is known.
pub fn useful(list: Vec<Dim>) -> Option<Vec<Dim>> {
    list.iter().any(|entry| *entry != Dim::Unknown).then_some(list)
}

/// The length of lists that are as long as one another or hold one element.
fn length(lists: &[&[Dim]]) -> Option<usize> {
    let length = lists.iter().map(|list| list.len()).find(|&length| length != 1).unwrap_or(1);
    lists.iter().all(|list| [1, length].contains(&list.len())).then_some(length)
}

fn pick(list: &[Dim], at: usize) -> &Dim {
    if list.len() == 1 { &list[0] } else { list.get(at).unwrap_or(&Dim::Unknown) }
}

fn numbers(a: &Dim, b: &Dim) -> Option<(i64, i64)> {
    Some((dims::signed(a)?, dims::signed(b)?))
}

fn of(number: Option<i64>) -> Dim {
    number.map_or(Dim::Unknown, dims::from_signed)
}

/// Whether both are the same length with a name.
fn same_name(a: &Dim, b: &Dim) -> bool {
    matches!(a, Dim::Named(_)) && a == b
}

pub fn add(a: &Dim, b: &Dim) -> Dim {
    match (a, b) {
        (Dim::Known(0), other) | (other, Dim::Known(0)) => other.clone(),
        _ => of(numbers(a, b).and_then(|(a, b)| a.checked_add(b))),
    }
}

pub fn subtract(a: &Dim, b: &Dim) -> Dim {
    match (a, b) {
        (other, Dim::Known(0)) => other.clone(),
        _ if same_name(a, b) => Dim::Known(0),
        _ => of(numbers(a, b).and_then(|(a, b)| a.checked_sub(b))),
    }
}

pub fn multiply(a: &Dim, b: &Dim) -> Dim {
    match (a, b) {
        (Dim::Known(1), other) | (other, Dim::Known(1)) => other.clone(),
        (Dim::Known(0), _) | (_, Dim::Known(0)) => Dim::Known(0),
        _ => of(numbers(a, b).and_then(|(a, b)| a.checked_mul(b))),
    }
}

/// Quotients of negative numbers are left open.
pub fn divide(a: &Dim, b: &Dim) -> Dim {
    match (a, b) {
        (other, Dim::Known(1)) => other.clone(),
        (Dim::Known(_), Dim::Known(0)) => Dim::Unknown,
        (Dim::Known(a), Dim::Known(b)) => Dim::Known(a / b),
        _ if same_name(a, b) && dims::signed(a).is_none() => Dim::Known(1),
        _ => Dim::Unknown,
    }
}

/// A name stands for a length, which is never negative.
fn equal(a: &Dim, b: &Dim) -> Dim {
    let negative = |entry: &Dim| dims::signed(entry).is_some_and(|value| value < 0);
    match (a, b) {
        (Dim::Unknown, _) | (_, Dim::Unknown) => Dim::Unknown,
        _ if a == b => Dim::Known(1),
        _ if numbers(a, b).is_some() || negative(a) || negative(b) => Dim::Known(0),
        _ => Dim::Unknown,
    }
}

/// Which elements are equal, as 0 and 1.
pub fn equals(known: &Known<'_>) -> Option<Vec<Dim>> {
    combine(known, equal)
}

/// The elements of Where.
pub fn choose(known: &Known<'_>) -> Option<Vec<Dim>> {
    known.element(1).filter(|element| holds(*element))?;
    let (condition, a, b) = (known.entries(0)?, known.entries(1)?, known.entries(2)?);
    let choice = |at| match pick(&condition, at) {
        Dim::Known(0) => pick(&b, at).clone(),
        Dim::Known(_) => pick(&a, at).clone(),
        _ => dims::common(pick(&a, at), pick(&b, at)),
    };
    useful((0..length(&[&condition, &a, &b])?).map(choice).collect())
}

/// The elements of an operand that becomes another type.
pub fn converted(known: &Known<'_>, element: Option<ElementType>) -> Option<Vec<Dim>> {
    let element = element.filter(|element| holds(*element))?;
    known.element(0).filter(|from| holds(*from))?;
    let fits = |entry: Dim| if fits(&entry, element) { entry } else { Dim::Unknown };
    useful(known.entries(0)?.into_iter().map(fits).collect())
}

/// A result with the elements that are known of it.
pub fn with(mut fact: Fact, entries: Option<Vec<Dim>>) -> Result<Vec<Fact>> {
    fact.dims = entries;
    Ok(vec![fact])
}
