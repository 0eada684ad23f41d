//! Strings.

use super::elementwise::meeting;
use super::{Fact, Known, Rule, dims};
use crate::{Dim, ElementType, Result};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("RegexFullMatch", regex_full_match),
    ("StringConcat", string_concat),
    ("StringNormalizer", string_normalizer),
    ("StringSplit", string_split),
    ("TfIdfVectorizer", tf_idf_vectorizer),
];

fn regex_full_match(known: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![Fact::tensor(Some(ElementType::Bool), known.shape(0))])
}

fn string_concat(known: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![Fact::tensor(Some(ElementType::String), meeting(known, &[0, 1])?)])
}

/// Some strings may be left out.
fn string_normalizer(known: &Known<'_>) -> Result<Vec<Fact>> {
    let mut shape = known.shape(0);
    if let Some(last) = shape.as_mut().and_then(|shape| shape.last_mut()) {
        *last = Dim::Unknown;
    }
    Ok(vec![Fact::tensor(Some(ElementType::String), shape)])
}

fn string_split(known: &Known<'_>) -> Result<Vec<Fact>> {
    let counts = known.shape(0);
    let mut parts = counts.clone();
    if let Some(shape) = &mut parts {
        shape.push(Dim::Unknown);
    }
    let parts = Fact::tensor(Some(ElementType::String), parts);
    Ok(vec![parts, Fact::tensor(Some(ElementType::I64), counts)])
}

/// As many numbers as the largest place of a pattern says, for each row.
fn tf_idf_vectorizer(known: &Known<'_>) -> Result<Vec<Fact>> {
    let places = known.attributes().ints("ngram_indexes")?;
    let width = places.and_then(|places| places.iter().max()?.checked_add(1));
    let width = dims::as_length(&width.map_or(Dim::Unknown, dims::from_signed));
    let shape = match known.shape(0).as_deref() {
        Some([_]) => Some(vec![width]),
        Some([rows, _]) => Some(vec![rows.clone(), width]),
        _ => None,
    };
    Ok(vec![Fact::tensor(Some(ElementType::F32), shape)])
}
