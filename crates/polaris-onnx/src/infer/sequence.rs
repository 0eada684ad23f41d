//! Sequences of tensors, and optionals.

use super::{Fact, Known, Rule, control, dims};
use crate::{Attribute, Dim, ElementType, Result, Type};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("ConcatFromSequence", concat),
    ("Optional", optional),
    ("OptionalGetElement", get_element),
    ("OptionalHasElement", has_element),
    ("SequenceAt", at),
    ("SequenceConstruct", construct),
    ("SequenceEmpty", empty),
    ("SequenceErase", erase),
    ("SequenceInsert", insert),
    ("SequenceLength", length),
    ("SplitToSequence", split),
];

/// The type of what a sequence holds.
fn held(known: &Known<'_>) -> Option<Type> {
    match known.ty(0)? {
        Type::Sequence(of) => Some((**of).clone()),
        Type::Optional(of) => match &**of {
            Type::Sequence(of) => Some((**of).clone()),
            _ => None,
        },
        _ => None,
    }
}

fn fact(ty: Option<Type>) -> Result<Vec<Fact>> {
    Ok(vec![ty.map_or_else(Fact::default, Fact::of)])
}

fn sequence_of(ty: Option<Type>) -> Result<Vec<Fact>> {
    fact(ty.map(|ty| Type::Sequence(Box::new(ty))))
}

fn at(known: &Known<'_>) -> Result<Vec<Fact>> {
    fact(held(known))
}

fn construct(known: &Known<'_>) -> Result<Vec<Fact>> {
    let types = (0..known.inputs.len()).map(|index| known.same(index).ty);
    sequence_of(types.reduce(|a, b| control::common_type(&a?, &b?)).flatten())
}

fn empty(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = match known.attributes().int("dtype")? {
        Some(_) => known.element_named("dtype")?,
        None => Some(ElementType::F32),
    };
    sequence_of(element.map(|element| Type::Tensor(element, None)))
}

fn erase(known: &Known<'_>) -> Result<Vec<Fact>> {
    sequence_of(held(known))
}

fn insert(known: &Known<'_>) -> Result<Vec<Fact>> {
    let both = held(known).zip(known.same(1).ty);
    sequence_of(both.and_then(|(held, new)| control::common_type(&held, &new)))
}

fn length(_: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![Fact::tensor(Some(ElementType::I64), Some(Vec::new()))])
}

fn concat(known: &Known<'_>) -> Result<Vec<Fact>> {
    let Some(Type::Tensor(element, shape)) = held(known) else { return fact(None) };
    let new_axis = known.attributes().flag("new_axis", false)?;
    let mut shape = shape.map(|shape| shape.iter().map(dims::as_length).collect::<Vec<Dim>>());
    if let Some(shape) = &mut shape {
        let at = known.axis(0, shape.len() + usize::from(new_axis))?;
        match shape.get_mut(at) {
            Some(length) if !new_axis => *length = Dim::Unknown,
            _ => shape.insert(at, Dim::Unknown),
        }
    }
    Ok(vec![Fact::tensor(Some(element), shape)])
}

fn split(known: &Known<'_>) -> Result<Vec<Fact>> {
    let mut shape = known.shape(0);
    if let Some(shape) = &mut shape {
        let at = known.axis(0, shape.len())?;
        let keep = known.attributes().flag("keepdims", true)?;
        let lengths = known.entries(1);
        let is_scalar = known.shape(1).is_some_and(|shape| shape.is_empty());
        let part = match (known.fact(1), lengths.as_deref()) {
            (None, _) => Dim::Known(1),
            (Some(_), Some([part])) if is_scalar => even_part(shape.get(at), part),
            (Some(_), Some([first, rest @ ..])) => {
                rest.iter().fold(first.clone(), |all, part| dims::common(&all, part))
            }
            _ => Dim::Unknown,
        };
        match shape.get_mut(at) {
            Some(_) if known.fact(1).is_none() && !keep => {
                shape.remove(at);
            }
            Some(length) => *length = dims::as_length(&part),
            None => {}
        }
    }
    sequence_of(known.element(0).map(|element| Type::Tensor(element, shape)))
}

/// The length of all parts, if the last one is as long as the others.
fn even_part(whole: Option<&Dim>, part: &Dim) -> Dim {
    match (whole.and_then(Dim::known), part.known()) {
        (Some(whole), Some(part)) if part > 0 && whole % part == 0 => Dim::Known(part),
        _ => Dim::Unknown,
    }
}

fn optional(known: &Known<'_>) -> Result<Vec<Fact>> {
    let ty = match (known.fact(0), known.attributes().get("type")) {
        (Some(_), _) => known.same(0).ty,
        (None, Some(Attribute::Type(ty))) => Some(ty.clone()),
        _ => None,
    };
    fact(ty.map(|ty| Type::Optional(Box::new(ty))))
}

fn get_element(known: &Known<'_>) -> Result<Vec<Fact>> {
    match known.ty(0) {
        Some(Type::Optional(of)) => fact(Some((**of).clone())),
        _ => Ok(vec![known.same(0)]),
    }
}

fn has_element(_: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![Fact::tensor(Some(ElementType::Bool), Some(Vec::new()))])
}
