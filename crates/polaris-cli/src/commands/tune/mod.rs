//! `polaris tune`: searches for the fastest configurations, and stores them.

mod database;
mod study;
mod target;

use std::io::{stdin, stdout};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use polaris_tune::ProblemKey;
use polaris_tuner::{
    TuneOptions, TuneOutcome, Workers, config_text, failures_text, shape_text, tuning_folder,
};

use crate::arguments::{Global, Tune, TuneSearch, TuneWhat};
use crate::checks::worker_command;
use crate::output::{self, Shown, Table, print_line, replace_file, say};
use crate::session::Session;
use crate::{exit, interrupt};

pub fn run(global: Global, options: &Tune) -> anyhow::Result<u8> {
    if options.worker {
        return work(global);
    }
    match &options.what {
        Some(TuneWhat::Gemm(gemm)) => match &gemm.target {
            Some(target) => target::run(&global, gemm, target),
            None => tune(global, gemm.problems(), &gemm.search),
        },
        Some(TuneWhat::Gemv(gemv)) => tune(global, gemv.problems(), &gemv.search),
        Some(TuneWhat::Reduce(reduce)) => tune(global, reduce.problems(), &reduce.search),
        Some(TuneWhat::Permute(permute)) => tune(global, permute.problems(), &permute.search),
        Some(TuneWhat::Study(options)) => study::run(global, options),
        None => database::run(global, options),
    }
}

/// The worker's side: answers requests from stdin until there are no more.
fn work(global: Global) -> anyhow::Result<u8> {
    let session = Session::new(global)?;
    let devices = session.devices()?;
    let device = devices.first().context("a worker needs --device")?;
    let token = interrupt::token();
    polaris_tuner::work(session.runtime.cpu(), device, stdin().lock(), stdout(), &token)?;
    Ok(exit::OK)
}

/// Tunes problems of one operation on all devices that were named.
fn tune(global: Global, problems: Vec<ProblemKey>, search: &TuneSearch) -> anyhow::Result<u8> {
    let worker = worker_command(&global, "tune")?;
    let mut session = Session::new(global)?;
    session.check_new_devices()?;
    let options = TuneOptions {
        problems,
        devices: session.chosen.clone(),
        strategy: search.strategy.clone(),
        seed: search.seed,
        budget: search.budget,
        passes: search.passes,
        patience: Duration::from_secs_f64(search.patience),
        count: search.workers,
        workers: Workers::Processes(Arc::new(worker)),
        predictions: search.report.is_some(),
        cancellation: interrupt::token(),
    };
    let outcome = polaris_tuner::tune(&session.runtime, &options, &mut Shown::new())?;
    match session.global.json {
        true => output::print_json("polaris.tune/1", &outcome.summary())?,
        false => print(&outcome)?,
    }
    if let Some(path) = &search.report {
        replace_file(path, &outcome.page().render())
            .with_context(|| format!("cannot write {}", path.display()))?;
        say!("note: wrote the report to {}", path.display());
    }
    if let Some(folder) = tuning_folder(&session.runtime) {
        say!("note: stored all measurements in {}", folder.display());
    }
    if outcome.interrupted() {
        say!("note: stopped; run the same command to continue");
        return Ok(exit::INTERRUPTED);
    }
    Ok(exit::OK)
}

fn print(outcome: &TuneOutcome) -> anyhow::Result<()> {
    let mut table = Table::new(&[
        "device",
        "shape",
        "type",
        ">default",
        ">best",
        ">speed-up",
        ">evaluations",
        "failed",
        "configuration",
    ]);
    let summary = outcome.summary();
    for (tuned, row) in outcome.tuned.iter().zip(&summary.results) {
        let rate = |of_operations: Option<f64>, of_bytes: Option<f64>| {
            let rate = of_operations.or(of_bytes).unwrap_or_default();
            format!("{rate:.1} {}", tuned.work.unit())
        };
        table.row(vec![
            row.device.clone(),
            format!("{} {}", shape_text(&tuned.problem), row.layout),
            row.dtype.to_owned(),
            rate(row.default_gflops, row.default_gbs),
            rate(row.best_gflops, row.best_gbs),
            format!("{:.2}", row.speedup),
            format!("{} + {}", row.resumed, row.evaluations),
            failures_text(row.failures),
            row.config.as_ref().map_or("default".to_owned(), config_text),
        ]);
    }
    print_line("default and best measured in turns; evaluations: stored + new")?;
    table.print()?;
    print_line(&format!("  geometric mean of speed-ups: {:.3}", summary.geometric_mean))
}
