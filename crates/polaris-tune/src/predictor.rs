//! Predicts the time of what was never measured, and says how far to trust it.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::scores::{r2, regret, spearman};
use crate::{Error, Forest, ForestOptions, Network, NetworkOptions, Random, Result};

mod saved;

pub use saved::Saved;

/// Fewer samples than this are not worth a model.
const FEWEST: usize = 8;
/// How many of the candidates predicted fastest are tried, for [`Scores::regret_at`].
const TRIED: [usize; 3] = [1, 5, 10];

/// Networks that begin at different weights and are asked together: each errs elsewhere, and the
/// candidate that one of them alone overrates is not chosen.
const NETWORKS: usize = 4;

/// A measurement as a model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// What describes the problem, the configuration and the device; equally many in all samples.
    pub features: Vec<f32>,
    /// How long it took.
    pub seconds: f64,
    /// What it would take at a rate that is the same for all: models learn how far a time is from
    /// it, so that sizes beyond all they saw are no riddle.
    pub baseline: f64,
    /// Which problem and shape it is of: candidates for the same problem share it.
    pub group: u64,
    /// Which device it is from.
    pub device: u64,
}

/// Which models to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// Trees: right near what was measured, flat beyond.
    Forest,
    /// Networks: smooth.
    Network,
    /// The mean of both, which errs less than either where they err differently.
    Both,
}

/// A model of the logarithm of the time: a tenth more counts the same for every size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Predictor {
    width: usize,
    forest: Option<Forest>,
    networks: Vec<Network>,
}

impl Predictor {
    /// Learns from samples. Those whose time is not positive, or with a feature that is not
    /// finite, are left out.
    ///
    /// # Errors
    /// If there are too few.
    pub fn fit(samples: &[Sample], which: Model, seed: u64) -> Result<Self> {
        Self::fit_some(samples.iter().filter(|sample| is_usable(sample)), which, seed)
    }

    fn fit_some<'a>(
        samples: impl Iterator<Item = &'a Sample>,
        which: Model,
        seed: u64,
    ) -> Result<Self> {
        let (rows, targets): (Vec<Vec<f32>>, Vec<f32>) = samples
            .map(|sample| (sample.features.clone(), (sample.seconds / sample.baseline).ln() as f32))
            .unzip();
        if rows.len() < FEWEST {
            return Err(Error::TooFew { found: rows.len(), needed: FEWEST });
        }
        // Each has numbers of its own, so that it is the same alone and beside the other.
        let (mut for_forest, mut for_networks) = (Random::new(seed), Random::new(!seed));
        let forest = || {
            // Unlike a search, which asks again and again, this is fitted once: more choice for
            // each split makes better trees and takes longer.
            let features_per_split = Some(rows[0].len());
            let options = ForestOptions { features_per_split, ..ForestOptions::default() };
            Forest::fit(&rows, &targets, &options, &mut for_forest)
        };
        let forest = (which != Model::Network).then(forest);
        let options = NetworkOptions::default();
        let count = if which == Model::Forest { 0 } else { NETWORKS };
        let network = |_| Network::fit(&rows, &targets, &options, &mut for_networks);
        Ok(Self { width: rows[0].len(), forest, networks: (0..count).map(network).collect() })
    }

    /// How many features it was trained on: one that was saved by another version may differ.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The time to expect, by the baseline.
    pub fn predict(&self, features: &[f32]) -> f64 {
        let forest = self.forest.as_ref().map(|forest| forest.predict(features).mean);
        let sum: f64 = self.networks.iter().map(|network| network.predict(features)).sum();
        let count = self.networks.len();
        let network = (count > 0).then_some(sum / count as f64);
        let log = match (forest, network) {
            (Some(forest), Some(network)) => (forest + network) / 2.0,
            (forest, network) => forest.or(network).unwrap_or(f64::NAN),
        };
        log.exp()
    }

    /// The size of its text.
    pub fn bytes(&self) -> usize {
        serde_json::to_string(self).expect("plain numbers should have a text").len()
    }

    /// Whether it can be asked: a file may hold anything.
    fn is_sound(&self) -> bool {
        let has_any = self.forest.is_some() || !self.networks.is_empty();
        has_any
            && self.forest.as_ref().is_none_or(Forest::is_sound)
            && self.networks.iter().all(Network::is_sound)
    }
}

fn is_usable(sample: &Sample) -> bool {
    let seconds = sample.seconds;
    seconds.is_finite()
        && seconds > 0.0
        && sample.baseline > 0.0
        && sample.features.iter().all(|value| value.is_finite())
}

/// What is held out together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBy {
    /// All samples of a shape: how good are predictions for shapes never seen?
    Shape,
    /// All samples of a device: how good are they for devices never seen?
    Device,
}

/// How good predictions were for what was held out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scores {
    /// The part of the variance of the logarithm of the time that was explained.
    pub r2_log: f64,
    /// The rank correlation among the candidates of one problem on one device, the mean over all
    /// such problems: what choosing a configuration depends on.
    pub spearman: f64,
    /// The rank correlation over all samples, which is easier: large problems take longer.
    pub spearman_overall: f64,
    /// What is lost by trying only the 1, 5 or 10 candidates of a problem on a device that are
    /// predicted fastest: the best true time among them over the best of all, less 1; the mean
    /// over all such problems.
    pub regret_at: [f64; 3],
    /// How many samples were predicted.
    pub samples: usize,
    /// How many shapes, or devices, were held out.
    pub groups: usize,
}

/// How good a model is at what it never saw.
///
/// # Errors
/// As for [`predict_held_out`].
pub fn cross_validate(
    samples: &[Sample],
    which: Model,
    folds: usize,
    by: GroupBy,
    seed: u64,
) -> Result<Scores> {
    let predicted = predict_held_out(samples, which, folds, by, seed)?;
    let (usable, predicted): (Vec<&Sample>, Vec<f64>) =
        samples.iter().zip(predicted).filter(|(_, seconds)| !seconds.is_nan()).unzip();
    let groups = by.groups(&usable).len();
    Ok(score(&usable, &predicted, groups))
}

/// The seconds that each sample is predicted to take by a model that saw no other of its shape or
/// its device; NaN for a sample that no model can learn from.
///
/// # Errors
/// If there is only one group, or too little is left to learn from.
pub fn predict_held_out(
    samples: &[Sample],
    which: Model,
    folds: usize,
    by: GroupBy,
    seed: u64,
) -> Result<Vec<f64>> {
    let usable: Vec<&Sample> = samples.iter().filter(|sample| is_usable(sample)).collect();
    let mut groups = by.groups(&usable);
    match groups.len() {
        0 => return Err(Error::TooFew { found: 0, needed: FEWEST }),
        1 => return Err(Error::OneGroup { of: by.name() }),
        _ => Random::new(seed).shuffle(&mut groups),
    }
    let folds = folds.clamp(2, groups.len());
    let mut predicted = vec![f64::NAN; samples.len()];
    for fold in 0..folds {
        let held_out: HashSet<u64> = groups.iter().skip(fold).step_by(folds).copied().collect();
        let seen = usable.iter().copied().filter(|sample| !held_out.contains(&by.group(sample)));
        let predictor = Predictor::fit_some(seen, which, seed.wrapping_add(fold as u64))?;
        for (sample, predicted) in samples.iter().zip(&mut predicted) {
            if is_usable(sample) && held_out.contains(&by.group(sample)) {
                *predicted = predictor.predict(&sample.features) * sample.baseline;
            }
        }
    }
    Ok(predicted)
}

impl GroupBy {
    fn group(self, sample: &Sample) -> u64 {
        match self {
            Self::Shape => sample.group,
            Self::Device => sample.device,
        }
    }

    /// All groups, in order.
    fn groups(self, samples: &[&Sample]) -> Vec<u64> {
        let mut groups: Vec<u64> = samples.iter().map(|sample| self.group(sample)).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    fn name(self) -> &'static str {
        match self {
            Self::Shape => "shape",
            Self::Device => "device",
        }
    }
}

/// A score of true and predicted times, if they have one.
type ScoreOfProblem<'a> = dyn Fn(&[f64], &[f64]) -> Option<f64> + 'a;

fn score(samples: &[&Sample], predicted: &[f64], groups: usize) -> Scores {
    let logs: Vec<f64> = samples.iter().map(|sample| sample.seconds.ln()).collect();
    let predicted_logs: Vec<f64> = predicted.iter().map(|seconds| seconds.ln()).collect();
    // Only candidates for the same problem on the same device compete, whatever was held out.
    let mut problems: BTreeMap<_, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for (sample, &predicted) in samples.iter().zip(predicted) {
        let problem = problems.entry((sample.group, sample.device)).or_default();
        problem.0.push(sample.seconds);
        problem.1.push(predicted);
    }
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let over_problems = |score: &ScoreOfProblem| {
        mean(problems.values().filter_map(|(truth, predicted)| score(truth, predicted)).collect())
    };
    Scores {
        r2_log: r2(&logs, &predicted_logs),
        spearman: over_problems(&spearman),
        spearman_overall: spearman(&logs, &predicted_logs).unwrap_or(f64::NAN),
        regret_at: TRIED.map(|tried| over_problems(&|a, b| regret(a, b, tried))),
        samples: samples.len(),
        groups,
    }
}

#[cfg(test)]
mod tests;
