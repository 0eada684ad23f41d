//! LinearClassifier, LinearRegressor.

use super::scores::{Classes, Transform, best};
use crate::limits::checked_elements;
use crate::operators::shape::length;
use crate::operators::{Call, one};
use crate::{ElementType, Error, Result, Tensor, Value};

/// A row of scores for each sample, in the order of the samples.
fn scores(call: &Call<'_>, count: usize) -> Result<(usize, Vec<f64>)> {
    let (data, attributes) = (call.tensor(0)?, call.attributes());
    let (samples, features) = rows(data)?;
    let coefficients = attributes.floats("coefficients")?.unwrap_or(&[]);
    let intercepts = attributes.floats("intercepts")?.unwrap_or(&[]);
    if count.checked_mul(features) != Some(coefficients.len())
        || (!intercepts.is_empty() && intercepts.len() != count)
    {
        let (weights, added) = (coefficients.len(), intercepts.len());
        return Err(Error::operands(format!(
            "{weights} coefficients and {added} intercepts for {count} scores of {features} features"
        )));
    }
    checked_elements(ElementType::F64, &[samples, count])?;
    let values = data.to_f64()?;
    let mut results = Vec::with_capacity(samples * count);
    for sample in 0..samples {
        let row = &values[sample * features..(sample + 1) * features];
        for target in 0..count {
            let weights = &coefficients[target * features..(target + 1) * features];
            let products = row.iter().zip(weights).map(|(&x, &weight)| x * f64::from(weight));
            let added = intercepts.get(target).map_or(0.0, |&added| f64::from(added));
            results.push(products.sum::<f64>() + added);
        }
    }
    Ok((samples, results))
}

/// How many samples there are, and features of each.
pub fn rows(data: &Tensor) -> Result<(usize, usize)> {
    match *data.shape() {
        [features] => Ok((1, features)),
        [samples, features] => Ok((samples, features)),
        ref other => Err(Error::operands(format!("{other:?} are not rows of features"))),
    }
}

pub fn linear_regressor(call: &Call<'_>) -> Result<Vec<Value>> {
    let targets = length(call.attributes().int_or("targets", 1)?)?;
    let transform = Transform::named(call.attributes().string_or("post_transform", "NONE")?)?;
    let (samples, mut results) = scores(call, targets)?;
    results.chunks_exact_mut(targets.max(1)).for_each(|row| transform.apply(row));
    Ok(one(Tensor::from_f64(ElementType::F32, &[samples, targets], &results)?))
}

pub fn linear_classifier(call: &Call<'_>) -> Result<Vec<Value>> {
    let attributes = call.attributes();
    let strings = attributes.strings("classlabels_strings")?;
    let classes = Classes::new(attributes.ints("classlabels_ints")?, strings)?;
    let transform = Transform::named(attributes.string_or("post_transform", "NONE")?)?;
    let (_, features) = rows(call.tensor(0)?)?;
    let coefficients = attributes.floats("coefficients")?.map_or(0, <[f32]>::len);
    let count = coefficients.checked_div(features).filter(|&count| count > 0);
    let count = count.ok_or_else(|| Error::operands("there are too few coefficients"))?;
    let (samples, single) = scores(call, count)?;
    // One score for two classes is that of the second.
    let (count, mut results) = if count == 1 && classes.count() == 2 {
        (2, single.iter().flat_map(|&score| [-score, score]).collect())
    } else {
        (count, single)
    };
    if count != 1 && count != classes.count() {
        let labels = classes.count();
        return Err(Error::operands(format!("{count} scores for {labels} classes")));
    }
    let threshold = if transform == Transform::None { 0.0 } else { 0.5 };
    let mut places = Vec::with_capacity(samples);
    for row in results.chunks_exact_mut(count) {
        transform.apply(row);
        places.push(if count == 1 { (row[0] >= threshold).then_some(0) } else { Some(best(row)) });
    }
    let mut outputs = one(classes.labels(&places)?);
    let scores = Tensor::from_f64(ElementType::F32, &[samples, count], &results)?;
    outputs.push(Value::Tensor(scores));
    Ok(outputs)
}
