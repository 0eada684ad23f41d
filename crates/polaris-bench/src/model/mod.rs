//! `polaris bench model`: how long a model takes to load, to run first, and to run.

use std::path::PathBuf;
use std::time::Instant;

use polaris::graph::plan::{Prediction, Side};
use polaris::onnx::Value;
use polaris::runtime::Bytes;
use serde::Serialize;

use super::{closed_inputs, device_name, inputs, load, plan_for, profile};
use crate::arguments::{BenchModel, Global};
use crate::output::{self, print_line, progress};
use crate::session::Session;
use crate::{exit, interrupt};

/// Runs after the first one that are not counted: threads wake, caches and clocks settle.
const WARM_UP: u32 = 2;

#[derive(Serialize)]
struct Result {
    model: PathBuf,
    mode: String,
    device: String,
    threads: usize,
    inputs: Vec<String>,
    /// Reading the file; plans are made by the first run.
    load_ms: f64,
    first_ms: f64,
    runs: usize,
    median_ms: f64,
    min_ms: f64,
    p90_ms: f64,
    runs_per_second: f64,
    /// What a run was expected to take, where the plan was chosen by that.
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prediction: Option<Prediction>,
    /// Of the whole process, where the system tells.
    peak_process_bytes: Option<u64>,
    /// Of the device's own memory.
    peak_device_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<polaris::graph::Profile>,
}

pub fn run(global: Global, options: &BenchModel) -> anyhow::Result<u8> {
    let json = global.json;
    let mut session = Session::for_mode(global, options.choice.mode)?;
    let start = Instant::now();
    let model = load(&mut session, &options.choice)?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let types = closed_inputs(&model, &options.choice)?;
    let mut given = Vec::new();
    for (name, ty) in &types {
        let tensor = inputs::random(ty, name, options.seed)?;
        given.push((name.as_str(), Value::Tensor(tensor)));
    }
    let time = || -> anyhow::Result<f64> {
        if interrupt::requested() {
            return Err(polaris::runtime::Error::Interrupted.into());
        }
        let start = Instant::now();
        model.run(&given)?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    let first_ms = time()?;
    for _ in 0..WARM_UP {
        time()?;
    }
    let bar = progress(options.runs as usize, "running");
    let mut times = Vec::with_capacity(options.runs as usize);
    for _ in 0..options.runs {
        times.push(time()?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    let prediction = plan_for(&model, &types)?.prediction.clone();
    let mut result = Result {
        model: options.choice.model.clone(),
        mode: options.choice.mode.name().to_owned(),
        device: device_name(&model),
        threads: session.runtime.cpu().capabilities().compute_units,
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
    if let Some(path) = &options.profile {
        let taken = model.profile(&given, options.runs as usize)?;
        let title = options.choice.model.display().to_string();
        profile::write_trace(path, &title, &model, &taken)?;
        result.profile = Some(taken);
    }
    match json {
        true => output::print_json("polaris.bench.model/1", &result)?,
        false => print(&result)?,
    }
    Ok(exit::OK)
}

/// The most memory that this process ever had, where the system tells.
fn peak_of_process() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes << 10)
}

fn print(result: &Result) -> anyhow::Result<()> {
    if let Some(taken) = &result.profile {
        profile::print(taken)?;
    }
    print_line(&format!(
        "{} on {} with {} threads: {}",
        result.model.display(),
        result.device,
        result.threads,
        result.inputs.join(", ")
    ))?;
    print_line(&format!(
        "  {:.2} ms a run (median of {}; least {:.2}, 90% within {:.2}), {:.1} runs a second",
        result.median_ms, result.runs, result.min_ms, result.p90_ms, result.runs_per_second
    ))?;
    if let (Some(predicted), Some(prediction)) = (result.predicted_ms, &result.prediction) {
        print_line(&format!("  expected {predicted:.2} ms a run: {prediction}"))?;
    }
    let memory = |name: &str, bytes: Option<u64>| match bytes {
        Some(bytes) => format!(", {name} at most {}", Bytes(bytes)),
        None => String::new(),
    };
    print_line(&format!(
        "  loaded in {:.1} ms, first run {:.1} ms{}{}",
        result.load_ms,
        result.first_ms,
        memory("process", result.peak_process_bytes),
        memory("device", result.peak_device_bytes)
    ))
}
