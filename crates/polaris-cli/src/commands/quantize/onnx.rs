//! `polaris quantize` of an ONNX model: int8 layers, calibrated with data.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use polaris::graph::{Mode, Options, open_model};
use polaris::models::samples::Samples;
use polaris::optimize::calibration::{Calibrator, Histograms, Source};
use polaris::optimize::integer::Clip;
use polaris::optimize::onnx::{
    Activations, Distortion, Float, Layer, Magnitudes, Observer, QuantizeOptions, Quantized, Shift,
    Treatment, WeightLevels, WeightSearch, Weights,
};
use serde::Serialize;

use super::calibrate;
use super::report::{self, Speed};
use crate::arguments::{ActivationName, CalibrationName, Global, MethodName, Quantize, WeightName};
use crate::exit::Usage;
use crate::output::{self, Table, print_line, say};
use crate::session::Session;
use crate::{exit, interrupt};

/// Samples to calibrate with, where nobody says how many.
const SAMPLES: usize = 512;

/// Samples that run at a time, at most.
const BATCH: usize = 16;

/// Elements of activations that are looked at at a time, about: they are in memory, in f32, a few times.
const ELEMENTS: usize = 1 << 25;

/// Samples by which errors of layers are measured.
const MEASURED: usize = 64;

/// Layers and tensors that are named in the summary.
const WORST: usize = 5;

/// How much of what a channel has too much of moves into weights: as much as stays.
const SMOOTHING: f32 = 0.5;

/// Histograms are saved about as often.
const SAVED_EVERY: Duration = Duration::from_secs(30);

/// What was done.
#[derive(Serialize)]
pub struct Result<'a> {
    pub model: &'a Path,
    path: Option<&'a Path>,
    pub calibration: &'static str,
    pub samples: usize,
    pub bytes_before: usize,
    pub bytes: Option<usize>,
    seconds: f64,
    /// Pairs of layers whose channels were evened out.
    equalized: usize,
    /// Normalisations whose channels were scaled.
    smoothed: usize,
    /// Of a batch, where there is a report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<Speed>,
    pub layers: Vec<LayerResult>,
    pub tensors: Vec<TensorResult>,
}

#[derive(Serialize)]
pub struct LayerResult {
    pub name: String,
    pub operator: String,
    pub r#type: &'static str,
    pub reason: Option<String>,
    pub weights: usize,
    /// None if nothing differs, or the ratio is not finite.
    pub sqnr_db: Option<f64>,
    /// The ratio, finite or not, where something differs.
    #[serde(skip)]
    ratio: Option<f64>,
}

#[derive(Serialize)]
pub struct TensorResult {
    pub name: String,
    min: f32,
    max: f32,
    pub low: f64,
    pub high: f64,
    scale: f32,
    zero_point: i32,
}

impl TensorResult {
    /// The part of the values' range that has levels.
    pub fn kept(&self) -> f64 {
        (self.high - self.low) / f64::from(self.max.max(0.0) - self.min.min(0.0))
    }
}

/// The float model and the machine that it runs on.
struct Work {
    session: Session,
    options: Options,
    float: Float,
    settings: QuantizeOptions,
    /// Samples that run at a time.
    batch: usize,
}

pub fn run(global: Global, options: &Quantize) -> anyhow::Result<u8> {
    let json = global.json;
    let begin = Instant::now();
    let out = if options.dry_run { None } else { options.out.as_deref() };
    let own = &options.calibration;
    let wants = |method| options.method.contains(&method);
    let settings = settings(options)?;
    let opened = open_model(&options.model)?;
    let bytes_before = opened.files.iter().map(|file| file.bytes().len()).sum();
    let levels = WeightLevels {
        bits: if own.weights == Some(WeightName::Int4) { 4 } else { 8 },
        group: own.group.map(|group| group as usize),
    };
    let mut float = Float::with_weights(opened.model, &own.exclude, levels)?;
    let equalized = match wants(MethodName::Equalize) {
        true => float.equalize()?,
        false => 0,
    };
    let mut result = Result {
        model: &options.model,
        path: out,
        calibration: settings.calibrator.name(),
        samples: 0,
        bytes_before,
        bytes: None,
        seconds: 0.0,
        equalized,
        smoothed: 0,
        speed: None,
        layers: layers(float.layers(), &float, &Distortion::default()),
        tensors: Vec::new(),
    };
    let Some(out) = out else {
        match json {
            true => output::print_json("polaris.quantize.onnx/1", &result)?,
            false => {
                print_layers(&result)?;
                print_line("nothing was written; leave out --dry-run to write it")?;
            }
        }
        return Ok(exit::OK);
    };
    let Some(data) = own.data.as_deref() else {
        let by_samples = [MethodName::Gptq, MethodName::BiasCorrection, MethodName::Smooth];
        if by_samples.into_iter().any(wants) || !float.observed().is_empty() {
            let why = "an ONNX model is calibrated with samples; name them with --data";
            return Err(Usage(why.to_owned()).into());
        }
        if let Some(option) = options.of_samples().first() {
            return Err(Usage(format!("{option} needs samples; name them with --data")).into());
        }
        // Nothing but weights changes.
        let made = float.quantize(&float.histograms(1), &settings, None)?;
        write(out, &made, &mut result)?;
        result.seconds = begin.elapsed().as_secs_f64();
        show(json, &result, out)?;
        return Ok(exit::OK);
    };
    let session = Session::on_cpu(global)?;
    let run =
        Options { mode: Mode::Cpu, cancellation: Some(interrupt::token()), ..Options::default() };
    let samples = open(&float, data)?;
    let mut work = Work { session, options: run, float, settings, batch: BATCH };
    let wanted = match own.samples {
        Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
        None => SAMPLES.max(samples.fewest()),
    };
    let wanted = samples.first(wanted)?;
    if wants(MethodName::Smooth) {
        result.smoothed = smooth(&mut work, &samples, wanted.clone())?;
    }
    let runtime = &work.session.runtime;
    let observer =
        Observer::new(runtime, work.float.model(), &work.float.observed(), &work.options)?;
    work.batch = batch(&observer, &samples)?;
    let histograms = match work.float.observed().is_empty() {
        true => work.float.histograms(1),
        false => {
            let file = own.histograms.as_deref();
            calibrate(&work, &observer, &samples, wanted.clone(), data, file)?
        }
    };
    drop(observer);
    if wants(MethodName::Gptq) {
        search_weights(&mut work, options, &samples, wanted.clone())?;
    }
    let shifts = match wants(MethodName::BiasCorrection) {
        true => {
            let runtime = &work.session.runtime;
            let mut shift = Shift::new(&work.float, &work.settings, runtime, &work.options)?;
            each(&samples, wanted.clone(), work.batch, "correcting biases", |batch, _| {
                Ok(shift.add(batch)?)
            })?;
            Some(shift.finish())
        }
        false => None,
    };
    let made = work.float.quantize(&histograms, &work.settings, shifts.as_ref())?;
    let distortion = measure(&work, &made, &samples)?;
    if interrupt::requested() {
        return Err(polaris::optimize::Error::Cancelled.into());
    }
    write(out, &made, &mut result)?;
    result.samples = match histograms.sources.as_slice() {
        [] if wants(MethodName::Gptq) || wants(MethodName::Smooth) => wanted.len(),
        sources => sources.iter().map(|source| source.to - source.from).sum(),
    };
    result.layers = layers(&made.layers, &work.float, &distortion);
    result.tensors = tensors(&made);
    result.seconds = begin.elapsed().as_secs_f64();
    if let Some(path) = &options.html {
        let batch = samples.batches(0..samples.len(), work.batch).swap_remove(0);
        let models = [work.float.model(), &made.model];
        result.speed =
            Some(report::speed(&work.session, &work.options, models, &samples.read(batch)?)?);
        report::write(path, &result, &histograms)?;
    }
    show(json, &result, out)?;
    Ok(exit::OK)
}

/// Writes the model, whole or not at all.
fn write(out: &Path, made: &Quantized, result: &mut Result<'_>) -> anyhow::Result<()> {
    let bytes = made.model.to_bytes()?;
    polaris::files::write_atomic(out, &bytes).map_err(|error| {
        let advice = polaris::files::write_advice(&error);
        anyhow::Error::new(error).context(format!("cannot write {}{advice}", out.display()))
    })?;
    result.bytes = Some(bytes.len());
    Ok(())
}

fn show(json: bool, result: &Result<'_>, out: &Path) -> anyhow::Result<()> {
    match json {
        true => output::print_json("polaris.quantize.onnx/1", result),
        false => print(result, out),
    }
}

/// Moves what a few channels of normalisations have too much of into weights.
fn smooth(work: &mut Work, samples: &Samples, wanted: Range<usize>) -> anyhow::Result<usize> {
    let mut magnitudes = Magnitudes::new(&work.float, &work.session.runtime, &work.options)?;
    if magnitudes.norms() > 0 {
        each(samples, wanted, work.batch, "measuring channels", |batch, _| {
            Ok(magnitudes.add(batch)?)
        })?;
    }
    Ok(work.float.smooth(&magnitudes, SMOOTHING)?)
}

/// Chooses the levels of weights by what samples make of the inputs of layers.
fn search_weights(
    work: &mut Work,
    options: &Quantize,
    samples: &Samples,
    wanted: Range<usize>,
) -> anyhow::Result<()> {
    let settings = calibrate::search_options(options)?;
    let parts = work.float.parts(calibrate::hessian_memory(options));
    for (number, part) in parts.iter().enumerate() {
        let runtime = &work.session.runtime;
        let mut search = WeightSearch::new(&work.float, part, runtime, &work.options)?;
        let what = match parts.len() {
            1 => "collecting inputs".to_owned(),
            count => format!("collecting inputs, part {} of {count}", number + 1),
        };
        each(samples, wanted.clone(), work.batch, &what, |batch, _| {
            Ok(search.add(&work.float, batch)?)
        })?;
        let bar = output::progress(part.len(), "weights rounded");
        let mut done = |_| bar.inc(1);
        let found = search.finish(&work.float, &settings, &mut done, &interrupt::requested)?;
        bar.finish_and_clear();
        work.float.choose(found);
    }
    Ok(())
}

fn settings(options: &Quantize) -> anyhow::Result<QuantizeOptions> {
    let own = &options.calibration;
    let wants = |method| options.method.contains(&method);
    let of_weights = [MethodName::Gptq, MethodName::Hqq, MethodName::WeightSearch];
    if of_weights.into_iter().filter(|&method| wants(method)).count() > 1 {
        let why = "gptq, hqq and weight-search each choose the levels of weights; name one of them";
        return Err(Usage(why.to_owned()).into());
    }
    match wants(MethodName::Gptq) {
        true => drop(calibrate::search_options(options)?),
        false => {
            if let Some(option) = options.of_gptq().first() {
                return Err(Usage(format!("{option} is for --method gptq")).into());
            }
        }
    }
    // Of so few levels many are better spent on the many small weights than on the largest one.
    let is_narrow = own.weights == Some(WeightName::Int4);
    let calibration = own.calibration.unwrap_or(CalibrationName::Percentile);
    if own.percent.is_some() && calibration != CalibrationName::Percentile {
        let why = "--percent is for --calibration percentile; leave one of them out";
        return Err(Usage(why.to_owned()).into());
    }
    let calibrator = match calibration {
        CalibrationName::Minmax => Calibrator::MinMax,
        CalibrationName::Percentile => {
            Calibrator::Percentile(own.percent.unwrap_or(Calibrator::USUAL_PERCENT))
        }
        CalibrationName::Entropy => Calibrator::Entropy,
        CalibrationName::Mse => Calibrator::Mse,
    };
    calibrator.check()?;
    Ok(QuantizeOptions {
        calibrator,
        activations: match own.activations {
            Some(ActivationName::I8) => Activations::I8,
            _ => Activations::U8,
        },
        weights: match (wants(MethodName::Hqq), wants(MethodName::WeightSearch) || is_narrow) {
            (true, _) => Weights::Hqq,
            (false, true) => Weights::Nearest(Clip::Search),
            (false, false) => Weights::Nearest(Clip::Extremes),
        },
    })
}

/// The samples for the inputs of a model.
fn open(float: &Float, data: &Path) -> anyhow::Result<Samples> {
    let model = float.model();
    let value = |id| model.graph.value(id);
    let inputs = model.graph.required_inputs();
    let inputs: Vec<_> =
        inputs.map(|id| (value(id).name.as_str(), value(id).ty.as_ref())).collect();
    let classes = polaris::models::samples::classes(&model.metadata);
    Ok(Samples::open(data, &inputs, classes.as_deref())?)
}

/// So many samples that what is looked at fits into memory several times.
fn batch(observer: &Observer, samples: &Samples) -> anyhow::Result<usize> {
    let Some(first) = samples.batches(0..1, 1).into_iter().next() else { return Ok(BATCH) };
    let tensors = observer.tensors(&samples.read(first)?)?;
    let elements: usize = tensors.iter().map(|(_, tensor)| tensor.elements()).sum();
    Ok((ELEMENTS / elements.max(1)).clamp(1, BATCH))
}

/// Does something with each batch of some samples, unless the user stops it.
fn each(
    samples: &Samples,
    range: Range<usize>,
    batch: usize,
    what: &str,
    mut work: impl FnMut(&[(String, polaris::onnx::Tensor)], &Range<usize>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let bar = output::progress(range.len(), what);
    let begin = range.start;
    for batch in samples.batches(range, batch) {
        if interrupt::requested() {
            return Err(polaris::optimize::Error::Cancelled.into());
        }
        work(&samples.read(batch.clone())?, &batch)?;
        bar.set_position((batch.end - begin) as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

/// The histograms of the samples, with those of a file that are there already. They are saved as far as they got, too.
fn calibrate(
    work: &Work,
    observer: &Observer,
    samples: &Samples,
    wanted: Range<usize>,
    data: &Path,
    file: Option<&Path>,
) -> anyhow::Result<Histograms> {
    let name = std::fs::canonicalize(data).unwrap_or_else(|_| data.to_owned());
    let name = name.display().to_string();
    let mut histograms = work.float.histograms(2048);
    if let Some(path) = file.filter(|path| path.exists()) {
        let earlier = Histograms::load(path)?;
        histograms.merge(&earlier).with_context(|| format!("{}", path.display()))?;
        let counted = histograms.counted(&name).min(wanted.end);
        if counted > 0 {
            say!("note: {} samples of {name} are counted in {} already", counted, path.display());
        }
    }
    let from = histograms.counted(&name).clamp(wanted.start, wanted.end);
    let mut saved = Instant::now();
    let counted = each(samples, from..wanted.end, work.batch, "calibrating", |batch, range| {
        observer.count(batch, &mut histograms)?;
        let source = Source { data: name.clone(), from: range.start, to: range.end };
        histograms.add_source(source);
        if let Some(path) = file.filter(|_| saved.elapsed() > SAVED_EVERY) {
            histograms.save(path)?;
            saved = Instant::now();
        }
        Ok(())
    });
    // A batch of which a part was counted is no part of the file.
    let is_whole = counted.is_ok() || interrupt::requested();
    if let Some(path) = file.filter(|_| is_whole) {
        histograms.save(path)?;
        if counted.is_err() {
            let done = histograms.counted(&name);
            say!(
                "note: {done} samples are counted in {}; the same command goes on",
                path.display()
            );
        }
    }
    counted.map(|()| histograms)
}

/// What the layers' results differ by between both models.
fn measure(work: &Work, made: &Quantized, samples: &Samples) -> anyhow::Result<Distortion> {
    let names: Vec<&str> = made.layers.iter().map(|layer| layer.result.as_str()).collect();
    let runtime = &work.session.runtime;
    let before = Observer::new(runtime, work.float.model(), &names, &work.options)?;
    let after = Observer::new(runtime, &made.model, &names, &work.options)?;
    let mut distortion = Distortion::default();
    let range = samples.first(MEASURED.max(samples.fewest()))?;
    each(samples, range, work.batch, "measuring", |batch, _| {
        Ok(distortion.add(&before.tensors(batch)?, &after.tensors(batch)?)?)
    })?;
    Ok(distortion)
}

fn layers(layers: &[Layer], float: &Float, distortion: &Distortion) -> Vec<LayerResult> {
    let is_narrow = float.weights().bits == 4;
    let result = |layer: &Layer| {
        let (ty, reason) = match (&layer.treatment, is_narrow) {
            (Treatment::Int8, false) => ("int8", None),
            (Treatment::Int8, true) => ("int4 weight, int8 activations", None),
            (Treatment::Weight(why), false) => ("int8 weight", Some(why.clone())),
            (Treatment::Weight(why), true) => ("int4 weight", Some(why.clone())),
            (Treatment::Float(why), _) => ("float", Some(why.clone())),
        };
        let noise = distortion.tensors.get(&layer.result).filter(|noise| noise.largest != 0.0);
        let ratio = noise.map(|noise| noise.decibels());
        LayerResult {
            name: layer.name.clone(),
            operator: layer.operator.clone(),
            r#type: ty,
            reason,
            weights: layer.weights,
            sqnr_db: ratio.filter(|ratio| ratio.is_finite()),
            ratio,
        }
    };
    layers.iter().map(result).collect()
}

fn tensors(made: &Quantized) -> Vec<TensorResult> {
    let result = |tensor: &polaris::optimize::onnx::QuantizedTensor| TensorResult {
        name: tensor.name.clone(),
        min: tensor.seen.0,
        max: tensor.seen.1,
        low: tensor.range.0,
        high: tensor.range.1,
        scale: tensor.scale,
        zero_point: tensor.zero,
    };
    made.tensors.iter().map(result).collect()
}

fn print_layers(result: &Result<'_>) -> anyhow::Result<()> {
    let integers = result.layers.iter().filter(|layer| layer.reason.is_none()).count();
    let all = result.layers.len();
    print_line(&format!("{integers} of {all} convolutions and products compute with integers"))?;
    for layer in &result.layers {
        if let Some(reason) = &layer.reason {
            let LayerResult { name, operator, r#type, .. } = layer;
            let name = polaris::printable(name);
            print_line(&format!("  {name} ({operator}): {}, {reason}", r#type))?;
        }
    }
    Ok(())
}

fn print(result: &Result<'_>, out: &Path) -> anyhow::Result<()> {
    print_layers(result)?;
    if result.equalized > 0 {
        print_line(&format!("{} pairs of layers share evened out channels", result.equalized))?;
    }
    if result.smoothed > 0 {
        print_line(&format!("{} normalisations have scaled channels", result.smoothed))?;
    }
    let measured = |layer: &'_ &LayerResult| layer.ratio.is_some();
    let mut worst: Vec<&LayerResult> = result.layers.iter().filter(measured).collect();
    // What is not a number is worse than any.
    let rank = |layer: &LayerResult| layer.ratio.filter(|ratio| !ratio.is_nan());
    worst.sort_by(|a, b| match (rank(a), rank(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    });
    let some = !worst.is_empty();
    let mut table = Table::new(&["layer", "operator", "type", ">SQNR"]);
    for layer in worst.into_iter().take(WORST) {
        table.row(vec![
            layer.name.clone(),
            layer.operator.clone(),
            layer.r#type.to_owned(),
            match rank(layer) {
                Some(ratio) => format!("{ratio:.1} dB"),
                None => "not a number".to_owned(),
            },
        ]);
    }
    if some {
        print_line("lowest signal-to-noise ratios:")?;
        table.print()?;
    }
    let mut clipped: Vec<&TensorResult> =
        result.tensors.iter().filter(|tensor| tensor.kept() < 0.999).collect();
    clipped.sort_by(|a, b| a.kept().total_cmp(&b.kept()));
    if !clipped.is_empty() {
        print_line(&format!("narrowest ranges by {}:", result.calibration))?;
        let mut table = Table::new(&["tensor", ">values", ">range", ">kept"]);
        for tensor in clipped.into_iter().take(WORST) {
            table.row(vec![
                tensor.name.clone(),
                format!("{:.3} to {:.3}", tensor.min, tensor.max),
                format!("{:.3} to {:.3}", tensor.low, tensor.high),
                format!("{:.0} %", 100.0 * tensor.kept()),
            ]);
        }
        table.print()?;
    }
    let megabytes = |bytes: usize| format!("{:.2} MB", bytes as f64 / 1e6);
    let (before, after) = (result.bytes_before, result.bytes.unwrap_or(0));
    let share = 100.0 * after as f64 / before.max(1) as f64;
    print_line(&format!("{} -> {} ({share:.0} %)", megabytes(before), megabytes(after)))?;
    let (shown, seconds) = (out.display(), result.seconds);
    let samples = match result.samples {
        0 => "without samples".to_owned(),
        samples => format!("with {samples} samples"),
    };
    print_line(&format!("wrote {shown} in {seconds:.1} s, {samples}"))?;
    let model = result.model.display();
    print_line(&format!("  what it costs: polaris compare {model} {shown} --data DATA"))
}
