//! `polaris tune`: searches for the fastest configurations, and remembers them.

mod client;
mod database;
mod inject;
mod learn;
mod protocol;
mod report;
mod results;
mod search;
mod study;
mod subject;
mod target;
mod worker;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use polaris::runtime::opencl::OpenClDevice;
use polaris::{Device, DeviceRef};
use polaris_tune::choices::{Choice, Choices};
use polaris_tune::strategy::by_name;
use polaris_tune::{Database, DeviceKey, History, Points, ProblemKey, Trial};

use crate::arguments::{Global, Tune, TuneBudget, TuneSearch, TuneWhat};
use crate::exit;
use crate::output::{progress, say};
use crate::session::Session;
use protocol::Config;
use results::{Results, Tuned};
use search::{Budget, Place, Search};
use subject::{Subject, subject};

pub fn run(global: Global, options: &Tune) -> anyhow::Result<u8> {
    if options.worker {
        return worker::work(global);
    }
    match &options.what {
        Some(TuneWhat::Gemm(gemm)) => match &gemm.target {
            Some(target) => target::run(&global, gemm, target),
            None => tune(global, &gemm.problems(), &gemm.search),
        },
        Some(TuneWhat::Gemv(gemv)) => tune(global, &gemv.problems(), &gemv.search),
        Some(TuneWhat::Reduce(reduce)) => tune(global, &reduce.problems(), &reduce.search),
        Some(TuneWhat::Permute(permute)) => tune(global, &permute.problems(), &permute.search),
        Some(TuneWhat::Study(options)) => study::run(global, options),
        None => database::run(global, options),
    }
}

/// Tunes problems of one operation on all devices that were named.
fn tune(global: Global, problems: &[ProblemKey], options: &TuneSearch) -> anyhow::Result<u8> {
    let mut session = Session::new(global.clone())?;
    session.check_new_devices()?;
    let subject = subject(&problems.first().context("nothing to tune was named")?.operation)?;
    let folder = tuning_folder(&session);
    let database = folder.as_ref().map(|folder| Database::open(folder));
    if database.is_none() {
        say!("note: there is no home folder; what is found is forgotten when this command ends");
    }
    let mut results = Results::default();
    for device in &tunable(&session)? {
        let opencl = device.as_opencl().context("only OpenCL devices are tuned")?;
        let place = Place {
            global: &global,
            device: device.id(),
            key: device_key(device.as_ref()),
            source: subject.source(),
            database: database.as_ref(),
        };
        let tuner = Tuner { subject, opencl, place: &place, folder: folder.as_deref(), options };
        tuner.tune_all(problems, &mut results)?;
        if results.interrupted() {
            break;
        }
    }
    results.print(global.json)?;
    if let Some(path) = &options.report {
        results.write_report(path)?;
    }
    if let Some(folder) = &folder {
        say!("note: everything measured is in {}", folder.display());
    }
    if results.interrupted() {
        say!("note: stopped; the same command goes on where this one ended");
        return Ok(exit::INTERRUPTED);
    }
    Ok(exit::OK)
}

/// What is tuned where.
struct Tuner<'a> {
    subject: &'static dyn Subject,
    opencl: &'a OpenClDevice,
    place: &'a Place<'a>,
    folder: Option<&'a Path>,
    options: &'a TuneSearch,
}

impl Tuner<'_> {
    fn tune_all(&self, problems: &[ProblemKey], results: &mut Results) -> anyhow::Result<()> {
        let points = self.subject.space(self.opencl).points()?;
        for problem in problems {
            let tuned = self.tune_one(problem, &points, problems.len())?;
            results.add(tuned);
            if results.interrupted() {
                return Ok(());
            }
        }
        let (Some(folder), Some(database)) = (self.folder, self.place.database) else {
            return Ok(());
        };
        let records = database.load(&self.place.key.chip)?.records;
        if let Some(trained) = learn::retrain(folder, self.opencl, &self.place.key, &records)? {
            say!("note: {}: {trained}", self.place.device);
        }
        Ok(())
    }

    fn tune_one(
        &self,
        problem: &ProblemKey,
        points: &Points,
        problems: usize,
    ) -> anyhow::Result<Tuned> {
        let Self { place, options, .. } = self;
        let records = match place.database {
            Some(database) => {
                let loaded = database.load(&place.key.chip)?;
                if loaded.unreadable > 0 {
                    let count = loaded.unreadable;
                    say!("note: {count} damaged lines of the database are left out");
                }
                loaded.records
            }
            None => Vec::new(),
        };
        let mut known = History::default();
        let current = learn::current(&records, &place.key, &place.source);
        for record in current.into_iter().filter(|record| record.problem == *problem) {
            if let Some(point) = points.find_named(|name| record.config.get(name).copied()) {
                known.add(Trial { point, seconds: record.outcome.seconds() });
            }
        }
        let usual = usual_points(self.subject, self.opencl, points);
        let (evaluations, time) = match options.budget {
            TuneBudget::Evaluations(count) => (Some(count), None),
            TuneBudget::Time(time) => (None, Some(time / problems as u32)),
        };
        let length = time.map(|time: Duration| time.as_secs() as usize).or(evaluations);
        let length = length.unwrap_or(points.len());
        let title = format!("{} {}", place.device, results::shape_text(problem));
        let search = Search {
            place,
            problem: problem.clone(),
            points,
            usual: &usual,
            work: self.subject.work(problem),
            bar: progress(length, &title),
        };
        let predictor = self.folder.and_then(|folder| learn::load(folder, &place.key));
        let prior = learn::prior(predictor.as_ref(), self.opencl, points, problem);
        let mut strategy = by_name(&options.strategy, options.seed, prior)?;
        let budget = Budget {
            evaluations,
            time,
            patience: Duration::from_secs_f64(options.patience),
            workers: options.workers,
            passes: options.passes,
        };
        let found = search.run(strategy.as_mut(), known, budget)?;
        search.bar.finish_and_clear();
        if let (Some(folder), false) = (self.folder, found.interrupted) {
            let choice = Choice {
                problem: problem.clone(),
                config: found.config.clone(),
                seconds: found.best.seconds,
                default_seconds: found.default.seconds,
                driver: place.key.driver.clone(),
                source: place.source.clone(),
                predicted: false,
            };
            Choices::merge_into(&Choices::file(folder, &place.key.chip), &[choice])?;
        }
        // It takes a second, and only the page shows it.
        let predicted = options
            .report
            .as_ref()
            .map(|_| learn::held_out(self.opencl, &learn::products(&records, &place.key), problem));
        Ok(Tuned {
            device: place.device,
            problem: problem.clone(),
            strategy: options.strategy.clone(),
            work: search.work,
            points: points.clone(),
            predicted: predicted.unwrap_or_default(),
            found,
        })
    }
}

/// The points that every search begins with.
fn usual_points(subject: &dyn Subject, device: &OpenClDevice, points: &Points) -> Vec<usize> {
    let point = |config: &Config| points.find_named(|name| config.get(name).copied());
    subject.usual(device).iter().filter_map(point).collect()
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
