//! Searches for the fastest configurations, and stores them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use polaris_core::Progress;
use polaris_runtime::opencl::OpenClDevice;
use polaris_runtime::{Device, DeviceId, DeviceRef, Runtime};
use polaris_tune::choices::{Choice, Choices};
use polaris_tune::strategy::by_name;
use polaris_tune::{Database, DeviceKey, History, Points, ProblemKey, Trial};

use crate::protocol::Config;
use crate::results::{TuneOutcome, Tuned, shape_text};
use crate::search::{Effort, Place, Search};
use crate::subject::{Subject, subject};
use crate::{Budget, Error, Result, TuneOptions, Workers, client, learn};

/// Tunes problems of one operation on the devices that were named. What is measured goes into the database, and what
/// is decided beside it, where later processes find it.
///
/// # Errors
/// If there is nothing to tune or no device, or if a device fails altogether. Candidates that fail are recorded, and
/// a search that is cancelled is an outcome.
pub fn tune(
    runtime: &Runtime,
    options: &TuneOptions,
    progress: &mut dyn Progress,
) -> Result<TuneOutcome> {
    let subject = subject(&options.problems.first().ok_or(Error::NothingToTune)?.operation)?;
    let folder = tuning_folder(runtime);
    let database = folder.as_ref().map(|folder| Database::open(folder));
    if database.is_none() {
        let lost = "the measurements are lost when this command ends";
        progress.note(&format!("there is no data folder; {lost}"));
    }
    let mut outcome = TuneOutcome::default();
    for device in &tunable(runtime, &options.devices)? {
        let opencl = device.as_opencl().ok_or(Error::NotOpenCl)?;
        let client = client::Place {
            host: runtime.cpu(),
            device,
            workers: &options.workers,
            cancellation: &options.cancellation,
        };
        let key = device_key(device.as_ref());
        let place = Place { client, key, source: subject.source(), database: database.as_ref() };
        let tuner = Tuner { subject, opencl, place: &place, folder: folder.as_deref(), options };
        tuner.tune_all(&mut outcome, progress)?;
        if outcome.interrupted() {
            break;
        }
    }
    Ok(outcome)
}

/// What is tuned where.
struct Tuner<'a> {
    subject: &'static dyn Subject,
    opencl: &'a OpenClDevice,
    place: &'a Place<'a>,
    folder: Option<&'a Path>,
    options: &'a TuneOptions,
}

impl Tuner<'_> {
    fn tune_all(&self, outcome: &mut TuneOutcome, progress: &mut dyn Progress) -> Result<()> {
        let points = self.subject.space(self.opencl).points()?;
        for problem in &self.options.problems {
            let tuned = self.tune_one(problem, &points, progress)?;
            outcome.tuned.push(tuned);
            if outcome.interrupted() {
                return Ok(());
            }
        }
        let (Some(folder), Some(database)) = (self.folder, self.place.database) else {
            return Ok(());
        };
        let records = database.load(&self.place.key.chip)?.records;
        if let Some(trained) = learn::retrain(folder, self.opencl, &self.place.key, &records)? {
            progress.note(&format!("{}: {trained}", self.place.client.device.id()));
        }
        Ok(())
    }

    fn tune_one(
        &self,
        problem: &ProblemKey,
        points: &Points,
        progress: &mut dyn Progress,
    ) -> Result<Tuned> {
        let Self { place, options, .. } = self;
        let records = match place.database {
            Some(database) => {
                let loaded = database.load(&place.key.chip)?;
                if loaded.unreadable > 0 {
                    let count = loaded.unreadable;
                    progress.note(&format!("ignored {count} damaged lines of the database"));
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
            Budget::Evaluations(count) => (Some(count), None),
            Budget::Time(time) => (None, Some(time / options.problems.len() as u32)),
        };
        let length = time.map(|time: Duration| time.as_secs() as usize).or(evaluations);
        let length = length.unwrap_or(points.len());
        let device = place.client.device.id();
        let search = Search {
            place,
            problem: problem.clone(),
            points,
            usual: &usual,
            work: self.subject.work(problem),
        };
        progress.begin(&format!("{device} {}", shape_text(problem)), length);
        let predictor = self.folder.and_then(|folder| learn::load(folder, &place.key));
        let prior = learn::prior(predictor.as_ref(), self.opencl, points, problem);
        let mut strategy = by_name(&options.strategy, options.seed, prior)?;
        let here = matches!(options.workers, Workers::Here);
        let effort = Effort {
            evaluations,
            time,
            patience: options.patience,
            // In one process they would take turns.
            workers: if here { 1 } else { options.count },
            passes: options.passes,
        };
        let found = search.run(strategy.as_mut(), known, effort, progress)?;
        progress.end();
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
            let file = Choices::file(folder, &place.key.chip);
            // What this process took for the default may have been decided before.
            let stays = here && choice.config.is_none() && is_decided(&file, problem);
            if !stays {
                Choices::merge_into(&file, &[choice])?;
            }
        }
        // It takes a second, and only the page shows it.
        let predicted = options
            .predictions
            .then(|| learn::held_out(self.opencl, &learn::products(&records, &place.key), problem));
        Ok(Tuned {
            device,
            problem: problem.clone(),
            strategy: options.strategy.clone(),
            work: search.work,
            points: points.clone(),
            predicted: predicted.unwrap_or_default(),
            found,
        })
    }
}

/// Whether a measured decision for a problem is in a file.
fn is_decided(file: &Path, problem: &ProblemKey) -> bool {
    let is_it = |choice: &Choice| choice.problem == *problem && !choice.predicted;
    Choices::load(file).choices.iter().any(is_it)
}

/// The points that every search begins with.
pub fn usual_points(subject: &dyn Subject, device: &OpenClDevice, points: &Points) -> Vec<usize> {
    let point = |config: &Config| points.find_named(|name| config.get(name).copied());
    subject.usual(device).iter().filter_map(point).collect()
}

/// The devices that the user named, or all OpenCL devices.
pub fn tunable(runtime: &Runtime, chosen: &[DeviceId]) -> Result<Vec<DeviceRef>> {
    let mut devices = runtime.chosen(chosen)?;
    if chosen.is_empty() {
        devices.retain(|device| device.as_opencl().is_some());
    }
    if devices.is_empty() { Err(Error::NoDevice) } else { Ok(devices) }
}

/// What measurements of a device are kept under.
pub fn device_key(device: &dyn Device) -> DeviceKey {
    let info = device.info();
    DeviceKey {
        chip: info.chip.key.clone(),
        architecture: info.chip.architecture.clone(),
        vendor: info.vendor.clone(),
        driver: format!("{} {}", info.platform, info.driver),
        compute_units: device.capabilities().compute_units as u32,
    }
}

/// Where measurements and decisions are kept; nothing without a home folder.
pub fn tuning_folder(runtime: &Runtime) -> Option<PathBuf> {
    runtime.paths().tuning()
}
