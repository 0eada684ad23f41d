//! The HTML report of an ONNX model with layers of integers.

use std::path::Path;
use std::time::{Duration, Instant};

use polaris::graph::{Options, Session as Model};
use polaris::onnx::{Tensor, Value};
use polaris::optimize::calibration::Histograms;
use polaris_report::{BarPlot, LinePlot, Page, Series, Table};
use serde::Serialize;

use super::onnx::{Result, TensorResult};
use crate::output::replace_file;
use crate::session::Session;

/// Rounds of both models in turns, after two that warm up.
const ROUNDS: usize = 30;

/// The longest time that they take together.
const LONGEST: Duration = Duration::from_secs(20);

/// Histograms that are drawn, those of the narrowest ranges first.
const DRAWN: usize = 24;

/// Points of a histogram, at most.
const POINTS: usize = 400;

/// Median times of a batch.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Speed {
    /// Samples of the batch.
    pub batch: usize,
    pub before_ms: f64,
    pub after_ms: f64,
}

/// Measures both models with the same samples, in turns.
pub fn speed(
    session: &Session,
    options: &Options,
    models: [&polaris::onnx::Model; 2],
    batch: &[(String, Tensor)],
) -> anyhow::Result<Speed> {
    let load = |model: &polaris::onnx::Model| Model::new(&session.runtime, model.clone(), options);
    let models = [load(models[0])?, load(models[1])?];
    let given: Vec<(&str, Value)> =
        batch.iter().map(|(name, tensor)| (name.as_str(), tensor.clone().into())).collect();
    let mut times = [Vec::new(), Vec::new()];
    let begin = Instant::now();
    for round in 0..ROUNDS + 2 {
        for turn in 0..2 {
            let which = (turn + round) % 2;
            let start = Instant::now();
            models[which].run(&given)?;
            // A model that takes longer than all the time there is has one time at least.
            if round > 1 || begin.elapsed() > LONGEST {
                times[which].push(start.elapsed().as_secs_f64() * 1e3);
            }
        }
        if begin.elapsed() > LONGEST && times.iter().all(|list| !list.is_empty()) {
            break;
        }
    }
    let [before_ms, after_ms] = times.map(|mut list| {
        list.sort_by(f64::total_cmp);
        list.get(list.len() / 2).copied().unwrap_or(0.0)
    });
    let samples = batch.first().and_then(|(_, tensor)| tensor.shape().first().copied());
    Ok(Speed { batch: samples.unwrap_or(0), before_ms, after_ms })
}

/// Writes the page.
pub fn write(path: &Path, result: &Result<'_>, histograms: &Histograms) -> anyhow::Result<()> {
    let bytes = result.bytes.unwrap_or(0);
    let share = 100.0 * bytes as f64 / result.bytes_before.max(1) as f64;
    let integers = result.layers.iter().filter(|layer| layer.reason.is_none()).count();
    let mut lead = format!(
        "{integers} of {} convolutions and products compute with integers; the file has {share:.0} % of its size",
        result.layers.len()
    );
    let mut facts = vec![
        ("model", result.model.display().to_string()),
        ("calibration", format!("{}, {} samples", result.calibration, result.samples)),
        ("size", format!("{} bytes, then {bytes}", result.bytes_before)),
    ];
    if let Some(speed) = result.speed {
        let times = speed.before_ms / speed.after_ms;
        lead += &format!(", and it takes {:.2} times as long", 1.0 / times);
        let Speed { batch, before_ms, after_ms } = speed;
        facts.push((
            "time",
            format!("{before_ms:.3} ms, then {after_ms:.3} ms for {batch} samples ({times:.2} times as fast), in turns"),
        ));
    }
    let mut page = Page::new("Integers after training").lead(&(lead + ".")).facts(&facts);
    page = page.section("Layers").text(
        "The signal-to-noise ratio of each layer's results, with all layers before it quantised as well.",
    );
    let measured: Vec<_> = result.layers.iter().filter(|layer| layer.sqnr_db.is_some()).collect();
    page = page.bars(&BarPlot {
        title: "Signal-to-noise ratio".into(),
        y_label: "decibels".into(),
        groups: measured.iter().map(|layer| layer.name.clone()).collect(),
        series: vec![("SQNR".into(), measured.iter().map(|layer| layer.sqnr_db).collect())],
        ..BarPlot::default()
    });
    page = page.table(&Table {
        header: ["layer", "operator", "type", "weights", "SQNR dB", "why"]
            .map(str::to_owned)
            .to_vec(),
        rows: (result.layers.iter())
            .map(|layer| {
                vec![
                    layer.name.clone(),
                    layer.operator.clone(),
                    layer.r#type.to_owned(),
                    layer.weights.to_string(),
                    layer.sqnr_db.map_or("-".to_owned(), |ratio| format!("{ratio:.1}")),
                    layer.reason.clone().unwrap_or_default(),
                ]
            })
            .collect(),
        numeric: vec![false, false, false, true, true, false],
        ..Table::default()
    });
    page = page.section("Activations").text(
        "Counts of values other than zero. Lines are the range that has levels: what lies beyond becomes its ends.",
    );
    let mut tensors: Vec<&TensorResult> = result.tensors.iter().collect();
    tensors.sort_by(|a, b| a.kept().total_cmp(&b.kept()));
    for tensor in tensors.iter().take(DRAWN) {
        if let Some(plot) = histogram(tensor, histograms) {
            page = page.lines(&plot);
        }
    }
    if tensors.len() > DRAWN {
        let rest = tensors.len() - DRAWN;
        page = page.text(&format!("{rest} more tensors keep more of their values' range."));
    }
    replace_file(path, &page.render())
}

fn histogram(tensor: &TensorResult, histograms: &Histograms) -> Option<LinePlot> {
    let whole = histograms.get(&tensor.name)?.whole();
    let counts = whole.counts();
    let first = counts.iter().position(|&count| count > 0)?;
    let last = counts.iter().rposition(|&count| count > 0)?;
    let step = (last + 1 - first).div_ceil(POINTS);
    let width = whole.width();
    let place = |bin: usize| (bin as f64 - whole.side() as f64) * width;
    let points = counts[first..=last].chunks(step).enumerate().map(|(at, chunk)| {
        let middle = place(first + at * step) + chunk.len() as f64 * width / 2.0;
        (middle, chunk.iter().sum::<u64>() as f64)
    });
    Some(LinePlot {
        title: tensor.name.clone(),
        x_label: "value".into(),
        y_label: "count".into(),
        series: vec![Series {
            name: "values".into(),
            points: points.collect(),
            ..Series::default()
        }],
        log_y: true,
        marks: vec![(tensor.low, "low".into()), (tensor.high, "high".into())],
        ..LinePlot::default()
    })
}
