//! `polaris bench select`: how long it takes to choose a kernel for a product, in a process that
//! never did so before and in one that did, and what the predictor behind the choices weighs.

use std::hint::black_box;
use std::time::Instant;

use polaris::ops::matmul::{TILE_FEATURES, tile_source};
use polaris::ops::{Array, MatMul, Operation};
use polaris::runtime::opencl::OpenClDevice;
use polaris::{DType, DeviceId, DeviceRef, Shape};
use polaris_tune::choices::Choices;
use polaris_tune::predictor::Saved;
use serde::Serialize;

use crate::arguments::Global;
use crate::output::{self, Table};
use crate::session::Session;
use crate::{exit, interrupt};

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

#[derive(Serialize)]
struct Row {
    device: DeviceId,
    /// The first choice of the process: it reads the decisions.
    first_us: f64,
    /// A later one: the median, and the slowest product's.
    later_us: f64,
    slowest_us: f64,
    /// Decisions of this machine for the device: measured, and predicted.
    measured: usize,
    predicted: usize,
    predictor: Option<PredictorRow>,
}

#[derive(Serialize)]
struct PredictorRow {
    /// Measurements it was trained on.
    samples: usize,
    bytes: usize,
    predict_us: f64,
}

#[derive(Serialize)]
struct Results {
    results: Vec<Row>,
}

pub fn run(global: Global) -> anyhow::Result<u8> {
    let json = global.json;
    let session = Session::new(global)?;
    let mut results = Vec::new();
    for device in session.devices()? {
        if let Some(opencl) = device.as_opencl() {
            results.push(measure(&session, &device, opencl)?);
        }
    }
    anyhow::ensure!(
        !results.is_empty(),
        "kernels are chosen on OpenCL devices, and there is none; `polaris devices` says why"
    );
    if json {
        output::print_json("polaris.bench.select/1", &Results { results })?;
        return Ok(exit::OK);
    }
    output::print_line("choosing the kernel of a product, microseconds")?;
    let mut table = Table::new(&[
        "device",
        ">first",
        ">later",
        ">slowest",
        ">measured",
        ">predicted",
        ">predictor bytes",
        ">us a prediction",
    ]);
    for row in results {
        let predictor = row.predictor.as_ref();
        let show = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        table.row(vec![
            row.device.to_string(),
            format!("{:.1}", row.first_us),
            format!("{:.2}", row.later_us),
            format!("{:.2}", row.slowest_us),
            row.measured.to_string(),
            row.predicted.to_string(),
            show(predictor.map(|p| p.bytes.to_string())),
            show(predictor.map(|p| format!("{:.2}", p.predict_us))),
        ]);
    }
    table.print()?;
    Ok(exit::OK)
}

fn measure(session: &Session, device: &DeviceRef, opencl: &OpenClDevice) -> anyhow::Result<Row> {
    let op = MatMul::default();
    let matrix = |rows: usize, columns: usize| -> anyhow::Result<Array> {
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
        if interrupt::requested() {
            return Err(polaris::runtime::Error::Interrupted.into());
        }
    }
    medians.sort_by(f64::total_cmp);
    let folder = session.runtime.paths().tuning();
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
