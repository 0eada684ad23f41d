//! Writes a model with the matrices of its layers rounded to integers by each method, dequantised, so that `polaris
//! perplexity` can score what the methods cost. Embedding and output stay as they are.
//!
//! `cargo run --release -p polaris-optimize --example int4 -- MODEL.gguf CALIBRATION.txt FOLDER [BITS] [GROUP] [METHOD]`
//!
//! `bench/llm/methods.py` makes a table of the files. For models without experts: each matrix has one Hessian in memory.

use std::collections::BTreeMap;
use std::path::Path;

use polaris_gguf::{Gguf, TensorType, Writer, quantize};
use polaris_llm::{
    CacheType, Engine, EngineOptions, LoadOptions, Model, Observation, Observe, Precision, Source,
    Special, Wanted,
};
use polaris_optimize::DescentOptions;
use polaris_optimize::hessian::{Factor, FactorOptions, Hessian, Order};
use polaris_optimize::integer::{
    Clip, Grid, HqqOptions, IntMatrix, descend, gptq, hqq, hqq_real, nearest,
};
use polaris_runtime::{DeviceRef, MappedFile, Runtime, RuntimeOptions};

type Failure = Box<dyn std::error::Error>;

const WINDOW: usize = 256;

const METHODS: [&str; 10] = [
    "nearest-extremes",
    "nearest",
    "hqq",
    "gptq-extremes",
    "gptq",
    "gptq-act-order",
    "gptq-descent",
    "nearest-descent",
    "hqq-descent",
    "hqq-real",
];

struct Hessians<'a> {
    device: &'a DeviceRef,
    all: BTreeMap<String, Hessian>,
    failed: Option<polaris_optimize::Error>,
}

impl Observe for Hessians<'_> {
    fn observe(&mut self, seen: &Observation<'_>) {
        if seen.matrices != 1 || !seen.name.starts_with("blk.") {
            return;
        }
        let added = match self.all.get_mut(seen.name) {
            Some(hessian) => hessian.add(seen.rows),
            None => Hessian::new(self.device, seen.columns).and_then(|mut hessian| {
                hessian.add(seen.rows)?;
                self.all.insert(seen.name.to_owned(), hessian);
                Ok(())
            }),
        };
        self.failed = self.failed.take().or(added.err());
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, text, folder, ..] = &arguments[..] else {
        return Err("MODEL.gguf CALIBRATION.txt FOLDER [BITS] [GROUP] [METHOD]".into());
    };
    let number = |at: usize, default: usize| match arguments.get(at) {
        Some(text) => text.parse().map_err(Failure::from),
        None => Ok(default),
    };
    let wanted = arguments.get(5).map_or("", String::as_str);
    let (bits, group) = (number(3, 4)? as u32, number(4, 64)?);
    let gguf =
        Gguf::open(Path::new(model), |path| MappedFile::open(path).map(|file| file.bytes()))?;
    let runtime =
        Runtime::discover(&RuntimeOptions { opencl: false, ..RuntimeOptions::default() })?;
    let device = runtime.cpu();
    let hessians = collect(&gguf, device, &std::fs::read_to_string(text)?)?;
    for symmetric in [true, false] {
        let grid = Grid { bits, group: Some(group), symmetric };
        for method in METHODS.into_iter().filter(|method| wanted.is_empty() || wanted == *method) {
            if symmetric && method == "hqq-real" {
                continue;
            }
            let kind = if symmetric { "symmetric" } else { "affine" };
            let path = Path::new(folder).join(format!("{method}-{kind}.gguf"));
            let mut writer = Writer::new();
            for (key, value) in gguf.metadata().iter() {
                writer.set(key, value)?;
            }
            let begin = std::time::Instant::now();
            let mut loss = 0.0;
            for tensor in gguf.tensors() {
                let mut floats = tensor.to_f32()?;
                if let Some(hessian) = hessians.get(tensor.name()) {
                    let quantised = quantised(method, &floats, grid, hessian)?;
                    let change: Vec<f32> =
                        floats.iter().zip(&quantised).map(|(a, b)| a - b).collect();
                    loss += hessian.loss(&change)? / hessian.loss(&floats)?;
                    floats = quantised;
                }
                let bytes = quantize(TensorType::F32, &floats)?;
                writer.tensor(tensor.name(), tensor.shape().dims(), TensorType::F32, bytes)?;
            }
            writer.write(&path)?;
            let mean = (loss / hessians.len().max(1) as f64).sqrt();
            let seconds = begin.elapsed().as_secs_f64();
            println!("{method}-{kind} {:.3} % of outputs, {seconds:.1} s", 100.0 * mean);
        }
    }
    Ok(())
}

fn collect(
    gguf: &Gguf,
    device: &DeviceRef,
    text: &str,
) -> Result<BTreeMap<String, Hessian>, Failure> {
    let source = Source::from_gguf(gguf)?;
    let options = LoadOptions { context: WINDOW };
    let model = Model::load(&source, device, &options, |_| Ok(()))?;
    let options = EngineOptions {
        context: WINDOW,
        cache: CacheType::F32,
        precision: Precision::Full,
        ..EngineOptions::default()
    };
    let mut engine = Engine::new(&model, &options)?;
    let tokenizer = model.require_tokenizer()?;
    let tokens = tokenizer.framed(&tokenizer.encode(text, Special::Plain)?);
    let mut hessians = Hessians { device, all: BTreeMap::new(), failed: None };
    for window in tokens.chunks_exact(WINDOW) {
        let mut window = window.to_vec();
        if let Some(&first) = tokenizer.begin().first() {
            window[0] = first;
        }
        engine.truncate(0, 0);
        engine.feed_observed(0, &window, Wanted::All, &mut hessians, &|| false)?;
    }
    match hessians.failed {
        Some(error) => Err(error.into()),
        None => Ok(hessians.all),
    }
}

/// What becomes of a matrix.
fn quantised(
    method: &str,
    floats: &[f32],
    grid: Grid,
    hessian: &Hessian,
) -> Result<Vec<f32>, Failure> {
    let columns = hessian.columns();
    let rows = floats.len() / columns;
    if method == "hqq-real" {
        let matrix = hqq_real(floats, rows, columns, grid, &HqqOptions::default())?;
        return Ok(matrix.dequantize());
    }
    let (name, descends) = match method.strip_suffix("-descent") {
        Some(name) => (name, true),
        None => (method, false),
    };
    let clip = if name.ends_with("extremes") { Clip::Extremes } else { Clip::Search };
    let order = if name.ends_with("act-order") { Order::Activations } else { Order::Natural };
    let mut matrix: IntMatrix = match name.split('-').next() {
        Some("nearest") => nearest(floats, rows, columns, grid, clip)?,
        Some("hqq") => hqq(floats, rows, columns, grid, &HqqOptions::default())?,
        _ => {
            let options = FactorOptions { order, ..FactorOptions::default() };
            gptq(floats, grid, clip, &Factor::new(hessian, &options)?, &|| false)?.matrix
        }
    };
    if descends {
        descend(floats, &mut matrix, hessian, &DescentOptions::default(), &|| false)?;
    }
    Ok(matrix.dequantize())
}
