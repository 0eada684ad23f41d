//! What can be learnt from measurements that are there: how good the strategies are, by replaying
//! them, and how good the predictor is, by cross-validation. Nothing is measured.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Context;
use polaris::ops::matmul::tile_space;
use polaris::runtime::opencl::OpenClDevice;
use polaris_tune::predictor::{GroupBy, Model, Predictor, cross_validate};
use polaris_tune::strategy::by_name;
use polaris_tune::{
    Database, History, Points, Record, Recording, Trial, evaluations_to_within, replay,
};
use serde::Serialize;

use super::subject::subject;
use super::{device_key, learn, tunable, tuning_folder, usual_points};
use crate::arguments::{Global, TuneStudy};
use crate::exit;
use crate::output::{self, Table, print_line};
use crate::session::Session;

/// The strategies that are compared.
const STRATEGIES: [&str; 4] = ["random", "annealing", "genetic", "bayesian"];
/// The share of the space that a search may look at.
const SHARE: f64 = 0.15;
/// How near the optimum it must come.
const WITHIN: f64 = 0.05;

/// How a strategy did on one shape.
#[derive(Debug, Serialize)]
struct Replayed {
    shape: Vec<u64>,
    strategy: &'static str,
    /// Points of the recording, valid or failed.
    space: usize,
    seeds: u64,
    /// The median over the seeds; none if most did not get there with a third of the space.
    evaluations_to_within_5_percent: Option<usize>,
    /// The best found within 15% of the space by the optimum, median over the seeds.
    best_by_optimum: f64,
}

/// How a model did.
#[derive(Debug, Serialize)]
struct Learnt {
    model: &'static str,
    samples: usize,
    shapes: usize,
    r2_log: f64,
    spearman: f64,
    regret_at_1: f64,
    regret_at_5: f64,
    regret_at_10: f64,
    bytes: usize,
    predict_us: f64,
}

#[derive(Debug, Serialize)]
struct Study {
    device: String,
    replays: Vec<Replayed>,
    predictors: Vec<Learnt>,
}

pub fn run(global: Global, options: &TuneStudy) -> anyhow::Result<u8> {
    let json = global.json;
    let session = Session::new(global)?;
    let folder =
        tuning_folder(&session).context("there is no home folder; set POLARIS_DATA_DIR")?;
    let database = Database::open(&folder);
    let mut studies = Vec::new();
    for device in tunable(&session)? {
        let opencl = device.as_opencl().context("only OpenCL devices are tuned")?;
        let key = device_key(device.as_ref());
        let records = database.load(&key.chip)?.records;
        let records = learn::products(&records, &key);
        let points = tile_space(opencl).points()?;
        let begin = usual_points(subject("matmul")?, opencl, &points);
        studies.push(Study {
            device: device.id().to_string(),
            replays: replays(&points, &begin, &records, options.seeds)?,
            predictors: predictors(opencl, &records, options.folds)?,
        });
    }
    if json {
        #[derive(Serialize)]
        struct Studies {
            studies: Vec<Study>,
        }
        output::print_json("polaris.tune.study/1", &Studies { studies })?;
        return Ok(exit::OK);
    }
    for study in &studies {
        print(study)?;
    }
    Ok(exit::OK)
}

/// Replays strategies on each shape of which nearly all points were measured. They begin where
/// `tune` begins.
fn replays(
    points: &Points,
    begin: &[usize],
    records: &[&Record],
    seeds: u64,
) -> anyhow::Result<Vec<Replayed>> {
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
fn predictors(
    device: &OpenClDevice,
    records: &[&Record],
    folds: usize,
) -> anyhow::Result<Vec<Learnt>> {
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
        anyhow::ensure!(sum.is_finite(), "the {name} predicts what is not a number");
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

fn print(study: &Study) -> anyhow::Result<()> {
    print_line(&format!("{}: strategies replayed on shapes measured as a whole", study.device))?;
    let mut table = Table::new(&[
        "shape",
        "strategy",
        ">space",
        ">evaluations to 5%",
        ">share",
        ">best after 15%",
    ]);
    for one in &study.replays {
        let shape: Vec<String> = one.shape.iter().map(u64::to_string).collect();
        let needed = one.evaluations_to_within_5_percent;
        table.row(vec![
            shape.join("x"),
            one.strategy.to_owned(),
            one.space.to_string(),
            needed.map_or("-".to_owned(), |needed| needed.to_string()),
            needed
                .map_or("-".to_owned(), |n| format!("{:.1}%", 100.0 * n as f64 / one.space as f64)),
            format!("{:.3}", one.best_by_optimum),
        ]);
    }
    table.print()?;
    print_line("\nmodels, cross-validated on shapes that were held out")?;
    let mut table = Table::new(&[
        "model",
        ">samples",
        ">shapes",
        ">R2 of log",
        ">Spearman",
        ">regret@1",
        ">regret@5",
        ">regret@10",
        ">bytes",
        ">us",
    ]);
    for one in &study.predictors {
        table.row(vec![
            one.model.to_owned(),
            one.samples.to_string(),
            one.shapes.to_string(),
            format!("{:.3}", one.r2_log),
            format!("{:.3}", one.spearman),
            format!("{:.1}%", 100.0 * one.regret_at_1),
            format!("{:.1}%", 100.0 * one.regret_at_5),
            format!("{:.1}%", 100.0 * one.regret_at_10),
            one.bytes.to_string(),
            format!("{:.1}", one.predict_us),
        ]);
    }
    table.print()
}
