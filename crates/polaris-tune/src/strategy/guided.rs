//! Guided search: points in the order of predicted times, corrected by measurements.

use super::features::{Features, likely};
use super::terrain::{Terrain, ranked};
use super::{History, Strategy};
use crate::{Forest, ForestOptions, Points, Random};

/// With fewer trials the corrections would be guesses.
const ENOUGH: usize = 8;
/// How many of the best predicted points may be moved up by a correction. Those beyond would need
/// one of many times.
const CONSIDERED: usize = 3000;

/// Takes the points in the order of their predicted times. Once some were measured, a forest
/// learns where the predictions are wrong and the rest is ranked again.
pub struct Guided {
    random: Random,
    prior: Vec<f64>,
    terrain: Option<Terrain>,
    /// All points, the best predicted first.
    order: Vec<usize>,
    features: Option<Features>,
}

impl Guided {
    /// A search by the predicted seconds of each point.
    pub fn new(seed: u64, prior: Vec<f64>) -> Self {
        let random = Random::new(seed);
        Self { random, prior, terrain: None, order: Vec::new(), features: None }
    }
}

impl Strategy for Guided {
    fn name(&self) -> &'static str {
        "guided"
    }

    fn propose(&mut self, points: &Points, history: &History) -> Option<usize> {
        let terrain = Terrain::of(&mut self.terrain, points, history);
        let prior = &self.prior;
        if self.order.len() != terrain.len() {
            self.order = ranked(prior, terrain.len());
        }
        let left = self.order.iter().copied().filter(|&point| terrain.cost(point).is_none());
        if history.trials.len() < ENOUGH {
            return left.take(1).next();
        }
        let features = self.features.get_or_insert_with(|| Features::new(points));
        let predicted = |point: usize| {
            let seconds = prior.get(point).copied().filter(|s| s.is_finite() && *s > 0.0);
            seconds.map(f64::ln)
        };
        let (mut rows, mut errors) = (Vec::new(), Vec::new());
        for trial in &history.trials {
            let cost = trial.seconds.map(f64::ln).filter(|cost| cost.is_finite());
            if let (Some(cost), Some(predicted)) = (cost, predicted(trial.point)) {
                rows.push(features.of(points, trial.point, Some(prior)).to_vec());
                errors.push((cost - predicted) as f32);
            }
        }
        let random = &mut self.random;
        let errors = Forest::fit(&rows, &errors, &ForestOptions::default(), random);
        let working = features.learn_failures(points, history, Some(prior), random);
        let corrected = |point: usize| {
            let row = features.of(points, point, Some(prior));
            let error = errors.predict(row);
            let predicted = predicted(point).unwrap_or(f64::INFINITY);
            // Where the trees disagree the point may be better than it looks. One that probably
            // fails counts as slower by more than the chance, as nothing is learnt from its time.
            let hope = 0.5 * error.deviation + 2.0 * likely(working.as_ref(), row).ln();
            (point, predicted + error.mean - hope)
        };
        let ranked = left.take(CONSIDERED).map(corrected);
        ranked.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(point, _)| point)
    }
}
