//! Listing and explaining the contents of the database.

use std::path::Path;

use polaris_core::DType;
use polaris_ops::matmul::{self, Explanation};
use polaris_runtime::{DeviceId, Runtime};
use polaris_tune::choices::{Choice, Choices};
use polaris_tune::{Database, Outcome, Record};
use serde::Serialize;

use crate::subject::{Work, subject};
use crate::tune::{device_key, tuning_folder};
use crate::{Error, Result};

/// A problem that was measured with a driver.
#[derive(Debug, Serialize)]
pub struct Listed {
    /// The key of the chip.
    pub chip: String,
    /// The driver.
    pub driver: String,
    /// The operation.
    pub operation: String,
    /// The type.
    pub dtype: String,
    /// The memory layout of the operands.
    pub layout: String,
    /// The problem's sizes.
    pub shape: Vec<u64>,
    /// How many there are.
    pub measurements: usize,
    /// How many of them failed.
    pub failed: usize,
    /// Where operations are counted.
    pub best_gflops: Option<f64>,
    /// Where bytes are.
    pub best_gbs: Option<f64>,
}

/// All problems that were measured.
#[derive(Debug, Serialize)]
pub struct Listing {
    /// The folder of the database.
    pub folder: String,
    /// Problem after problem.
    pub problems: Vec<Listed>,
    /// Damaged lines.
    pub unreadable: usize,
    /// Lines of another version.
    pub other_schema: usize,
}

/// What is in the database of a folder.
///
/// # Errors
/// If it cannot be read.
pub fn list(folder: &Path) -> Result<Listing> {
    let loaded = Database::open(folder).load_all()?;
    let mut problems: Vec<Listed> = Vec::new();
    for record in &loaded.records {
        add(&mut problems, record);
    }
    let (unreadable, other_schema) = (loaded.unreadable, loaded.other_schema);
    Ok(Listing { folder: folder.display().to_string(), problems, unreadable, other_schema })
}

fn add(listed: &mut Vec<Listed>, record: &Record) {
    let (device, problem) = (&record.device, &record.problem);
    let same = |one: &Listed| {
        one.chip == device.chip
            && one.driver == device.driver
            && one.operation == problem.operation
            && one.dtype == problem.dtype
            && one.layout == problem.layout
            && one.shape == problem.shape
    };
    let place = listed.iter().position(same).unwrap_or(listed.len());
    if place == listed.len() {
        listed.push(Listed {
            chip: device.chip.clone(),
            driver: device.driver.clone(),
            operation: problem.operation.clone(),
            dtype: problem.dtype.clone(),
            layout: problem.layout.clone(),
            shape: problem.shape.clone(),
            measurements: 0,
            failed: 0,
            best_gflops: None,
            best_gbs: None,
        });
    }
    let one = &mut listed[place];
    one.measurements += 1;
    one.failed += usize::from(matches!(record.outcome, Outcome::Failed { .. }));
    // Operations of another version are counted, but what they do is not known.
    if let (Some(seconds), Ok(subject)) = (record.outcome.seconds(), subject(&problem.operation)) {
        let work = subject.work(problem);
        let best = match work {
            Work::Operations(_) => &mut one.best_gflops,
            Work::Bytes(_) => &mut one.best_gbs,
        };
        *best = Some(best.unwrap_or(0.0).max(work.rate(seconds)));
    }
}

/// What will be taken for a product on a device, and why.
#[derive(Debug, Serialize)]
pub struct Explained {
    /// The device.
    pub device: String,
    /// The key of its chip.
    pub chip: String,
    /// Measurements of this very shape.
    pub measurements: usize,
    /// The tile that will be taken.
    pub kernel: Option<String>,
    /// The decision behind it.
    pub choice: Option<Choice>,
    /// Why it is used.
    pub reason: String,
}

/// What is known of an `f32` product of m, n, k on these devices, or on all, and what will be taken for it.
///
/// # Errors
/// If a device is not there, or if the database cannot be read.
pub fn explain(
    runtime: &Runtime,
    devices: &[DeviceId],
    shape: [usize; 3],
) -> Result<Vec<Explained>> {
    let folder = tuning_folder(runtime).ok_or(Error::NoFolder)?;
    let records = Database::open(&folder).load_all()?.records;
    let mut explained = Vec::new();
    for device in runtime.chosen(devices)? {
        let Some(opencl) = device.as_opencl() else { continue };
        let chip = &device.info().chip.key;
        let wanted = shape.map(|size| size as u64);
        let of_chip =
            records.iter().filter(|r| r.device.chip == *chip && r.problem.shape == wanted);
        let found = matmul::explain(opencl, DType::F32, "nn", shape);
        let choices = Choices::load(&Choices::file(&folder, chip)).choices;
        let choice = found.as_ref().and_then(|found| {
            let sizes = found.sizes.map(|size| size as u64);
            choices.into_iter().find(|choice| choice.problem.shape == sizes)
        });
        let aligned = shape.iter().all(|size| size.is_multiple_of(4));
        let default = matmul::default_tile(opencl, DType::F32, shape, aligned);
        let tile = found.as_ref().and_then(|found| found.tile).or(default);
        let driver = device_key(device.as_ref()).driver;
        explained.push(Explained {
            device: device.id().to_string(),
            chip: chip.clone(),
            measurements: of_chip.count(),
            kernel: tile.map(|tile| tile.name()),
            reason: reason(found.as_ref(), choice.as_ref(), shape, &driver),
            choice,
        });
    }
    Ok(explained)
}

/// Why it is used.
fn reason(
    found: Option<&Explanation>,
    choice: Option<&Choice>,
    shape: [usize; 3],
    driver: &str,
) -> String {
    let Some(found) = found else {
        return "no similar shape was tuned, so the cost model chooses".to_owned();
    };
    let how = if found.predicted { "predicted" } else { "measured" };
    let place = match found.shipped_for {
        Some(chip) => format!("from the decisions for {chip} that come with Polaris"),
        None => "on this machine".to_owned(),
    };
    let mut text = format!("{how} {place}");
    if found.sizes != shape {
        let [m, n, k] = found.sizes;
        text += &format!(" at {m}x{n}x{k}, the nearest shape");
    }
    match choice {
        Some(choice) if found.tile.is_some() => {
            let times = choice.default_seconds / choice.seconds;
            text += &format!(", {times:.2} times as fast as the default");
        }
        _ if found.tile.is_none() => text += ", nothing was faster than the default",
        _ => {}
    }
    if choice.is_some_and(|choice| choice.driver != driver && found.shipped_for.is_none()) {
        text += "; it was measured with another driver, so tune again";
    }
    text
}
