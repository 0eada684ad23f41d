//! Bayesian optimisation: a model of the times, and the point with the largest expected improvement.

use super::features::{Features, likely};
use super::terrain::{Beginning, Terrain};
use super::{History, Strategy};
use crate::surface::Surface;
use crate::{Forest, ForestOptions, Points, Random};

/// Candidates drawn at random for each proposal.
const CANDIDATES: usize = 3000;
/// How many of the fastest points have their neighbours considered, too.
const CENTRES: usize = 5;

/// Bayesian optimisation: forests learn the time and the failures from what was tried, and the
/// untried point with the greatest expected improvement is next.
pub struct Bayesian {
    random: Random,
    prior: Option<Vec<f64>>,
    terrain: Option<Terrain>,
    /// Points still to try before there is anything to learn from.
    beginning: Beginning,
    features: Option<Features>,
    model: Option<Model>,
}

struct Model {
    /// Of the logarithm of the seconds.
    times: Forest,
    /// Of the same, in the parameters themselves.
    surface: Surface,
    single: usize,
    /// Of 1 for what worked and 0 for what failed; none while nothing failed.
    working: Option<Forest>,
    /// How many trials it has learnt from.
    trials: usize,
}

impl Bayesian {
    /// A search that begins at the best predicted points, where there are predictions.
    pub fn new(seed: u64, prior: Option<Vec<f64>>) -> Self {
        Self {
            random: Random::new(seed),
            prior,
            terrain: None,
            beginning: Beginning::default(),
            features: None,
            model: None,
        }
    }
}

impl Model {
    fn fit(
        points: &Points,
        history: &History,
        features: &mut Features,
        prior: Option<&[f64]>,
        random: &mut Random,
    ) -> Self {
        let (mut rows, mut targets) = (Vec::new(), Vec::new());
        for trial in &history.trials {
            if let Some(cost) = trial.seconds.map(f64::ln).filter(|cost| cost.is_finite()) {
                rows.push(features.of(points, trial.point, prior).to_vec());
                targets.push(cost as f32);
            }
        }
        let options = ForestOptions { min_leaf: 1, ..ForestOptions::default() };
        let times = Forest::fit(&rows, &targets, &options, random);
        let single = features.single;
        let parameters: Vec<Vec<f32>> = rows.iter().map(|row| row[..single].to_vec()).collect();
        let surface = Surface::fit(&parameters, &targets);
        let working = features.learn_failures(points, history, prior, random);
        Self { times, surface, single, working, trials: history.trials.len() }
    }

    /// How much faster than the best a point is expected to be, as a share, weighted with how
    /// likely it works at all.
    fn promise(&self, row: &[f32], best: f64) -> f64 {
        let time = self.times.predict(row);
        let surface = self.surface.predict(&row[..self.single]);
        let mean = 0.5 * (time.mean + surface);
        // Trees that agree by chance are not certain, and where the two models differ at least one
        // of them is wrong.
        let deviation = (time.deviation.powi(2) + 0.25 * (time.mean - surface).powi(2)).sqrt();
        let deviation = deviation.max(0.01);
        let z = (best - mean) / deviation;
        let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
        let improvement = deviation * (z * normal_below(z) + density);
        improvement * likely(self.working.as_ref(), row)
    }
}

/// The probability that a normally distributed number is below `z`, to about 1e-4: enough to rank.
fn normal_below(z: f64) -> f64 {
    1.0 / (1.0 + (-z * (1.5976 + 0.070_565_992 * z * z)).exp())
}

/// The untried points beside one.
fn around(terrain: &Terrain, centre: usize) -> Vec<usize> {
    let mut points: Vec<usize> =
        terrain.steps(centre).into_iter().map(|(point, _)| point).collect();
    points.extend(terrain.double_steps(centre));
    points.retain(|&point| terrain.cost(point).is_none());
    points
}

/// Some untried points at random, and those around the fastest ones.
fn candidates(terrain: &Terrain, history: &History, random: &mut Random) -> Vec<usize> {
    let untried = terrain.untried();
    let mut chosen: Vec<usize> = if untried.len() <= CANDIDATES {
        untried.iter().map(|&point| point as usize).collect()
    } else {
        (0..CANDIDATES).filter_map(|_| terrain.any_untried(random)).collect()
    };
    if untried.len() > CANDIDATES {
        let timed = history.trials.iter().filter_map(|t| t.seconds.map(|s| (s, t.point)));
        let mut timed: Vec<(f64, usize)> = timed.collect();
        timed.sort_by(|a, b| a.0.total_cmp(&b.0));
        for &(_, centre) in timed.iter().take(CENTRES) {
            chosen.extend(around(terrain, centre));
        }
        chosen.sort_unstable();
        chosen.dedup();
    }
    chosen
}

impl Strategy for Bayesian {
    fn name(&self) -> &'static str {
        "bayesian"
    }

    fn propose(&mut self, points: &Points, history: &History) -> Option<usize> {
        let terrain = Terrain::of(&mut self.terrain, points, history);
        let random = &mut self.random;
        let prior = self.prior.as_deref();
        let count = (terrain.len() / 40).clamp(8, 24);
        let first = self.beginning.next(terrain, count, prior, random);
        if first.is_some() {
            return first;
        }
        let Some(best) = terrain.best().and_then(|best| terrain.cost(best)) else {
            return terrain.any_untried(random);
        };
        // One trial more changes a large model little, and fitting it takes longer.
        let trials = history.trials.len();
        let stale = |model: &Model| trials >= model.trials + 1 + trials / 150;
        let features = self.features.get_or_insert_with(|| Features::new(points));
        if self.model.as_ref().is_none_or(stale) {
            self.model = Some(Model::fit(points, history, features, prior, random));
        }
        let model = self.model.as_ref()?;
        let mut promise = |point: usize| model.promise(features.of(points, point, prior), best);
        let mut most_promising = |points: Vec<usize>| {
            let scored = points.into_iter().map(|point| (point, promise(point)));
            scored.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(point, _)| point)
        };
        // Every other time beside the best: models are vague about the last few percent.
        let beside = match terrain.best() {
            Some(centre) if trials.is_multiple_of(2) => around(terrain, centre),
            _ => Vec::new(),
        };
        most_promising(beside).or_else(|| most_promising(candidates(terrain, history, random)))
    }
}
