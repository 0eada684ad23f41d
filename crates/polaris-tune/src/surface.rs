//! A quadratic surface through what was measured: few numbers, so it sees a slope where a forest
//! sees steps, and is sure of itself after a few dozen points.

/// The logarithm of a time as a polynomial of second degree in the parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Surface {
    means: Vec<f64>,
    scales: Vec<f64>,
    weights: Vec<f64>,
}

/// How strongly weights are drawn to zero, as if so many points said so. Without it there would be
/// more weights than points at first.
const RIDGE: f64 = 0.5;

impl Surface {
    /// Fits rows of equal length to a target for each. Without rows it always says 0.
    pub fn fit(rows: &[Vec<f32>], targets: &[f32]) -> Self {
        let count = rows.len().min(targets.len());
        let width = rows.first().map_or(0, Vec::len);
        let column = |place: usize| rows[..count].iter().map(move |row| f64::from(row[place]));
        let means: Vec<f64> =
            (0..width).map(|place| column(place).sum::<f64>() / count.max(1) as f64).collect();
        let scales = (0..width)
            .map(|place| {
                let squares: f64 = column(place).map(|value| (value - means[place]).powi(2)).sum();
                let deviation = (squares / count.max(1) as f64).sqrt();
                if deviation > 1e-9 { 1.0 / deviation } else { 0.0 }
            })
            .collect();
        let mut surface = Self { means, scales, weights: Vec::new() };
        let terms = 1 + 2 * width + width * width.saturating_sub(1) / 2;
        // The normal equations, with the ridge on all terms but the constant.
        let mut matrix = vec![0.0; terms * terms];
        let mut right = vec![0.0; terms];
        for (row, &target) in rows[..count].iter().zip(targets) {
            let row = surface.terms(row);
            for i in 0..terms {
                right[i] += row[i] * f64::from(target);
                for j in 0..=i {
                    matrix[i * terms + j] += row[i] * row[j];
                }
            }
        }
        for i in 0..terms {
            matrix[i * terms + i] += if i == 0 { 1e-9 } else { RIDGE };
        }
        surface.weights = solve(matrix, right);
        surface
    }

    /// What it expects for a row with the same features.
    pub fn predict(&self, row: &[f32]) -> f64 {
        self.terms(row).iter().zip(&self.weights).map(|(term, weight)| term * weight).sum()
    }

    /// One, the features, and their products in pairs and with themselves.
    fn terms(&self, row: &[f32]) -> Vec<f64> {
        let features = row.iter().zip(&self.means).zip(&self.scales);
        let features: Vec<f64> =
            features.map(|((&x, mean), scale)| (f64::from(x) - mean) * scale).collect();
        let mut terms = vec![1.0];
        terms.extend(&features);
        for (i, a) in features.iter().enumerate() {
            terms.extend(features[i..].iter().map(|b| a * b));
        }
        terms
    }
}

/// Solves a symmetric positive definite system, of which the lower half is given, by Cholesky.
fn solve(mut matrix: Vec<f64>, mut right: Vec<f64>) -> Vec<f64> {
    let count = right.len();
    for i in 0..count {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| matrix[i * count + k] * matrix[j * count + k]).sum();
            let left = matrix[i * count + j] - known;
            matrix[i * count + j] =
                if i == j { left.max(1e-12).sqrt() } else { left / matrix[j * count + j] };
        }
    }
    for i in 0..count {
        let known: f64 = (0..i).map(|k| matrix[i * count + k] * right[k]).sum();
        right[i] = (right[i] - known) / matrix[i * count + i];
    }
    for i in (0..count).rev() {
        let known: f64 = (i + 1..count).map(|k| matrix[k * count + i] * right[k]).sum();
        right[i] = (right[i] - known) / matrix[i * count + i];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parabola_is_found_again() {
        let value = |x: f32, y: f32| 2.0 + x - 0.5 * y + 0.25 * x * y + (x - 3.0).powi(2);
        let mut rows = Vec::new();
        let mut targets = Vec::new();
        for place in 0..200 {
            let (x, y) = ((place % 8) as f32, (place / 8 % 5) as f32);
            rows.push(vec![x, y, 7.0]);
            targets.push(value(x, y));
        }
        let surface = Surface::fit(&rows, &targets);
        for (row, target) in rows.iter().zip(&targets) {
            let error = surface.predict(row) - f64::from(*target);
            assert!(error.abs() < 0.1, "{row:?}: {error}");
        }
    }

    #[test]
    fn few_points_and_none_are_no_trouble() {
        assert_eq!(Surface::fit(&[], &[]).predict(&[]), 0.0);
        let surface = Surface::fit(&[vec![1.0, 2.0], vec![3.0, 1.0]], &[5.0, 5.0]);
        assert!((surface.predict(&[2.0, 2.0]) - 5.0).abs() < 0.5);
    }
}
