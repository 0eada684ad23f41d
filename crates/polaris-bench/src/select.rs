//! The time to choose a matmul kernel, for the first time in a process and later, and the size of the predictor.

use std::hint::black_box;
use std::time::Instant;

use polaris_core::{CancellationToken, DType, Shape};
use polaris_ops::matmul::{TILE_FEATURES, tile_source};
use polaris_ops::{Array, MatMul, Operation};
use polaris_runtime::opencl::OpenClDevice;
use polaris_runtime::{DeviceId, DeviceRef, Runtime};
use polaris_tune::choices::Choices;
use polaris_tune::predictor::Saved;
use serde::Serialize;

use crate::error::go_on;
use crate::{Error, Result};

/// Sizes of the products that are chosen for: tuned ones, ones between, odd ones.
const SIZES: [[usize; 3]; 6] = [
    [256, 256, 256],
    [300, 516, 400],
    [512, 512, 512],
    [777, 1023, 511],
    [1024, 1024, 1024],
    [2048, 1024, 512],
];
/// Choices of one batch.
const CALLS: usize = 200;
/// Batches of each product; the median counts.
const BATCHES: usize = 31;

/// Choices on a device.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The device.
    pub device: DeviceId,
    /// The first choice of the process: it reads the decisions.
    pub first_us: f64,
    /// A later one, the median over the products.
    pub later_us: f64,
    /// A later one, of the slowest product.
    pub slowest_us: f64,
    /// Decisions of this machine for the device that were measured.
    pub measured: usize,
    /// Those that were predicted.
    pub predicted: usize,
    /// The predictor behind them.
    pub predictor: Option<PredictorRow>,
}

/// The predictor of a device.
#[derive(Debug, Serialize)]
pub struct PredictorRow {
    /// Measurements it was trained on.
    pub samples: usize,
    /// Its size.
    pub bytes: usize,
    /// Microseconds of a prediction.
    pub predict_us: f64,
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct Results {
    /// A row for each device.
    pub results: Vec<Row>,
}

/// Measures choices on these devices, or on all of them.
///
/// # Errors
/// If there is no OpenCL device among them or if it is cancelled.
pub fn run(
    runtime: &Runtime,
    devices: &[DeviceId],
    cancellation: &CancellationToken,
) -> Result<Results> {
    let mut results = Vec::new();
    for device in runtime.chosen(devices)? {
        if let Some(opencl) = device.as_opencl() {
            results.push(measure(runtime, &device, opencl, cancellation)?);
        }
    }
    if results.is_empty() { Err(Error::NoOpenCl) } else { Ok(Results { results }) }
}

fn measure(
    runtime: &Runtime,
    device: &DeviceRef,
    opencl: &OpenClDevice,
    cancellation: &CancellationToken,
) -> Result<Row> {
    let op = MatMul::default();
    let matrix = |rows: usize, columns: usize| -> Result<Array> {
        Ok(Array::empty(device, DType::F32, Shape::new(&[rows, columns])?)?)
    };
    let mut products = Vec::new();
    for [m, n, k] in SIZES {
        products.push([matrix(m, k)?, matrix(k, n)?, matrix(m, n)?]);
    }
    let choose = |[a, b, out]: &[Array; 3]| black_box(op.preferred(opencl, &[a, b], out));
    let begin = Instant::now();
    choose(&products[0]);
    let first_us = begin.elapsed().as_secs_f64() * 1e6;
    let mut medians = Vec::new();
    for product in &products {
        let mut times: Vec<f64> = (0..BATCHES)
            .map(|_| {
                let begin = Instant::now();
                for _ in 0..CALLS {
                    choose(product);
                }
                begin.elapsed().as_secs_f64() * 1e6 / CALLS as f64
            })
            .collect();
        times.sort_by(f64::total_cmp);
        medians.push(times[BATCHES / 2]);
        go_on(cancellation)?;
    }
    medians.sort_by(f64::total_cmp);
    let folder = runtime.paths().tuning();
    let chip = &device.info().chip.key;
    let choices = folder.as_ref().map(|folder| Choices::load(&Choices::file(folder, chip)));
    let choices = choices.unwrap_or_default().choices;
    let predicted = choices.iter().filter(|choice| choice.predicted).count();
    let saved = folder
        .as_ref()
        .and_then(|folder| Saved::load(&Saved::file(folder, chip), &tile_source(), TILE_FEATURES));
    Ok(Row {
        device: device.id(),
        first_us,
        later_us: medians[medians.len() / 2],
        slowest_us: medians[medians.len() - 1],
        measured: choices.len() - predicted,
        predicted,
        predictor: saved.as_ref().map(predictor),
    })
}

fn predictor(saved: &Saved) -> PredictorRow {
    let features = vec![1.0; TILE_FEATURES.len()];
    let begin = Instant::now();
    for _ in 0..BATCHES * CALLS {
        black_box(saved.predictor.predict(black_box(&features)));
    }
    let predict_us = begin.elapsed().as_secs_f64() * 1e6 / (BATCHES * CALLS) as f64;
    PredictorRow { samples: saved.samples, bytes: saved.predictor.bytes(), predict_us }
}
