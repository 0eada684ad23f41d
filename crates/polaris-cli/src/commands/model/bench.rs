//! `polaris bench model`: the time to load a model, its first run and later runs.

use polaris::runtime::Bytes;
use polaris_bench::model::{self, ModelOptions, Results};

use super::{options as run_options, profile};
use crate::arguments::{BenchModel, Global};
use crate::exit;
use crate::output::{self, Shown, print_line};
use crate::session::Session;

pub fn run(global: Global, options: &BenchModel) -> anyhow::Result<u8> {
    let json = global.json;
    let choice = &options.choice;
    let mut session = Session::for_mode(global, choice.mode)?;
    let chosen = ModelOptions {
        model: choice.model.clone(),
        run: run_options(&mut session, choice.mode, &choice.passes)?,
        lengths: choice.lengths(),
        runs: options.runs,
        seed: options.seed,
        profile: options.profile.is_some(),
    };
    let (results, model) = model::run(&session.runtime, &chosen, &mut Shown::new())?;
    if let (Some(path), Some(taken)) = (&options.profile, &results.profile) {
        profile::write_trace(path, &choice.model.display().to_string(), &model, taken)?;
    }
    match json {
        true => output::print_json("polaris.bench.model/1", &results)?,
        false => print(&results)?,
    }
    Ok(exit::OK)
}

fn print(result: &Results) -> anyhow::Result<()> {
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
        "  {:.2} ms per run (median of {}; minimum {:.2}, p90 {:.2}), {:.1} runs/s",
        result.median_ms, result.runs, result.min_ms, result.p90_ms, result.runs_per_second
    ))?;
    if let (Some(predicted), Some(prediction)) = (result.predicted_ms, &result.prediction) {
        print_line(&format!("  predicted {predicted:.2} ms per run: {prediction}"))?;
    }
    let memory = |name: &str, bytes: Option<u64>| match bytes {
        Some(bytes) => format!(", {name} peak {}", Bytes(bytes)),
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
