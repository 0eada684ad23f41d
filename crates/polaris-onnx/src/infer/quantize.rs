//! Quantisation and dequantisation.

use super::{Fact, Known, Rule};
use crate::{ElementType, Result};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("DequantizeLinear", dequantize),
    ("DynamicQuantizeLinear", dynamic),
    ("QuantizeLinear", quantize),
];

/// The type that `output_dtype` names; 0 names none.
fn output_type(known: &Known<'_>) -> Result<Option<ElementType>> {
    known.element_named("output_dtype")
}

fn quantize(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = match (output_type(known)?, known.fact(2)) {
        (_, Some(_)) => known.element(2),
        (Some(element), None) => Some(element),
        (None, None) => Some(ElementType::U8),
    };
    Ok(vec![Fact::tensor(element, known.shape(0))])
}

fn dequantize(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = output_type(known)?.or_else(|| known.element(1));
    Ok(vec![Fact::tensor(element, known.shape(0))])
}

fn dynamic(known: &Known<'_>) -> Result<Vec<Fact>> {
    let scalar = |element| Fact::tensor(Some(element), Some(Vec::new()));
    let values = Fact::tensor(Some(ElementType::U8), known.shape(0));
    Ok(vec![values, scalar(ElementType::F32), scalar(ElementType::U8)])
}
