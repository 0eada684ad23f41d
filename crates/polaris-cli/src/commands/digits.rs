//! The digits model that is built in: handwritten digits, read on every device.

use std::path::Path;
use std::time::Instant;

use polaris::DeviceRef;
use polaris::nn::train::{ModelFile, evaluate, load_data};
use serde::Serialize;

/// What `polaris train digits` made.
const MODEL: &[u8] = include_bytes!("../../models/digits.safetensors");

/// How a device reads the digits that the model did not learn from.
#[derive(Serialize)]
pub struct ReadDigits {
    pub device: String,
    pub digits: usize,
    pub right: usize,
    /// Digits a second, once everything is built.
    pub per_second: f64,
}

/// Reads the digits of the validation part.
pub fn read(device: &DeviceRef) -> anyhow::Result<ReadDigits> {
    let (about, model) = ModelFile::decode(Path::new("the built-in model"), MODEL, device)?;
    let data = load_data(&about.config, Path::new(""), None)?;
    let validation = data.validation.expect("the built-in model should have digits to test with");
    let run = || evaluate(&*model, &validation, data.task, device, None);
    // Once, so that kernels are built.
    run()?;
    let begin = Instant::now();
    let found = run()?;
    let seconds = begin.elapsed().as_secs_f64();
    let right = (0..found.confusion.len()).map(|class| found.confusion[class][class]).sum::<u64>();
    Ok(ReadDigits {
        device: device.id().to_string(),
        digits: found.examples,
        right: right as usize,
        per_second: found.examples as f64 / seconds,
    })
}
