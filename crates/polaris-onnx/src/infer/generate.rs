//! Tensors made from a shape, a range or nothing: constants, random numbers, windows.

use super::{Fact, Known, Rule, dims};
use crate::{Attribute, Dim, ElementType, Error, Result, Tensor};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Bernoulli", like),
    ("BlackmanWindow", window),
    ("Constant", constant),
    ("ConstantOfShape", constant_of_shape),
    ("EyeLike", like),
    ("HammingWindow", window),
    ("HannWindow", window),
    ("MelWeightMatrix", mel_weight_matrix),
    ("Multinomial", multinomial),
    ("RandomNormal", random),
    ("RandomNormalLike", like),
    ("RandomUniform", random),
    ("RandomUniformLike", like),
    ("Range", range),
];

fn constant(known: &Known<'_>) -> Result<Vec<Fact>> {
    let mut value = None;
    for (name, attribute) in known.attributes().iter() {
        let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).ok();
        let made = match (name, attribute) {
            ("value" | "sparse_value", Attribute::Tensor(tensor)) => Some(tensor.clone()),
            ("value_float", Attribute::Float(number)) => Some(Tensor::scalar(*number)),
            ("value_int", Attribute::Int(number)) => Some(Tensor::scalar(*number)),
            ("value_floats", Attribute::Floats(list)) => {
                Tensor::new(&[list.len()], list.clone()).ok()
            }
            ("value_ints", Attribute::Ints(list)) => Tensor::new(&[list.len()], list.clone()).ok(),
            ("value_string", Attribute::String(bytes)) => {
                text(bytes).and_then(|text| Tensor::strings(&[], vec![text]).ok())
            }
            ("value_strings", Attribute::Strings(list)) => {
                let list: Option<Vec<String>> = list.iter().map(text).collect();
                list.and_then(|list| Tensor::strings(&[list.len()], list).ok())
            }
            _ => None,
        };
        value = value.or(made);
    }
    Ok(vec![value.map_or_else(Fact::default, Fact::constant)])
}

fn constant_of_shape(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = known.attributes().tensor("value")?.map_or(ElementType::F32, Tensor::element);
    let lengths = known.entries(0);
    let lengths = lengths.map(|list| list.iter().map(dims::length).collect::<Result<Vec<Dim>>>());
    Ok(vec![Fact::tensor(Some(element), lengths.transpose()?)])
}

/// The shape of an operand, and the type that an attribute names, or the operand's.
fn like(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = match known.attributes().int("dtype")? {
        Some(_) => known.element_named("dtype")?,
        None => known.element(0),
    };
    Ok(vec![Fact::tensor(element, known.shape(0))])
}

/// The type that an attribute names, or what stands for it.
fn named_or(known: &Known<'_>, name: &str, default: ElementType) -> Result<Option<ElementType>> {
    match known.attributes().int(name)? {
        Some(_) => known.element_named(name),
        None => Ok(Some(default)),
    }
}

fn random(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = named_or(known, "dtype", ElementType::F32)?;
    let lengths = known.attributes().ints("shape")?;
    let lengths = lengths.map(|list| {
        let lengths = list.iter().map(|&length| dims::length(&dims::from_signed(length)));
        lengths.collect::<Result<Vec<Dim>>>()
    });
    Ok(vec![Fact::tensor(element, lengths.transpose()?)])
}

fn multinomial(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = named_or(known, "dtype", ElementType::I32)?;
    let samples = dims::from_signed(known.attributes().int_or("sample_size", 1)?);
    let samples = dims::length(&samples)?;
    let batch = known.shape(0).filter(|shape| shape.len() == 2);
    let batch = batch.and_then(|shape| shape.into_iter().next()).unwrap_or(Dim::Unknown);
    Ok(vec![Fact::tensor(element, Some(vec![batch, samples]))])
}

fn window(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = named_or(known, "output_datatype", ElementType::F32)?;
    Ok(vec![Fact::tensor(element, Some(vec![dims::length(&known.entry(0))?]))])
}

fn mel_weight_matrix(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = named_or(known, "output_datatype", ElementType::F32)?;
    let bins = dims::map(&dims::length(&known.entry(1))?, |length| Ok(length / 2 + 1))?;
    Ok(vec![Fact::tensor(element, Some(vec![bins, dims::length(&known.entry(0))?]))])
}

fn range(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = [0, 1, 2].into_iter().find_map(|index| known.element(index));
    Ok(vec![Fact::tensor(element, Some(vec![steps(known)?]))])
}

/// How many elements a range has.
fn steps(known: &Known<'_>) -> Result<Dim> {
    let (start, limit, step) = (known.entry(0), known.entry(1), known.entry(2));
    let numbers = (dims::signed(&start), dims::signed(&limit), dims::signed(&step));
    if let (Some(start), Some(limit), Some(step)) = numbers {
        if step == 0 {
            return Err(Error::operands("a range needs a step other than 0"));
        }
        let (distance, step) = (i128::from(limit) - i128::from(start), i128::from(step));
        let count = (distance + step - step.signum()) / step;
        return Ok(usize::try_from(count.max(0)).map_or(Dim::Unknown, Dim::Known));
    }
    Ok(match (numbers.0, limit, numbers.2) {
        (Some(0), limit @ Dim::Named(_), Some(1)) => dims::as_length(&limit),
        _ => float_steps(known).unwrap_or(Dim::Unknown),
    })
}

/// How many elements a range of fractions has.
fn float_steps(known: &Known<'_>) -> Option<Dim> {
    let number = |index: usize| match known.floats(index)?.as_slice() {
        &[number] => Some(number),
        _ => None,
    };
    let count = ((number(1)? - number(0)?) / number(2)?).ceil();
    (count < 1e15).then(|| Dim::Known(count.max(0.0) as usize))
}
