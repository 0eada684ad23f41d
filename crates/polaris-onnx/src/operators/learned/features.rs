//! Features picked, scaled and replaced.

use crate::limits::checked_elements;
use crate::operators::indexing::take;
use crate::operators::shape::join::join;
use crate::operators::shape::length;
use crate::operators::{Call, one};
use crate::room::filled;
use crate::{ElementType, Error, Result, Tensor, Value};

pub fn array_feature_extractor(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, indices) = (call.tensor(0)?, call.tensor(1)?.to_i64()?);
    let picked = take(data, data.rank().saturating_sub(1), &indices)?;
    // A row becomes a matrix of one row.
    let picked = if data.rank() == 1 { picked.reshaped(&[1, indices.len()])? } else { picked };
    Ok(one(picked))
}

pub fn binarizer(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let threshold = f64::from(call.attributes().float_or("threshold", 0.0)?);
    let above = data.to_f64()?.into_iter().map(|x| f64::from(u8::from(x > threshold)));
    Ok(one(Tensor::from_f64(data.element(), data.shape(), &above.collect::<Vec<f64>>())?))
}

/// One number for each feature, from a list of as many or of one for all.
fn for_each<T: Copy>(list: &[T], features: usize, name: &str) -> Result<impl Fn(usize) -> T> {
    if list.is_empty() || (list.len() != 1 && list.len() != features) {
        let found = list.len();
        return Err(Error::operands(format!(
            "{found} numbers in `{name}` for {features} features"
        )));
    }
    Ok(move |feature: usize| if list.len() == 1 { list[0] } else { list[feature] })
}

/// The number of features: the last axis.
fn features(data: &Tensor) -> usize {
    data.shape().last().copied().unwrap_or(1)
}

pub fn scaler(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, attributes) = (call.tensor(0)?, call.attributes());
    let count = features(data);
    let offset = for_each(attributes.floats("offset")?.unwrap_or(&[0.0]), count, "offset")?;
    let scale = for_each(attributes.floats("scale")?.unwrap_or(&[1.0]), count, "scale")?;
    let mut values = data.to_f64()?;
    for row in values.chunks_exact_mut(count.max(1)) {
        for (feature, value) in row.iter_mut().enumerate() {
            *value = (*value - f64::from(offset(feature))) * f64::from(scale(feature));
        }
    }
    Ok(one(Tensor::from_f64(ElementType::F32, data.shape(), &values)?))
}

pub fn normalizer(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let norm: fn(&[f64]) -> f64 = match call.attributes().string_or("norm", "MAX")? {
        "MAX" => |row| row.iter().fold(0.0, |most: f64, x| most.max(x.abs())),
        "L1" => |row| row.iter().map(|x| x.abs()).sum(),
        "L2" => |row| row.iter().map(|x| x * x).sum::<f64>().sqrt(),
        other => return Err(Error::unsupported(format!("the norm `{other}`"))),
    };
    let mut values = data.to_f64()?;
    for row in values.chunks_exact_mut(features(data).max(1)) {
        let norm = norm(row);
        if norm != 0.0 {
            row.iter_mut().for_each(|x| *x /= norm);
        }
    }
    Ok(one(Tensor::from_f64(ElementType::F32, data.shape(), &values)?))
}

pub fn imputer(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, attributes) = (call.tensor(0)?, call.attributes());
    let (count, element) = (features(data), data.element());
    if element.is_float() {
        let new = attributes.floats("imputed_value_floats")?.unwrap_or(&[]);
        let new = for_each(new, count, "imputed_value_floats")?;
        let old = f64::from(attributes.float_or("replaced_value_float", 0.0)?);
        let mut values = data.to_f64()?;
        for row in values.chunks_exact_mut(count.max(1)) {
            for (feature, value) in row.iter_mut().enumerate() {
                if *value == old || (value.is_nan() && old.is_nan()) {
                    *value = f64::from(new(feature));
                }
            }
        }
        return Ok(one(Tensor::from_f64(element, data.shape(), &values)?));
    }
    let new = attributes.ints("imputed_value_int64s")?.unwrap_or(&[]);
    let new = for_each(new, count, "imputed_value_int64s")?;
    let old = i128::from(attributes.int_or("replaced_value_int64", 0)?);
    let mut values = data.to_integers()?;
    for row in values.chunks_exact_mut(count.max(1)) {
        for (feature, value) in row.iter_mut().enumerate().filter(|(_, value)| **value == old) {
            *value = i128::from(new(feature));
        }
    }
    Ok(one(Tensor::from_integers(element, data.shape(), &values)?))
}

pub fn feature_vectorizer(call: &Call<'_>) -> Result<Vec<Value>> {
    let widths = call.attributes().ints("inputdimensions")?.unwrap_or(&[]);
    let mut parts = Vec::new();
    for (index, tensor) in call.tensors()?.into_iter().enumerate() {
        let (rows, own) = match *tensor.shape() {
            [own] => (1, own),
            [rows, own] => (rows, own),
            ref other => {
                return Err(Error::operands(format!("{other:?} are not rows of features")));
            }
        };
        let width = widths.get(index).map_or(Ok(own), |&width| length(width))?;
        // Rows are cut off or filled up with zeros to the width that is requested.
        let shape = [rows, width];
        let mut values = filled(0.0, checked_elements(ElementType::F64, &shape)?)?;
        let old = tensor.to_f64()?;
        if own > 0 && width > 0 {
            for (new, old) in values.chunks_exact_mut(width).zip(old.chunks_exact(own)) {
                new.iter_mut().zip(old).for_each(|(new, old)| *new = *old);
            }
        }
        parts.push(Tensor::from_f64(ElementType::F32, &shape, &values)?);
    }
    Ok(one(join(&parts.iter().collect::<Vec<&Tensor>>(), 1)?))
}
