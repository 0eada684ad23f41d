//! Learning from measurements: a predictor that is trained again when they grow, predicted times that guide a search,
//! and decisions for unmeasured shapes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use polaris_core::DType;
use polaris_ops::matmul::{
    TILE_FEATURES, Tile, config_of, default_tile, tile_features, tile_of, tile_source,
};
use polaris_runtime::Device;
use polaris_runtime::opencl::OpenClDevice;
use polaris_tune::choices::{Choice, Choices};
use polaris_tune::predictor::{GroupBy, Model, Saved, predict_held_out};
use polaris_tune::{DeviceKey, Points, Predictor, ProblemKey, Record, Sample};

use crate::Result;

/// Seconds of an operation, which predictions are relative to.
const BASE_RATE: f64 = 1e-11;
/// Fewer measurements of other shapes say too little about one more.
const ENOUGH: usize = 100;
/// A predicted configuration must be this much faster than the default's prediction.
const WORTH: f64 = 0.95;
/// Parts into which shapes are cut to see what predictions are worth.
const FOLDS: usize = 5;
/// Sizes that predictions are made for: powers of two, within what was measured.
const SIZES: std::ops::RangeInclusive<u32> = 5..=13;

/// Measurements with this source of kernels and this driver.
pub fn current<'a>(records: &'a [Record], key: &DeviceKey, source: &str) -> Vec<&'a Record> {
    let is_current =
        |record: &&Record| record.source == source && record.device.driver == key.driver;
    records.iter().filter(is_current).collect()
}

/// Those of what the model is about: products of `f32` matrices stored as they are.
pub fn products<'a>(records: &'a [Record], key: &DeviceKey) -> Vec<&'a Record> {
    let mut records = current(records, key, &tile_source());
    records.retain(|record| is_plain(&record.problem));
    records
}

/// A configuration, as a key.
type NamedValues<'a> = Vec<(&'a str, i64)>;

/// Measurements of products as a model sees them. Of several of one configuration and shape the
/// fastest counts: what disturbs a measurement makes it slower.
pub fn samples(device: &OpenClDevice, records: &[&Record]) -> Vec<Sample> {
    let mut times: BTreeMap<(&[u64], NamedValues), f64> = BTreeMap::new();
    for record in records {
        if let Some(seconds) = record.outcome.seconds() {
            let config =
                record.config.iter().map(|(name, &value)| (name.as_str(), value)).collect();
            let best = times.entry((&record.problem.shape, config)).or_insert(seconds);
            *best = best.min(seconds);
        }
    }
    let mut samples = Vec::new();
    for ((shape, config), seconds) in times {
        let value = |name: &str| config.iter().find(|(n, _)| *n == name).map(|&(_, value)| value);
        let (Some(tile), [m, n, k]) = (tile_of(device, &value), shape) else { continue };
        let sizes = [*m, *n, *k].map(|size| size as usize);
        samples.push(Sample {
            features: tile_features(device.capabilities(), &tile, sizes),
            seconds,
            baseline: baseline(sizes),
            group: group(shape),
            device: 0,
        });
    }
    samples
}

/// A number for a shape.
fn group(shape: &[u64]) -> u64 {
    shape.iter().fold(0, |group, &size| group * 1_000_003 + size)
}

fn shape_sizes(shape: &[u64]) -> Vec<usize> {
    shape.iter().map(|&size| size as usize).collect()
}

fn baseline(sizes: [usize; 3]) -> f64 {
    2.0 * sizes.iter().map(|&size| size as f64).product::<f64>() * BASE_RATE
}

/// The saved predictor of a device, if it is about these kernels.
pub fn load(folder: &Path, key: &DeviceKey) -> Option<Predictor> {
    let saved = Saved::load(&Saved::file(folder, &key.chip), &tile_source(), TILE_FEATURES);
    saved.map(|saved| saved.predictor)
}

/// The time to expect of a tile.
fn expected(predictor: &Predictor, device: &OpenClDevice, tile: &Tile, sizes: [usize; 3]) -> f64 {
    let features = tile_features(device.capabilities(), tile, sizes);
    predictor.predict(&features) * baseline(sizes)
}

/// The time to expect of each point of the space, where the predictor knows such problems.
pub fn prior(
    predictor: Option<&Predictor>,
    device: &OpenClDevice,
    points: &Points,
    problem: &ProblemKey,
) -> Option<Vec<f64>> {
    let predictor = predictor.filter(|_| is_plain(problem))?;
    let sizes = sizes(problem)?;
    let of_point = |point: usize| {
        let tile = tile_of(device, &|name| points.value(point, name));
        tile.map_or(f64::INFINITY, |tile| expected(predictor, device, &tile, sizes))
    };
    Some((0..points.len()).map(of_point).collect())
}

/// Predicted and measured seconds of a problem, by a forest that learnt from the other problems
/// only. Nothing where there are too few.
pub fn held_out(
    device: &OpenClDevice,
    products: &[&Record],
    problem: &ProblemKey,
) -> Vec<(f64, f64)> {
    if !is_plain(problem) {
        return Vec::new();
    }
    let (these, others): (Vec<&Record>, Vec<&Record>) =
        products.iter().partition(|record| record.problem.shape == problem.shape);
    let others = samples(device, &others);
    if others.len() < ENOUGH {
        return Vec::new();
    }
    let Ok(predictor) = Predictor::fit(&others, Model::Forest, 1) else { return Vec::new() };
    let these = samples(device, &these);
    let both =
        |sample: &Sample| (predictor.predict(&sample.features) * sample.baseline, sample.seconds);
    these.iter().map(both).collect()
}

fn sizes(problem: &ProblemKey) -> Option<[usize; 3]> {
    shape_sizes(&problem.shape).try_into().ok()
}

/// What came of training.
pub struct Trained {
    /// Measurements it learnt from.
    samples: usize,
    /// See [`gain`].
    gain: Option<f64>,
}

impl Trained {
    /// Whether what it predicts is worth choosing by.
    fn is_worth_following(&self) -> bool {
        self.gain.is_some_and(|gain| gain > 1.0)
    }
}

impl fmt::Display for Trained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the predictor was trained on {} measurements; ", self.samples)?;
        match self.gain {
            None => write!(f, "too few shapes are measured to choose for other shapes with it"),
            Some(gain) if self.is_worth_following() => write!(
                f,
                "it chooses for shapes between the measured ones (on held-out shapes its choices were {gain:.2}x as fast as the default)"
            ),
            Some(gain) => write!(
                f,
                "it guides searches but chooses nothing: on held-out shapes its choices were \
                 {gain:.2}x as fast as the default"
            ),
        }
    }
}

/// Trains the predictor of a device again if there is enough more to learn from, and predicts
/// choices with it, if they are worth following. Nothing if it did not.
pub fn retrain(
    folder: &Path,
    device: &OpenClDevice,
    key: &DeviceKey,
    records: &[Record],
) -> Result<Option<Trained>> {
    let records = products(records, key);
    let samples = samples(device, &records);
    let path = Saved::file(folder, &key.chip);
    let source = tile_source();
    let known = Saved::load(&path, &source, TILE_FEATURES);
    if !Saved::is_outgrown(known.as_ref(), samples.len()) {
        return Ok(None);
    }
    let predictor = Predictor::fit(&samples, Model::Both, 1)?;
    let trained = Trained { samples: samples.len(), gain: gain(device, &records, &samples) };
    let choices = match trained.is_worth_following() {
        true => predicted_choices(&predictor, device, key, &records),
        false => Vec::new(),
    };
    Saved::new(predictor, samples.len(), &source, TILE_FEATURES).save(&path)?;
    Choices::replace_predicted(&Choices::file(folder, &key.chip), &choices)?;
    Ok(Some(trained))
}

/// How much faster than the default the predicted choices would have been on shapes that the
/// model did not see, the geometric mean over them. A model can explain nearly all of the times and
/// still lead to the wrong end of a large space. Nothing if it cannot be said.
fn gain(device: &OpenClDevice, records: &[&Record], samples: &[Sample]) -> Option<f64> {
    let predicted = predict_held_out(samples, Model::Both, FOLDS, GroupBy::Shape, 1).ok()?;
    let shapes: BTreeSet<&[u64]> = records.iter().map(|r| r.problem.shape.as_slice()).collect();
    let mut gains = Vec::new();
    for shape in shapes {
        let Ok(sizes) = <[usize; 3]>::try_from(shape_sizes(shape)) else { continue };
        let Some(default) = default_tile(device, DType::F32, sizes, true) else { continue };
        let default = tile_features(device.capabilities(), &default, sizes);
        let of_shape = || (0..samples.len()).filter(|&i| samples[i].group == group(shape));
        let Some(default) = of_shape().find(|&i| samples[i].features == default) else { continue };
        let best = of_shape().min_by(|&a, &b| predicted[a].total_cmp(&predicted[b]));
        let chosen = best.filter(|&best| predicted[best] < WORTH * predicted[default]);
        gains.push((samples[default].seconds / samples[chosen.unwrap_or(default)].seconds).ln());
    }
    let mean = gains.iter().sum::<f64>() / gains.len() as f64;
    (gains.len() > 1).then(|| mean.exp())
}

fn is_plain(problem: &ProblemKey) -> bool {
    problem.operation == "matmul" && problem.dtype == "f32" && problem.layout == "nn"
}

/// For powers of two within the measured sizes: the configuration that is predicted fastest of
/// those that were measured, and so checked, at some shape. None where the default is predicted to
/// be about as good.
fn predicted_choices(
    predictor: &Predictor,
    device: &OpenClDevice,
    key: &DeviceKey,
    records: &[&Record],
) -> Vec<Choice> {
    let mut tiles: Vec<Tile> = Vec::new();
    let mut failed: Vec<Tile> = Vec::new();
    let mut range = [(usize::MAX, 0); 3];
    for record in records {
        let Some(tile) = tile_of(device, &|name| record.config.get(name).copied()) else {
            continue;
        };
        let list = if record.outcome.seconds().is_some() { &mut tiles } else { &mut failed };
        if !list.contains(&tile) {
            list.push(tile);
        }
        for (range, &size) in range.iter_mut().zip(&record.problem.shape) {
            *range = (range.0.min(size as usize), range.1.max(size as usize));
        }
    }
    tiles.retain(|tile| !failed.contains(tile));
    let sizes = |axis: usize| {
        SIZES.map(|log| 1usize << log).filter(move |&size| {
            let (least, most) = range[axis];
            (least..=most).contains(&size)
        })
    };
    let mut choices = Vec::new();
    for m in sizes(0) {
        for n in sizes(1) {
            for k in sizes(2) {
                let shape = [m, n, k];
                let time = |tile: &Tile| expected(predictor, device, tile, shape);
                let best = tiles.iter().map(|tile| (time(tile), tile));
                let Some((seconds, tile)) = best.min_by(|a, b| a.0.total_cmp(&b.0)) else {
                    continue;
                };
                let Some(default) = default_tile(device, DType::F32, shape, true) else {
                    continue;
                };
                let default_seconds = time(&default);
                let config = (seconds < WORTH * default_seconds).then(|| {
                    config_of(tile).iter().map(|&(name, value)| (name.to_owned(), value)).collect()
                });
                choices.push(Choice {
                    problem: ProblemKey {
                        operation: "matmul".to_owned(),
                        dtype: "f32".to_owned(),
                        layout: "nn".to_owned(),
                        shape: shape.map(|size| size as u64).to_vec(),
                    },
                    seconds: if config.is_some() { seconds } else { default_seconds },
                    config,
                    default_seconds,
                    driver: key.driver.clone(),
                    source: tile_source(),
                    predicted: true,
                });
            }
        }
    }
    choices
}
