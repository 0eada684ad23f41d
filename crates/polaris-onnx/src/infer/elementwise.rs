//! Operators on each element by itself, and others whose results are like their operands.

use super::{Fact, Known, Rule, arithmetic, dims};
use crate::{Dim, ElementType, Result};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Abs", same),
    ("Acos", same),
    ("Acosh", same),
    ("Add", |known| combined(known, arithmetic::add)),
    ("And", logical),
    ("Asin", same),
    ("Asinh", same),
    ("Atan", same),
    ("Atanh", same),
    ("BatchNormalization", batch_normalization),
    ("BitCast", cast),
    ("BitShift", binary),
    ("BitwiseAnd", binary),
    ("BitwiseNot", same),
    ("BitwiseOr", binary),
    ("BitwiseXor", binary),
    ("Cast", cast),
    ("CastLike", cast_like),
    ("Ceil", same),
    ("Celu", same),
    ("Clip", same),
    ("Cos", same),
    ("Cosh", same),
    ("CumProd", same),
    ("CumSum", same),
    ("Div", |known| combined(known, arithmetic::divide)),
    ("Dropout", dropout),
    ("Elu", same),
    ("Equal", equal),
    ("Erf", same),
    ("Exp", same),
    ("Floor", same),
    ("Gelu", same),
    ("Greater", logical),
    ("GreaterOrEqual", logical),
    ("GroupNormalization", same),
    ("HardSigmoid", same),
    ("HardSwish", same),
    ("Hardmax", same),
    ("Identity", identity),
    ("InstanceNormalization", same),
    ("IsInf", truth),
    ("IsNaN", truth),
    ("LRN", same),
    ("LayerNormalization", layer_normalization),
    ("LeakyRelu", same),
    ("Less", logical),
    ("LessOrEqual", logical),
    ("Log", same),
    ("LogSoftmax", same),
    ("LpNormalization", same),
    ("Max", variadic),
    ("Mean", variadic),
    ("MeanVarianceNormalization", same),
    ("Min", variadic),
    ("Mish", same),
    ("Mod", binary),
    ("Mul", |known| combined(known, arithmetic::multiply)),
    ("Neg", same),
    ("Not", same),
    ("Or", logical),
    ("PRelu", same),
    ("Pow", pow),
    ("RMSNormalization", rms_normalization),
    ("Reciprocal", same),
    ("Relu", same),
    ("Round", same),
    ("Selu", same),
    ("Shrink", same),
    ("Sigmoid", same),
    ("Sign", same),
    ("Sin", same),
    ("Sinh", same),
    ("Softmax", same),
    ("Softplus", same),
    ("Softsign", same),
    ("Sqrt", same),
    ("Sub", |known| combined(known, arithmetic::subtract)),
    ("Sum", variadic),
    ("Swish", same),
    ("Tan", same),
    ("Tanh", same),
    ("ThresholdedRelu", same),
    ("Where", where_),
    ("Xor", logical),
];

/// A result like the first operand.
pub fn same(known: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![known.same(0)])
}

fn identity(known: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![known.fact(0).cloned().unwrap_or_default()])
}

/// The shape where operands meet, if all of theirs are known.
pub fn meeting(known: &Known<'_>, operands: &[usize]) -> Result<Option<Vec<Dim>>> {
    let shapes: Option<Vec<Vec<Dim>>> = operands.iter().map(|&index| known.shape(index)).collect();
    let Some(shapes) = shapes else { return Ok(None) };
    let shapes: Vec<&[Dim]> = shapes.iter().map(Vec::as_slice).collect();
    dims::broadcast(&shapes).map(Some)
}

/// The type that operands share; none if they differ.
pub fn shared_element(known: &Known<'_>, operands: &[usize]) -> Option<ElementType> {
    let mut elements = operands.iter().filter_map(|&index| known.element(index));
    let first = elements.next()?;
    elements.all(|element| element == first).then_some(first)
}

fn both(known: &Known<'_>) -> Result<Fact> {
    Ok(Fact::tensor(shared_element(known, &[0, 1]), meeting(known, &[0, 1])?))
}

fn binary(known: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![both(known)?])
}

fn combined(known: &Known<'_>, combine: fn(&Dim, &Dim) -> Dim) -> Result<Vec<Fact>> {
    arithmetic::with(both(known)?, arithmetic::combine(known, combine))
}

fn pow(known: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![Fact::tensor(known.element(0), meeting(known, &[0, 1])?)])
}

fn logical(known: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![Fact::tensor(Some(ElementType::Bool), meeting(known, &[0, 1])?)])
}

fn equal(known: &Known<'_>) -> Result<Vec<Fact>> {
    let fact = Fact::tensor(Some(ElementType::Bool), meeting(known, &[0, 1])?);
    arithmetic::with(fact, arithmetic::equals(known))
}

fn truth(known: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![Fact::tensor(Some(ElementType::Bool), known.shape(0))])
}

fn variadic(known: &Known<'_>) -> Result<Vec<Fact>> {
    let operands: Vec<usize> =
        (0..known.inputs.len()).filter(|&index| known.fact(index).is_some()).collect();
    Ok(vec![Fact::tensor(shared_element(known, &operands), meeting(known, &operands)?)])
}

fn where_(known: &Known<'_>) -> Result<Vec<Fact>> {
    let fact = Fact::tensor(shared_element(known, &[1, 2]), meeting(known, &[0, 1, 2])?);
    arithmetic::with(fact, arithmetic::choose(known))
}

fn cast(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = known.element_named("to")?;
    let fact = Fact::tensor(element, known.shape(0));
    arithmetic::with(fact, arithmetic::converted(known, element))
}

fn cast_like(known: &Known<'_>) -> Result<Vec<Fact>> {
    let element = known.element(1);
    let fact = Fact::tensor(element, known.shape(0));
    arithmetic::with(fact, arithmetic::converted(known, element))
}

fn dropout(known: &Known<'_>) -> Result<Vec<Fact>> {
    let mask = if known.version() < 10 { known.element(0) } else { Some(ElementType::Bool) };
    Ok(vec![known.same(0), Fact::tensor(mask, known.shape(0))])
}

fn batch_normalization(known: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![known.same(0), known.same(3), known.same(4)])
}

/// The result, and what it was normalised by, with axes of length 1 where it was.
fn layer_normalization(known: &Known<'_>) -> Result<Vec<Fact>> {
    let mut shape = known.shape(0);
    if let Some(shape) = &mut shape {
        let at = known.axis(-1, shape.len())?;
        shape.iter_mut().skip(at).for_each(|length| *length = Dim::Known(1));
    }
    let element = match known.attributes().int("stash_type")? {
        None => Some(ElementType::F32),
        Some(_) => known.element_named("stash_type")?,
    };
    let by = Fact::tensor(element, shape);
    Ok(vec![known.same(0), by.clone(), by])
}

/// The type of the result is the scale's.
fn rms_normalization(known: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![Fact::tensor(known.element(1), known.shape(0))])
}
