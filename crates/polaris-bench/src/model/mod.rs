//! The time to load a model, of its first run and of later runs.

mod trace;

use std::path::PathBuf;
use std::time::Instant;

use polaris_core::{CancellationToken, Progress};
use polaris_graph::plan::{Prediction, Side};
use polaris_graph::{Options, Profile, Session};
use polaris_models::inputs::{closed_inputs, random};
use polaris_onnx::{Type, Value};
use polaris_runtime::Runtime;
use serde::Serialize;

pub use trace::trace;

use crate::Result;
use crate::error::go_on;

/// Runs after the first one that are not counted: threads wake, caches and clocks settle.
const WARM_UP: u32 = 2;

/// What to measure.
#[derive(Debug, Clone, Default)]
pub struct ModelOptions {
    /// An ONNX file.
    pub model: PathBuf,
    /// Where and how it runs. Its token ends the measurement, too.
    pub run: Options,
    /// Lengths that the model leaves open; others are 1.
    pub lengths: Vec<(String, usize)>,
    /// Runs that are measured, after the first one and two to warm up; at least 1.
    pub runs: u32,
    /// Decides the random inputs.
    pub seed: u64,
    /// Whether each instruction is timed afterwards.
    pub profile: bool,
}

/// What was measured.
#[derive(Debug, Serialize)]
pub struct Results {
    /// The model's file.
    pub model: PathBuf,
    /// The mode that was requested.
    pub mode: String,
    /// Where it ran.
    pub device: String,
    /// Threads of the CPU.
    pub threads: usize,
    /// The inputs with their types.
    pub inputs: Vec<String>,
    /// Reading the file; plans are made by the first run.
    pub load_ms: f64,
    /// The first run.
    pub first_ms: f64,
    /// Runs that were measured.
    pub runs: usize,
    /// Their median.
    pub median_ms: f64,
    /// The fastest.
    pub min_ms: f64,
    /// 90% took at most this long.
    pub p90_ms: f64,
    /// By the median.
    pub runs_per_second: f64,
    /// What a run was expected to take, where the plan was chosen by that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_ms: Option<f64>,
    /// The prediction for each mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
    /// Of the whole process, where the system tells.
    pub peak_process_bytes: Option<u64>,
    /// Of the device's own memory.
    pub peak_device_bytes: Option<u64>,
    /// The time of each instruction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
}

/// Measures a model on random inputs. Every run begins and ends with its inputs and outputs in the host's memory.
///
/// The session comes with the results, for whoever wants its [`trace`].
///
/// # Errors
/// If the model cannot be read or run, if its inputs are not declared, or if it is cancelled.
pub fn run(
    runtime: &Runtime,
    options: &ModelOptions,
    progress: &mut dyn Progress,
) -> Result<(Results, Session)> {
    let cancellation = options.run.cancellation.clone().unwrap_or_default();
    let start = Instant::now();
    let model = Session::open(runtime, &options.model, &options.run)?;
    let load_ms = milliseconds_since(start);
    let types = closed_inputs(&model, &options.lengths)?;
    let mut given = Vec::new();
    for (name, ty) in &types {
        given.push((name.as_str(), Value::Tensor(random(ty, name, options.seed)?)));
    }
    let first_ms = time(&model, &given, &cancellation)?;
    for _ in 0..WARM_UP {
        time(&model, &given, &cancellation)?;
    }
    let runs = options.runs.max(1) as usize;
    progress.begin("running", runs);
    let mut times = Vec::with_capacity(runs);
    for done in 1..=runs {
        times.push(time(&model, &given, &cancellation)?);
        progress.advance(done, "");
    }
    progress.end();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    let typed: Vec<(&str, Type)> =
        types.iter().map(|(name, ty)| (name.as_str(), ty.clone())).collect();
    let prediction = model.plan(&typed)?.prediction.clone();
    let mut results = Results {
        model: options.model.clone(),
        mode: options.run.mode.name().to_owned(),
        device: device_name(&model),
        threads: runtime.cpu().capabilities().compute_units,
        inputs: types.iter().map(|(name, ty)| format!("{name}: {ty}")).collect(),
        load_ms,
        first_ms,
        runs: times.len(),
        median_ms: times[times.len() / 2],
        min_ms: times[0],
        p90_ms: at(0.9),
        runs_per_second: 1e3 / times[times.len() / 2],
        predicted_ms: prediction.as_ref().map(|prediction| prediction.seconds() * 1e3),
        prediction,
        peak_process_bytes: peak_of_process(),
        peak_device_bytes: (model.device_on(Side::Gpu))
            .map(|device| device.allocator().memory_use().peak),
        profile: None,
    };
    if options.profile {
        results.profile = Some(model.profile(&given, runs)?);
    }
    Ok((results, model))
}

fn time(model: &Session, given: &[(&str, Value)], cancellation: &CancellationToken) -> Result<f64> {
    go_on(cancellation)?;
    let start = Instant::now();
    model.run(given)?;
    Ok(milliseconds_since(start))
}

fn milliseconds_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

/// Where a model runs, for people and programs.
pub fn device_name(model: &Session) -> String {
    let id = model.device().id();
    if model.is_hybrid() { format!("cpu+{id}") } else { id.to_string() }
}

/// The most memory that this process ever had, where the system tells.
fn peak_of_process() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes << 10)
}
