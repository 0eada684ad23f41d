//! LRN, LpNormalization, MeanVarianceNormalization.

use crate::operators::{Call, axis, one, walk};
use crate::{Error, Result, Tensor, Value};

/// Divides by what the squares of neighbouring channels say.
pub fn lrn(call: &Call<'_>) -> Result<Vec<Value>> {
    let attributes = call.attributes();
    let x = call.tensor(0)?;
    let [_, channels, rest @ ..] = x.shape() else {
        return Err(Error::operands("batch and channels were expected"));
    };
    let (channels, plane) = (*channels, rest.iter().product::<usize>());
    let size = attributes.int_or("size", 0)?;
    if size < 1 {
        return Err(Error::operands(format!("the size {size} should be positive")));
    }
    // More channels than there are make no difference.
    let before = usize::try_from((size - 1) / 2).unwrap_or(channels).min(channels);
    let after = usize::try_from((size - 1) - (size - 1) / 2).unwrap_or(channels).min(channels);
    let alpha = f64::from(attributes.float_or("alpha", 1e-4)?) / size as f64;
    let beta = f64::from(attributes.float_or("beta", 0.75)?);
    let bias = f64::from(attributes.float_or("bias", 1.0)?);
    let values = x.to_f64()?;
    let mut y = Vec::with_capacity(values.len());
    for image in values.chunks((channels * plane).max(1)) {
        for channel in 0..channels {
            let mut squares = vec![0.0; plane];
            for other in channel.saturating_sub(before)..(channel + after + 1).min(channels) {
                let source = &image[other * plane..(other + 1) * plane];
                for (sum, value) in squares.iter_mut().zip(source) {
                    *sum += value * value;
                }
            }
            let own = &image[channel * plane..(channel + 1) * plane];
            let scaled = own.iter().zip(squares);
            y.extend(scaled.map(|(value, sum)| value / (bias + alpha * sum).powf(beta)));
        }
    }
    Ok(one(Tensor::from_f64(x.element(), x.shape(), &y)?))
}

/// Divides by the norm along an axis; where that is zero, so is the result.
pub fn lp_normalization(call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let along = axis(call.attributes().int_or("axis", -1)?, x.rank())?;
    let p = call.attributes().int_or("p", 2)?;
    if p < 1 {
        return Err(Error::operands(format!("there is no norm of {p}")));
    }
    let p = p as f64;
    let length = x.shape().get(along).copied().unwrap_or(1);
    let inner: usize = x.shape().iter().skip(along + 1).product();
    let mut values = x.to_f64()?;
    for block in values.chunks_mut((length * inner).max(1)) {
        let mut norms = vec![0.0; inner];
        for row in block.chunks(inner) {
            for (norm, value) in norms.iter_mut().zip(row) {
                *norm += value.abs().powf(p);
            }
        }
        for row in block.chunks_mut(inner) {
            for (norm, value) in norms.iter().zip(row) {
                *value = if *norm == 0.0 { 0.0 } else { *value / norm.powf(1.0 / p) };
            }
        }
    }
    Ok(one(Tensor::from_f64(x.element(), x.shape(), &values)?))
}

/// Subtracts the mean over axes and divides by the deviation.
pub fn mean_variance_normalization(call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let axes = call.attributes().ints("axes")?.unwrap_or(&[0, 2, 3]);
    let mut reduced = x.shape().to_vec();
    for &at in axes {
        let at = axis(at, x.rank())?;
        if let Some(length) = reduced.get_mut(at) {
            *length = 1;
        }
    }
    let mut values = x.to_f64()?;
    if values.is_empty() {
        return Ok(one(x.clone()));
    }
    let places = walk::broadcast_places(&reduced, x.shape())?;
    let rows: usize = reduced.iter().product();
    let count = (values.len() / rows) as f64;
    let mut means = vec![0.0; rows];
    for (&row, value) in places.iter().zip(&values) {
        means[row] += value / count;
    }
    let mut variances = vec![0.0; rows];
    for (&row, value) in places.iter().zip(&mut values) {
        *value -= means[row];
        variances[row] += *value * *value / count;
    }
    for (&row, value) in places.iter().zip(&mut values) {
        // As the operator's definition has it: nothing is divided by zero.
        *value /= variances[row].sqrt() + 1e-9;
    }
    Ok(one(Tensor::from_f64(x.element(), x.shape(), &values)?))
}
