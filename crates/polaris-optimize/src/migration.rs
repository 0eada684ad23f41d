//! Scale migration: what is hard about activations becomes a part of the weights.
//!
//! `W x = (W S)(S^-1 x)` for any scales `S` of columns. Where inputs of a few columns are large, dividing them and
//! multiplying the weights makes both fit for integers (Xiao et al. 2022, SmoothQuant). The divisors are usually put into the
//! norm or the layer before.

use crate::{Error, Result};

/// The divisor of the inputs of each column, from the largest magnitudes of inputs and weights: `inputs^strength /
/// weights^(1 - strength)`. A column without either keeps its scale. Several matrices with the same inputs share divisors.
///
/// # Errors
/// If there are not as many of both, some are not finite, or the strength is none from 0 to 1.
pub fn divisors(inputs: &[f32], weights: &[f32], strength: f32) -> Result<Vec<f32>> {
    if inputs.len() != weights.len() {
        return Err(Error::Width { found: weights.len(), expected: inputs.len() });
    }
    if !(0.0..=1.0).contains(&strength) {
        return Err(Error::Strength { strength });
    }
    crate::integer::check_matrix(inputs, 1, inputs.len())?;
    crate::integer::check_matrix(weights, 1, weights.len())?;
    let divisor = |(&input, &weight): (&f32, &f32)| {
        let divisor = input.abs().powf(strength) / weight.abs().powf(1.0 - strength);
        match input != 0.0 && weight != 0.0 && divisor.is_normal() {
            true => divisor,
            false => 1.0,
        }
    };
    Ok(inputs.iter().zip(weights).map(divisor).collect())
}

/// The largest magnitude of each column; added to those that are there.
pub fn extremes(rows: &[f32], largest: &mut [f32]) {
    for row in rows.chunks_exact(largest.len().max(1)) {
        largest.iter_mut().zip(row).for_each(|(most, x)| *most = most.max(x.abs()));
    }
}

/// Multiplies weights by the divisors of their columns.
pub fn multiply(weights: &mut [f32], divisors: &[f32]) {
    for row in weights.chunks_exact_mut(divisors.len().max(1)) {
        row.iter_mut().zip(divisors).for_each(|(x, divisor)| *x *= divisor);
    }
}

/// Divides inputs by the divisors of their columns.
pub fn divide(inputs: &mut [f32], divisors: &[f32]) {
    for row in inputs.chunks_exact_mut(divisors.len().max(1)) {
        row.iter_mut().zip(divisors).for_each(|(x, divisor)| *x /= divisor);
    }
}
