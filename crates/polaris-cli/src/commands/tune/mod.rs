//! `polaris tune`: searches for the fastest configurations, and remembers them.

mod client;
mod database;
mod inject;
mod protocol;
mod search;
mod study;
mod worker;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use polaris::ops::matmul::{config_of, tile_source, tile_space, usual_tiles};
use polaris::{Device, DeviceRef};
use polaris_tune::choices::{Choice, Choices};
use polaris_tune::strategy::by_name;
use polaris_tune::{Database, DeviceKey, Failure, History, Points, ProblemKey, Trial};
use serde::Serialize;

use crate::arguments::{Global, Tune, TuneBudget, TuneGemm, TuneWhat};
use crate::commands::bench_gemm::cases::Dims;
use crate::exit;
use crate::output::{self, Table, print_line, progress};
use crate::session::Session;
use protocol::{Config, Job};
use search::{Budget, Found, Place, Search};

pub fn run(global: Global, options: &Tune) -> anyhow::Result<u8> {
    if options.worker {
        return worker::work(global);
    }
    match &options.what {
        Some(TuneWhat::Gemm(gemm)) => tune(global, gemm),
        Some(TuneWhat::Study(options)) => study::run(global, options),
        None => database::run(global, options),
    }
}

/// One product of the results.
#[derive(Debug, Serialize)]
struct Row {
    device: String,
    shape: [usize; 3],
    dtype: String,
    transpose: String,
    strategy: String,
    /// Valid configurations.
    space: usize,
    /// Of this run, and those that were known from earlier ones.
    evaluations: usize,
    resumed: usize,
    failed: usize,
    failures: Vec<(Failure, usize)>,
    default_gflops: f64,
    best_gflops: f64,
    speedup: f64,
    drift: f64,
    /// None where the default is as good.
    config: Option<Config>,
    interrupted: bool,
}

#[derive(Debug, Serialize)]
struct Results {
    results: Vec<Row>,
    /// Over all products.
    geometric_mean: f64,
}

fn tune(global: Global, options: &TuneGemm) -> anyhow::Result<u8> {
    let json = global.json;
    let mut session = Session::new(global.clone())?;
    session.check_new_devices()?;
    let folder = tuning_folder(&session);
    let database = folder.as_ref().map(|folder| Database::open(folder));
    if database.is_none() {
        eprintln!(
            "note: there is no home folder; what is found is forgotten when this command ends"
        );
    }
    let mut results = Results { results: Vec::new(), geometric_mean: 1.0 };
    let devices = tunable(&session)?;
    'all: for device in &devices {
        let opencl = device.as_opencl().context("only OpenCL devices are tuned")?;
        let points = tile_space(opencl).points()?;
        let usual: Vec<usize> = usual_tiles(opencl)
            .filter_map(|tile| {
                let config = config_of(&tile);
                points.find_named(|name| config.iter().find(|(n, _)| *n == name).map(|&(_, v)| v))
            })
            .collect();
        let place = Place {
            global: &global,
            device: device.id(),
            key: device_key(device.as_ref()),
            source: tile_source(),
            database: database.as_ref(),
        };
        for &dims in &options.all_shapes() {
            let row = tune_one(options, &place, folder.as_deref(), &points, &usual, dims)?;
            let interrupted = row.interrupted;
            results.results.push(row);
            if interrupted {
                break 'all;
            }
        }
    }
    let logs: f64 = results.results.iter().map(|row| row.speedup.ln()).sum();
    results.geometric_mean = (logs / results.results.len().max(1) as f64).exp();
    if json {
        output::print_json("polaris.tune/1", &results)?;
    } else {
        print(&results)?;
    }
    if let Some(folder) = &folder {
        eprintln!("note: everything measured is in {}", folder.display());
    }
    if results.results.iter().any(|row| row.interrupted) {
        eprintln!("note: stopped; the same command goes on where this one ended");
        return Ok(exit::INTERRUPTED);
    }
    Ok(exit::OK)
}

fn tune_one(
    options: &TuneGemm,
    place: &Place,
    folder: Option<&std::path::Path>,
    points: &Points,
    usual: &[usize],
    dims: Dims,
) -> anyhow::Result<Row> {
    let (dtype, transpose) = (options.dtype.name(), options.transpose.name());
    let problem = ProblemKey {
        operation: "matmul".to_owned(),
        dtype: dtype.to_owned(),
        layout: transpose.to_owned(),
        shape: [dims.m, dims.n, dims.k].map(|size| size as u64).to_vec(),
    };
    let job = Job {
        m: dims.m,
        n: dims.n,
        k: dims.k,
        dtype: dtype.to_owned(),
        transpose: transpose.to_owned(),
    };
    let known = known(place, &problem, points)?;
    let shapes = options.all_shapes().len() as u32;
    let (evaluations, time) = match options.budget {
        TuneBudget::Evaluations(count) => (Some(count), None),
        TuneBudget::Time(time) => (None, Some(time / shapes)),
    };
    let bar = progress(evaluations.unwrap_or(points.len()), &format!("{} {dims}", place.device));
    let search = Search { place, job, problem: problem.clone(), points, usual, bar };
    let mut strategy = by_name(&options.strategy, options.seed, None)?;
    let budget = Budget {
        evaluations,
        time,
        patience: Duration::from_secs_f64(options.patience),
        workers: options.workers,
    };
    let found = search.run(strategy.as_mut(), known, budget)?;
    search.bar.finish_and_clear();
    if let (Some(folder), false) = (folder, found.interrupted) {
        let choice = Choice {
            problem,
            config: found.config.clone(),
            seconds: found.best.seconds,
            default_seconds: found.default.seconds,
            driver: place.key.driver.clone(),
            source: place.source.clone(),
            predicted: false,
        };
        Choices::merge_into(&Choices::file(folder, &place.key.chip), &[choice])?;
    }
    Ok(row(options, place, points, dims, found))
}

fn row(options: &TuneGemm, place: &Place, points: &Points, dims: Dims, found: Found) -> Row {
    let gflops = |seconds: f64| dims.operations() / seconds / 1e9;
    Row {
        device: place.device.to_string(),
        shape: [dims.m, dims.n, dims.k],
        dtype: options.dtype.name().to_owned(),
        transpose: options.transpose.name().to_owned(),
        strategy: options.strategy.clone(),
        space: points.len(),
        evaluations: found.evaluations,
        resumed: found.resumed,
        failed: found.failed.iter().map(|(_, count)| count).sum(),
        failures: found.failed,
        default_gflops: gflops(found.default.seconds),
        best_gflops: gflops(found.best.seconds),
        speedup: if found.interrupted { 1.0 } else { found.default.seconds / found.best.seconds },
        drift: found.drift,
        config: found.config,
        interrupted: found.interrupted,
    }
}

/// What was measured before with this driver and source, as trials of these points.
fn known(place: &Place, problem: &ProblemKey, points: &Points) -> anyhow::Result<History> {
    let Some(database) = place.database else { return Ok(History::default()) };
    let loaded = database.load(&place.key.chip)?;
    if loaded.unreadable > 0 {
        eprintln!("note: {} damaged lines of the database are left out", loaded.unreadable);
    }
    let same = loaded.records.iter().filter(|record| {
        record.problem == *problem
            && record.source == place.source
            && record.device.driver == place.key.driver
    });
    let mut history = History::default();
    for record in same {
        if let Some(point) = points.find_named(|name| record.config.get(name).copied()) {
            history.trials.push(Trial { point, seconds: record.outcome.seconds() });
        }
    }
    Ok(history)
}

/// The devices that the user named, or all OpenCL devices.
fn tunable(session: &Session) -> anyhow::Result<Vec<DeviceRef>> {
    let mut devices = session.devices()?;
    if session.global.device.is_empty() {
        devices.retain(|device| device.as_opencl().is_some());
    }
    anyhow::ensure!(
        !devices.is_empty(),
        "there is no OpenCL device to tune; `polaris devices` says why"
    );
    Ok(devices)
}

fn device_key(device: &dyn Device) -> DeviceKey {
    let info = device.info();
    DeviceKey {
        chip: info.chip.key.clone(),
        architecture: info.chip.architecture.clone(),
        vendor: info.vendor.clone(),
        driver: format!("{} {}", info.platform, info.driver),
        compute_units: device.capabilities().compute_units as u32,
    }
}

fn tuning_folder(session: &Session) -> Option<PathBuf> {
    session.runtime.paths().tuning()
}

fn print(results: &Results) -> anyhow::Result<()> {
    let headings = [
        "device",
        "shape",
        "type",
        ">default",
        ">best",
        ">speed-up",
        ">evaluations",
        ">failed",
        "configuration",
    ];
    let mut table = Table::new(&headings);
    for row in &results.results {
        let [m, n, k] = row.shape;
        let config = row.config.as_ref().map_or("the default".to_owned(), |config| {
            let parts: Vec<String> =
                config.iter().map(|(name, value)| format!("{name}={value}")).collect();
            parts.join(" ")
        });
        table.row(vec![
            row.device.clone(),
            format!("{m}x{n}x{k} {}", row.transpose),
            row.dtype.clone(),
            format!("{:.1}", row.default_gflops),
            format!("{:.1}", row.best_gflops),
            format!("{:.2}", row.speedup),
            format!("{} + {}", row.resumed, row.evaluations),
            row.failed.to_string(),
            config,
        ]);
    }
    print_line("GFLOPS, default and best measured in turns; evaluations: known + new")?;
    table.print()?;
    print_line(&format!("  geometric mean of speed-ups: {:.3}", results.geometric_mean))
}
