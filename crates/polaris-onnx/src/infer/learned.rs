//! Classical machine learning, as far as shapes follow from shapes; steps of training.

use super::elementwise::same;
use super::{Fact, Known, Rule, dims};
use crate::{Dim, ElementType, Result};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("ArrayFeatureExtractor", array_feature_extractor),
    ("Binarizer", same),
    ("CategoryMapper", category_mapper),
    ("Imputer", same),
    ("LabelEncoder", label_encoder),
    ("LinearRegressor", linear_regressor),
    ("Normalizer", floats),
    ("OneHotEncoder", one_hot_encoder),
    ("Scaler", floats),
    ("TreeEnsemble", tree_ensemble),
    ("TreeEnsembleRegressor", tree_ensemble_regressor),
];

pub(super) const TRAINING: &[(&str, Rule)] =
    &[("Adagrad", optimizer), ("Adam", optimizer), ("Momentum", optimizer)];

fn floats(known: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![Fact::tensor(Some(ElementType::F32), known.shape(0))])
}

/// What is picked from each row; a single row becomes a matrix of one.
fn array_feature_extractor(known: &Known<'_>) -> Result<Vec<Fact>> {
    let count = known.shape(1).map(|shape| dims::product(&shape)).transpose()?;
    let mut shape = known.shape(0).filter(|shape| !shape.is_empty());
    if let Some(shape) = &mut shape {
        shape.pop();
        if shape.is_empty() {
            shape.push(Dim::Known(1));
        }
        shape.push(count.unwrap_or(Dim::Unknown));
    }
    Ok(vec![Fact::tensor(known.element(0), shape)])
}

/// Names become numbers and numbers names.
fn category_mapper(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = known.element(0).map(|element| match element {
        ElementType::String => ElementType::I64,
        _ => ElementType::String,
    });
    Ok(vec![Fact::tensor(element, known.shape(0))])
}

/// The type and the number of a list among the attributes, in one of its forms.
fn list(known: &Known<'_>, name: &str) -> Result<Option<(ElementType, usize)>> {
    let attributes = known.attributes();
    if let Some(tensor) = attributes.tensor(&format!("{name}_tensor"))? {
        return Ok(Some((tensor.element(), tensor.elements())));
    }
    if let Some(strings) = attributes.strings(&format!("{name}_strings"))? {
        return Ok(Some((ElementType::String, strings.len())));
    }
    if let Some(integers) = attributes.ints(&format!("{name}_int64s"))? {
        return Ok(Some((ElementType::I64, integers.len())));
    }
    let floats = attributes.floats(&format!("{name}_floats"))?;
    Ok(floats.map(|floats| (ElementType::F32, floats.len())))
}

fn label_encoder(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = list(known, "values")?.map(|(element, _)| element);
    Ok(vec![Fact::tensor(element, known.shape(0))])
}

fn one_hot_encoder(known: &Known<'_>) -> Result<Vec<Fact>> {
    let count = list(known, "cats")?.map_or(Dim::Unknown, |(_, count)| Dim::Known(count));
    let mut shape = known.shape(0);
    if let Some(shape) = &mut shape {
        shape.push(count);
    }
    Ok(vec![Fact::tensor(Some(ElementType::F32), shape)])
}

/// So many numbers for each row of the operand.
fn rows(known: &Known<'_>, element: Option<ElementType>, width: Option<i64>) -> Result<Vec<Fact>> {
    let width = width.map_or(Ok(Dim::Unknown), |width| dims::length(&dims::from_signed(width)))?;
    let shape = match known.shape(0).as_deref() {
        Some([_]) => Some(vec![Dim::Known(1), width]),
        Some([rows, _]) => Some(vec![rows.clone(), width]),
        _ => None,
    };
    Ok(vec![Fact::tensor(element, shape)])
}

fn linear_regressor(known: &Known<'_>) -> Result<Vec<Fact>> {
    rows(known, Some(ElementType::F32), Some(known.attributes().int_or("targets", 1)?))
}

fn tree_ensemble(known: &Known<'_>) -> Result<Vec<Fact>> {
    rows(known, known.element(0), known.attributes().int("n_targets")?)
}

fn tree_ensemble_regressor(known: &Known<'_>) -> Result<Vec<Fact>> {
    rows(known, Some(ElementType::F32), known.attributes().int("n_targets")?)
}

/// The operands after the rate and the count are tensors, their gradients, and what is kept of each;
/// the results are all but the gradients.
fn optimizer(known: &Known<'_>) -> Result<Vec<Fact>> {
    let kinds = if known.node.operator == "Adam" { 4 } else { 3 };
    let count = known.inputs.len().saturating_sub(2) / kinds;
    let kept = (0..kinds).filter(|&kind| kind != 1);
    let places = kept.flat_map(|kind| (0..count).map(move |index| 2 + kind * count + index));
    Ok(places.map(|place| known.same(place)).collect())
}
