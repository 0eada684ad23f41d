//! Normalisation by definition, in `f64`.

use super::NormKind;

/// A row without weight and bias, and the factor that its differences were multiplied by.
fn normalised(kind: NormKind, epsilon: f64, row: &[f64]) -> (Vec<f64>, f64) {
    let count = row.len() as f64;
    let mean = match kind {
        NormKind::Layer => row.iter().sum::<f64>() / count,
        NormKind::Rms => 0.0,
    };
    let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let deviation = (variance + epsilon).sqrt();
    (row.iter().map(|x| (x - mean) / deviation).collect(), 1.0 / deviation)
}

/// Rows of this length, times weight, plus bias.
pub fn norm(
    kind: NormKind,
    epsilon: f64,
    x: &[f64],
    length: usize,
    weight: Option<&[f64]>,
    bias: Option<&[f64]>,
) -> Vec<f64> {
    let finish = |(i, value): (usize, f64)| {
        let value = value * weight.map_or(1.0, |weight| weight[i]);
        bias.map_or(value, |bias| value + bias[i])
    };
    let rows = x.chunks(length.max(1));
    rows.flat_map(|row| normalised(kind, epsilon, row).0.into_iter().enumerate().map(finish))
        .collect()
}

/// By the chain rule: the part of the gradient that changes the mean, or the deviation, of a row
/// changes nothing.
pub fn gradient(
    kind: NormKind,
    epsilon: f64,
    x: &[f64],
    g: &[f64],
    length: usize,
    weight: Option<&[f64]>,
) -> Vec<f64> {
    let mut result = Vec::with_capacity(x.len());
    for (x, g) in x.chunks(length.max(1)).zip(g.chunks(length.max(1))) {
        let (normal, factor) = normalised(kind, epsilon, x);
        let inner = |(i, &g): (usize, &f64)| g * weight.map_or(1.0, |weight| weight[i]);
        let inner: Vec<f64> = g.iter().enumerate().map(inner).collect();
        let count = x.len() as f64;
        let along_mean = match kind {
            NormKind::Layer => inner.iter().sum::<f64>() / count,
            NormKind::Rms => 0.0,
        };
        let along_x = inner.iter().zip(&normal).map(|(g, n)| g * n).sum::<f64>() / count;
        let pairs = inner.iter().zip(&normal);
        result.extend(pairs.map(|(g, n)| factor * (g - along_mean - n * along_x)));
    }
    result
}

/// The sum over all rows of the gradient times the normalised row.
pub fn weight_gradient(
    kind: NormKind,
    epsilon: f64,
    x: &[f64],
    g: &[f64],
    length: usize,
) -> Vec<f64> {
    let mut sums = vec![0.0; length];
    for (x, g) in x.chunks(length.max(1)).zip(g.chunks(length.max(1))) {
        let (normal, _) = normalised(kind, epsilon, x);
        for (sum, (g, n)) in sums.iter_mut().zip(g.iter().zip(normal)) {
            *sum += g * n;
        }
    }
    sums
}
