//! Evaluates strategies by replaying them on stored measurements, and the predictor by cross-validation. Nothing is
//! measured.

use std::collections::BTreeMap;
use std::time::Instant;

use polaris_ops::matmul::tile_space;
use polaris_runtime::opencl::OpenClDevice;
use polaris_runtime::{DeviceId, Runtime};
use polaris_tune::predictor::{GroupBy, Model, Predictor, cross_validate};
use polaris_tune::strategy::by_name;
use polaris_tune::{
    Database, History, Points, Record, Recording, Trial, evaluations_to_within, replay,
};
use serde::Serialize;

use crate::subject::subject;
use crate::tune::{device_key, tunable, tuning_folder, usual_points};
use crate::{Error, Result, learn};

/// The strategies that are compared.
const STRATEGIES: [&str; 4] = ["random", "annealing", "genetic", "bayesian"];
/// The share of the space that a search may look at.
const SHARE: f64 = 0.15;
/// How near the optimum it must come.
const WITHIN: f64 = 0.05;

/// How a strategy did on one shape.
#[derive(Debug, Serialize)]
pub struct Replayed {
    /// The shape.
    pub shape: Vec<u64>,
    /// The strategy's name.
    pub strategy: &'static str,
    /// Points of the recording, valid or failed.
    pub space: usize,
    /// Searches that were replayed.
    pub seeds: u64,
    /// The median over the seeds; none if most did not get there with a third of the space.
    pub evaluations_to_within_5_percent: Option<usize>,
    /// The best found within 15% of the space by the optimum, median over the seeds.
    pub best_by_optimum: f64,
}

/// How a model did.
#[derive(Debug, Serialize)]
pub struct Learnt {
    /// The model's name.
    pub model: &'static str,
    /// Measurements it was tested on.
    pub samples: usize,
    /// Their shapes.
    pub shapes: usize,
    /// Of the logarithms of times.
    pub r2_log: f64,
    /// The correlation of ranks.
    pub spearman: f64,
    /// What the configuration that is predicted fastest loses to the fastest.
    pub regret_at_1: f64,
    /// What the best of the first five loses.
    pub regret_at_5: f64,
    /// What the best of the first ten loses.
    pub regret_at_10: f64,
    /// Its size.
    pub bytes: usize,
    /// Microseconds of a prediction.
    pub predict_us: f64,
}

/// What the measurements of a device say.
#[derive(Debug, Serialize)]
pub struct Study {
    /// The device.
    pub device: String,
    /// Strategies on shapes that were measured as a whole.
    pub replays: Vec<Replayed>,
    /// Models on shapes that were held out.
    pub predictors: Vec<Learnt>,
}

/// How thorough a study is, and of which devices.
#[derive(Debug, Clone)]
pub struct StudyOptions {
    /// The devices; all OpenCL devices if none is named.
    pub devices: Vec<DeviceId>,
    /// Searches of each strategy; at least 1.
    pub seeds: u64,
    /// Parts into which the shapes are cut for cross-validation.
    pub folds: usize,
}

impl Default for StudyOptions {
    fn default() -> Self {
        Self { devices: Vec::new(), seeds: 10, folds: 5 }
    }
}

/// Studies the measurements of each device.
///
/// # Errors
/// If there is no device or no folder with measurements, or if they are too few to learn from.
pub fn study(runtime: &Runtime, options: &StudyOptions) -> Result<Vec<Study>> {
    let folder = tuning_folder(runtime).ok_or(Error::NoFolder)?;
    let database = Database::open(&folder);
    let mut studies = Vec::new();
    for device in tunable(runtime, &options.devices)? {
        let opencl = device.as_opencl().ok_or(Error::NotOpenCl)?;
        let key = device_key(device.as_ref());
        let records = database.load(&key.chip)?.records;
        let records = learn::products(&records, &key);
        let points = tile_space(opencl).points()?;
        let begin = usual_points(subject("matmul")?, opencl, &points);
        studies.push(Study {
            device: device.id().to_string(),
            replays: replays(&points, &begin, &records, options.seeds.max(1))?,
            predictors: predictors(opencl, &records, options.folds)?,
        });
    }
    Ok(studies)
}

/// Replays strategies on each shape of which nearly all points were measured. They begin where
/// `tune` begins.
fn replays(
    points: &Points,
    begin: &[usize],
    records: &[&Record],
    seeds: u64,
) -> Result<Vec<Replayed>> {
    let mut by_shape: BTreeMap<&[u64], History> = BTreeMap::new();
    for record in records {
        if let Some(point) = points.find_named(|name| record.config.get(name).copied()) {
            let history = by_shape.entry(&record.problem.shape).or_default();
            history.add(Trial { point, seconds: record.outcome.seconds() });
        }
    }
    let mut replayed = Vec::new();
    for (shape, history) in by_shape {
        if history.trials.len() * 100 < points.len() * 99 {
            continue;
        }
        let mut seconds = vec![None; points.len()];
        history.trials.iter().for_each(|trial| seconds[trial.point] = trial.seconds);
        let recording = Recording { points: points.clone(), seconds };
        let budget = (points.len() as f64 * SHARE) as usize;
        for strategy in STRATEGIES {
            let mut needed = Vec::new();
            let mut reached = Vec::new();
            for seed in 0..seeds {
                let mut search = by_name(strategy, seed, None)?;
                let curve = replay(search.as_mut(), &recording, begin, points.len() / 3);
                needed.push(evaluations_to_within(&curve, WITHIN).unwrap_or(usize::MAX));
                reached.push(curve[budget.min(curve.len()) - 1]);
            }
            needed.sort_unstable();
            reached.sort_by(f64::total_cmp);
            let middle = needed.len() / 2;
            // Of an even number the mean of the two in the middle, rounded up; none if the upper
            // one did not get there.
            let upper = Some(needed[middle]).filter(|&count| count != usize::MAX);
            let median = upper.map(|upper| match needed.len() % 2 {
                0 => (needed[middle - 1] + upper).div_ceil(2),
                _ => upper,
            });
            replayed.push(Replayed {
                shape: shape.to_vec(),
                strategy,
                space: points.len(),
                seeds,
                evaluations_to_within_5_percent: median,
                best_by_optimum: reached[middle],
            });
        }
    }
    Ok(replayed)
}

/// Cross-validates both models, by shapes that are held out.
fn predictors(device: &OpenClDevice, records: &[&Record], folds: usize) -> Result<Vec<Learnt>> {
    let samples = learn::samples(device, records);
    if samples.is_empty() {
        return Ok(Vec::new());
    }
    let models = [("forest", Model::Forest), ("network", Model::Network), ("both", Model::Both)];
    let mut learnt = Vec::new();
    for (name, model) in models {
        let scores = cross_validate(&samples, model, folds, GroupBy::Shape, 1)?;
        let predictor = Predictor::fit(&samples, model, 1)?;
        let begin = Instant::now();
        let sum: f64 = samples.iter().map(|sample| predictor.predict(&sample.features)).sum();
        let predict_us = begin.elapsed().as_secs_f64() * 1e6 / samples.len() as f64;
        if !sum.is_finite() {
            return Err(Error::NotANumber(name));
        }
        learnt.push(Learnt {
            model: name,
            samples: scores.samples,
            shapes: scores.groups,
            r2_log: scores.r2_log,
            spearman: scores.spearman,
            regret_at_1: scores.regret_at[0],
            regret_at_5: scores.regret_at[1],
            regret_at_10: scores.regret_at[2],
            bytes: predictor.bytes(),
            predict_us,
        });
    }
    Ok(learnt)
}
