//! `polaris quantize --method gptq`: activations of a text decide how weights are rounded.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use polaris::DeviceRef;
use polaris::gguf::Gguf;
use polaris::llm::{
    CacheType, Engine, EngineOptions, Error as LlmError, LoadOptions, Model, Precision, Source,
    Special,
};
use polaris::optimize::hessian::{FactorOptions, Order};
use polaris::optimize::onnx::SearchOptions;
use polaris::optimize::{DescentOptions, Error, GptqOptions, Plan, Prepared, Stage};
use serde::Serialize;

use crate::arguments::Quantize;
use crate::commands::llm::text as read_text;
use crate::output::{Table, print_line, say};
use crate::{interrupt, output};

/// What options are without a word, as their help says.
const WINDOW: u32 = 512;
const HESSIAN_MEMORY: u64 = 2 << 30;
const DAMPING: f64 = 0.01;
const SWEEPS: u32 = 10;
/// Tensors that are named for what GPTQ gained.
const NAMED: usize = 5;

/// What GPTQ did for a tensor.
#[derive(Serialize)]
pub struct Gptq {
    #[serde(skip)]
    pub tensor: usize,
    matrices: usize,
    rounded: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    fewest_inputs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_error: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_error_nearest: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// Memory for the Hessians that are collected at once.
pub fn hessian_memory(options: &Quantize) -> usize {
    let bytes = options.text.hessian_memory.unwrap_or(HESSIAN_MEMORY);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// How Hessians are used.
pub fn search_options(options: &Quantize) -> anyhow::Result<SearchOptions> {
    let choice = &options.text;
    let damping = choice.damping.unwrap_or(DAMPING);
    if !(0.0..=1.0).contains(&damping) {
        bail!("--damping {damping} is no part of the diagonal; give one from 0 to 1");
    }
    let order = if choice.act_order { Order::Activations } else { Order::Natural };
    let sweeps = choice.sweeps.unwrap_or(SWEEPS) as usize;
    let factor = FactorOptions { damping, order };
    Ok(SearchOptions { factor, descent: DescentOptions { sweeps, damping } })
}

/// How many tokens of the text GPTQ looks at, at most.
pub fn tokens(options: &Quantize) -> usize {
    let window = options.text.window.unwrap_or(WINDOW) as usize;
    let windows = options.text.windows.map_or(usize::MAX, |windows| windows as usize);
    if options.wants_gptq() { windows.saturating_mul(window) } else { 0 }
}

/// Encodes the matrices of a plan into a work folder.
pub fn gptq(
    options: &Quantize,
    gguf: &Gguf,
    plan: &Plan<'_>,
    device: &DeviceRef,
    out: &Path,
) -> anyhow::Result<Prepared> {
    let choice = &options.text;
    let path = choice.calibrate.as_ref().context("GPTQ needs a text, by --calibrate FILE")?;
    let SearchOptions { factor, descent } = search_options(options)?;
    let text = read_text(path)?;
    let folder = match &choice.resume {
        Some(folder) => folder.clone(),
        None => work_folder(out),
    };
    let window = choice.window.unwrap_or(WINDOW) as usize;
    let model =
        Model::load(&Source::from_gguf(gguf)?, device, &LoadOptions { context: window }, |_| {
            if interrupt::requested() { Err(LlmError::Cancelled) } else { Ok(()) }
        })?;
    let tokenizer = model.require_tokenizer()?;
    let tokens = tokenizer.framed(&tokenizer.encode(&text, Special::Plain)?);
    // Activations as they are: nothing is rounded on the way to a matrix.
    let engine_options = EngineOptions {
        context: window,
        cache: CacheType::F32,
        precision: Precision::Full,
        ..EngineOptions::default()
    };
    let mut engine = Engine::new(&model, &engine_options)?;
    let settings = GptqOptions {
        window,
        windows: choice.windows.map(|windows| windows as usize),
        first: tokenizer.begin().first().copied(),
        memory: choice.hessian_memory.unwrap_or(HESSIAN_MEMORY),
        factor,
        sweeps: descent.sweeps,
    };
    let bar = output::progress(1, "calibrating");
    let mut progress = |stage: Stage<'_>| match stage {
        Stage::Collecting { windows, of, left } => {
            bar.set_length(of as u64);
            bar.set_position(windows as u64);
            bar.set_message(match left {
                0 => "windows".to_owned(),
                _ => format!("windows; {left} matrices need another time"),
            });
        }
        Stage::Encoding { matrices, of, tensor } => {
            bar.set_length(of as u64);
            bar.set_position(matrices as u64);
            bar.set_message(polaris::printable(tensor).into_owned());
        }
    };
    let prepared =
        plan.gptq(&mut engine, &tokens, &settings, &folder, &mut progress, &interrupt::requested);
    bar.finish_and_clear();
    if matches!(prepared, Err(Error::Cancelled)) {
        say!("{} keeps what is done; the same command goes on there", folder.display());
    }
    Ok(prepared?)
}

/// `model.gguf.work` for `model.gguf`.
fn work_folder(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".work");
    name.into()
}

/// What was done for each tensor.
pub fn summary(prepared: &Prepared) -> Vec<Gptq> {
    let relative = |error: f64, outputs: f64| (error.max(0.0) / outputs).sqrt();
    let done = prepared.tensors.iter().map(|tensor| {
        let costs = (tensor.costs.outputs > 0.0).then_some(tensor.costs);
        Gptq {
            tensor: tensor.tensor,
            matrices: tensor.matrices,
            rounded: tensor.rounded,
            fewest_inputs: Some(tensor.fewest),
            output_error: costs.map(|costs| relative(costs.error, costs.outputs)),
            output_error_nearest: costs.map(|costs| relative(costs.nearest, costs.outputs)),
            reason: None,
        }
    });
    let others = prepared.others.iter().map(|&(tensor, reason)| Gptq {
        tensor,
        matrices: 1,
        rounded: 1,
        fewest_inputs: None,
        output_error: None,
        output_error_nearest: None,
        reason: Some(reason),
    });
    done.chain(others).collect()
}

/// What was gained, and which tensors were rounded all the same.
pub fn print(plan: &Plan<'_>, done: &[Gptq]) -> anyhow::Result<()> {
    let name = |gptq: &Gptq| plan.tensors()[gptq.tensor].name.clone();
    let mut gained: Vec<(f64, f64, &Gptq)> = done
        .iter()
        .filter_map(|gptq| Some((gptq.output_error?, gptq.output_error_nearest?, gptq)))
        .collect();
    if !gained.is_empty() {
        gained.sort_by(|a, b| b.0.total_cmp(&a.0));
        let log = |&(error, nearest, _): &(f64, f64, _)| {
            (error.max(f64::MIN_POSITIVE) / nearest.max(f64::MIN_POSITIVE)).ln()
        };
        let mean = (gained.iter().map(log).sum::<f64>() / gained.len() as f64).exp();
        print_line(&format!(
            "GPTQ: {} tensors, whose outputs change by {:.2} of what rounding changes; the largest changes:",
            gained.len(),
            mean
        ))?;
        let mut table = Table::new(&["tensor", ">change of outputs", ">by rounding"]);
        for (error, nearest, gptq) in gained.into_iter().take(NAMED) {
            let percent = |part: f64| format!("{:.2} %", 100.0 * part);
            table.row(vec![name(gptq), percent(error), percent(nearest)]);
        }
        table.print()?;
    }
    for gptq in done.iter().filter(|gptq| gptq.rounded > 0) {
        let (name, rounded, matrices) = (name(gptq), gptq.rounded, gptq.matrices);
        let why = match (gptq.reason, gptq.fewest_inputs) {
            (Some(reason), _) => reason.to_owned(),
            (None, Some(fewest)) => {
                format!("the text reaches them too seldom, {fewest} times at least")
            }
            (None, None) => continue,
        };
        print_line(&format!(
            "  rounded to nearest: {name}, {rounded} of {matrices} matrices: {why}"
        ))?;
    }
    Ok(())
}
