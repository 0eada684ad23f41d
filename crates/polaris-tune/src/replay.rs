//! Strategies against measurements that are known already: how many of them each would have
//! needed.

use crate::{History, Points, Strategy, Trial};

/// The measurements of every point of a space.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The space.
    pub points: Points,
    /// Seconds of each point; none if it failed.
    pub seconds: Vec<Option<f64>>,
}

/// Runs a strategy for at most so many evaluations, those of the points to begin with included.
/// After each: the best so far, divided by the best there is. At least 1, and infinite while
/// nothing valid was found.
pub fn replay(
    strategy: &mut dyn Strategy,
    recording: &Recording,
    begin: &[usize],
    evaluations: usize,
) -> Vec<f64> {
    let optimum = recording.seconds.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let mut history = History::default();
    let mut best = f64::INFINITY;
    let mut curve = Vec::new();
    while curve.len() < evaluations {
        let usual = begin.get(curve.len()).copied();
        let proposed = usual.or_else(|| strategy.propose(&recording.points, &history));
        let Some(point) = proposed else { break };
        let seconds = recording.seconds.get(point).copied().flatten();
        history.trials.push(Trial { point, seconds });
        best = seconds.map_or(best, |seconds| best.min(seconds));
        // Without any valid point both are infinite, and their quotient is not a number.
        curve.push(if best.is_finite() { best / optimum } else { f64::INFINITY });
    }
    curve
}

/// After how many evaluations a curve of [`replay()`] was within a share of the optimum: 0.05 for 5%.
pub fn evaluations_to_within(curve: &[f64], share: f64) -> Option<usize> {
    curve.iter().position(|&ratio| ratio <= 1.0 + share).map(|place| place + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Space, strategy};

    #[test]
    fn curves_compare_with_the_best_there_is() {
        let points = Space::new("a test").parameter("a", 0..5).points().unwrap();
        let seconds = vec![None, Some(4.0), Some(2.06), None, Some(2.0)];
        let recording = Recording { points, seconds };
        let run = |evaluations| {
            let mut exhaustive = strategy::by_name("exhaustive", 1, None).unwrap();
            replay(exhaustive.as_mut(), &recording, &[], evaluations)
        };
        assert_eq!(run(3), [f64::INFINITY, 2.0, 1.03]);
        let mut exhaustive = strategy::by_name("exhaustive", 1, None).unwrap();
        assert_eq!(replay(exhaustive.as_mut(), &recording, &[4], 2), [1.0, 1.0]);
        let all = run(100);
        assert_eq!(all, [f64::INFINITY, 2.0, 1.03, 1.03, 1.0]);
        assert_eq!(evaluations_to_within(&all, 0.05), Some(3));
        assert_eq!(evaluations_to_within(&all, 0.0), Some(5));
        assert_eq!(evaluations_to_within(&all[..2], 0.05), None);
    }

    #[test]
    fn a_recording_of_failures_has_no_best() {
        let points = Space::new("a test").parameter("a", 0..3).points().unwrap();
        let recording = Recording { points, seconds: vec![None; 3] };
        let mut random = strategy::by_name("random", 1, None).unwrap();
        assert_eq!(replay(random.as_mut(), &recording, &[], 9), [f64::INFINITY; 3]);
    }
}
