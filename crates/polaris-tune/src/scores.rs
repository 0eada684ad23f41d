//! Scores of predictions: of the times, of their order, and the regret of trusting them.

/// The part of the variance that predictions explain: 1 for perfect ones, 0 for the mean, less for
/// worse. NaN if the truth does not vary.
pub fn r2(truth: &[f64], predicted: &[f64]) -> f64 {
    let mean = truth.iter().sum::<f64>() / truth.len() as f64;
    let total: f64 = truth.iter().map(|value| (value - mean).powi(2)).sum();
    let left: f64 = truth.iter().zip(predicted).map(|(a, b)| (a - b).powi(2)).sum();
    if total > 0.0 { 1.0 - left / total } else { f64::NAN }
}

/// Spearman's rank correlation: 1 for the same order, -1 for the reverse one, 0 for predictions
/// that are all equal and so say nothing. None if the truth has no order.
pub fn spearman(truth: &[f64], predicted: &[f64]) -> Option<f64> {
    let (truth, predicted) = (ranks(truth), ranks(predicted));
    let middle = (truth.len() as f64 - 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - middle) * (b - middle)).sum()
    };
    let (of_truth, of_predicted) = (product(&truth, &truth), product(&predicted, &predicted));
    if of_truth == 0.0 {
        None
    } else if of_predicted == 0.0 {
        Some(0.0)
    } else {
        Some(product(&truth, &predicted) / (of_truth * of_predicted).sqrt())
    }
}

/// The place of each value in their order; equal ones share the middle of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut place = 0;
    for equal in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = place as f64 + (equal.len() as f64 - 1.0) / 2.0;
        equal.iter().for_each(|&index| ranks[index] = rank);
        place += equal.len();
    }
    ranks
}

/// How much slower than the optimum the best of the `tried` candidates is that are predicted to be
/// fastest: 0 if the optimum is among them, 1 if all take at least twice as long. Candidates that
/// are predicted equal are tried in the given order. None if there are no candidates.
pub fn regret(seconds: &[f64], predicted: &[f64], tried: usize) -> Option<f64> {
    let mut order: Vec<usize> = (0..seconds.len()).collect();
    order.sort_by(|&a, &b| predicted[a].total_cmp(&predicted[b]));
    let best = seconds.iter().copied().min_by(f64::total_cmp)?;
    let found = order.iter().take(tried).map(|&index| seconds[index]).min_by(f64::total_cmp)?;
    Some(found / best - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: [f64; 5] = [5.0, 1.0, 3.0, 2.0, 4.0];

    #[test]
    fn r2_of_perfection_is_one_and_of_the_mean_zero() {
        assert_eq!(r2(&TIMES, &TIMES), 1.0);
        assert_eq!(r2(&TIMES, &[3.0; 5]), 0.0);
        assert!(r2(&TIMES, &TIMES.map(|time| -time)) < 0.0);
        assert!(r2(&[2.0; 3], &[2.0; 3]).is_nan());
    }

    #[test]
    fn spearman_is_about_the_order_alone() {
        let near = |found: Option<f64>, wanted: f64| (found.unwrap() - wanted).abs() < 1e-12;
        assert!(near(spearman(&TIMES, &TIMES.map(f64::exp)), 1.0));
        assert!(near(spearman(&TIMES, &TIMES.map(|time| 1.0 / time)), -1.0));
        assert_eq!(spearman(&TIMES, &[1.0; 5]), Some(0.0));
        assert_eq!((spearman(&[1.0; 5], &TIMES), spearman(&[], &[])), (None, None));
        // By hand: ranks 0, 1.5, 1.5, 3 and 0, 1, 2, 3.
        assert!(near(spearman(&[1.0, 2.0, 2.0, 3.0], &[1.0, 2.0, 3.0, 4.0]), 0.9f64.sqrt()));
    }

    #[test]
    fn regret_is_what_trust_costs() {
        for tried in [1, 5, 10] {
            assert_eq!(regret(&TIMES, &TIMES, tried), Some(0.0));
        }
        let reversed = TIMES.map(|time| -time);
        let regrets = [1, 2, 4, 5].map(|tried| regret(&TIMES, &reversed, tried).unwrap());
        assert_eq!(regrets, [4.0, 3.0, 1.0, 0.0]);
        assert_eq!(regret(&[], &[], 1), None);
    }
}
