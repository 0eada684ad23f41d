//! `polaris quantize` of a language model in GGUF.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use polaris::gguf::Gguf;
use polaris::optimize::mixed::Mixture;
use polaris::optimize::{Importance, Plan, PlanOptions, Recipe, WrittenTensor};
use polaris::runtime::MappedFile;
use serde::Serialize;

use super::calibrate::{self, Gptq};
use super::mixed::{self, Chosen, LISTED};
use super::page::{self, Report};
use super::validate::{Validation, validate};
use crate::arguments::{Global, Quantize};
use crate::exit::Usage;
use crate::output::{Table, print_line, say};
use crate::session::Session;
use crate::{exit, interrupt, output};

/// Tensors that are named for their errors.
const WORST: usize = 5;

#[derive(Serialize)]
struct Quantized<'a> {
    model: &'a Path,
    path: Option<&'a Path>,
    r#type: &'static str,
    imatrix: Option<&'a Path>,
    bytes_before: usize,
    bytes: usize,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    mixture: Option<MixtureChosen>,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<&'a Validation>,
    method: &'static str,
    tensors: Vec<Tensor<'a>>,
}

/// What mixed precision chose, all of it predicted.
#[derive(Serialize)]
struct MixtureChosen {
    predicted_divergence: f64,
    bound: f64,
    predicted_tokens_per_second: Option<f64>,
    source_tokens_per_second: Option<f64>,
    curve: Vec<Point>,
}

#[derive(Serialize)]
struct Point {
    bytes: u64,
    predicted_divergence: f64,
    predicted_tokens_per_second: Option<f64>,
}

#[derive(Serialize)]
struct Tensor<'a> {
    name: &'a str,
    from: &'static str,
    to: &'static str,
    bytes_before: usize,
    bytes: usize,
    relative_error: Option<f64>,
    weighted_error: Option<f64>,
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gptq: Option<&'a Gptq>,
}

pub fn run(global: Global, options: &Quantize) -> anyhow::Result<u8> {
    check(options)?;
    let json = global.json;
    let recipe = options.r#type.unwrap_or(Recipe::Q4_K_M);
    let out = if options.dry_run { None } else { options.out.as_deref() };
    let gguf = Gguf::open(&options.model, |path| MappedFile::open(path).map(|file| file.bytes()))?;
    let settings = PlanOptions {
        recipe,
        overrides: options.tensor.clone(),
        requantize: options.requantize,
        importance: options.imatrix.as_deref().map(Importance::read).transpose()?,
    };
    let mut plan = Plan::new(&gguf, &settings)?;
    let mut session = Session::on_cpu(global)?;
    if !session.chosen.is_empty() {
        session.check_new_devices()?;
    }
    let chosen = match mixed::goal(options) {
        Some(goal) => Some(mixed::choose(&session, options, &gguf, &mut plan, goal)?),
        None => None,
    };
    let begin = Instant::now();
    let (written, by_gptq) = match out {
        Some(out) => write(&session, options, &gguf, &plan, out)?,
        None => (Vec::new(), Vec::new()),
    };
    let seconds = begin.elapsed().as_secs_f64();
    let measured = match out.filter(|_| chosen.is_some() || options.html.is_some()) {
        Some(out) => measured(&session, &gguf, out, chosen.as_ref())?,
        None => None,
    };
    if let Some(path) = &options.html {
        let report = Report {
            options,
            plan: &plan,
            written: &written,
            chosen: chosen.as_ref(),
            measured: measured.as_ref(),
        };
        page::write(path, &report)?;
    }
    if json {
        let mixture = chosen.as_ref().map(|chosen| describe_mixture(chosen, &plan)).transpose()?;
        let result = Quantized {
            mixture,
            measured: measured.as_ref(),
            model: &options.model,
            path: out,
            r#type: if chosen.is_some() { "mixed" } else { recipe.name() },
            imatrix: options.imatrix.as_deref(),
            bytes_before: plan.bytes_before(),
            bytes: plan.bytes(),
            seconds,
            method: if options.wants_gptq() { "gptq" } else { "nearest" },
            tensors: (plan.tensors().iter().enumerate())
                .map(|(number, tensor)| Tensor {
                    gptq: by_gptq.iter().find(|gptq| gptq.tensor == number),
                    ..describe(tensor, written.get(number))
                })
                .collect(),
        };
        output::print_json("polaris.quantize/1", &result)?;
        return Ok(exit::OK);
    }
    print(&plan, &written, options.imatrix.is_some())?;
    if let Some(chosen) = &chosen {
        chosen.print(&plan)?;
    }
    calibrate::print(&plan, &by_gptq)?;
    match out {
        Some(out) => {
            let (out, model) = (out.display(), options.model.display());
            print_line(&format!("wrote {out} in {seconds:.1} s"))?;
            if let Some(measured) = &measured {
                measured.print(chosen.as_ref())?;
            }
            print_line(&format!("  what it costs: polaris perplexity {out} TEXT --base {model}"))?;
        }
        None => print_line("nothing was written; leave out --dry-run to write it")?,
    }
    Ok(exit::OK)
}

/// That options which need one another are there, and none that would do nothing.
fn check(options: &Quantize) -> Result<(), Usage> {
    let (gptq, mixture) = (options.wants_gptq(), mixed::goal(options).is_some());
    let said = if gptq && options.text.calibrate.is_none() {
        "--method gptq needs a text: --calibrate FILE".to_owned()
    } else if gptq && options.imatrix.is_some() {
        "--method gptq looks at more than --imatrix says; leave one of them out".to_owned()
    } else if let (false, Some(option)) = (gptq, options.of_gptq().first()) {
        format!("{option} needs --method gptq")
    } else if let (false, Some(option)) = (mixture, options.of_mixtures().first()) {
        format!("{option} needs --size, --loss or --speed")
    } else if !gptq && !mixture && options.text.calibrate.is_some() {
        "--calibrate needs --method gptq, --size, --loss or --speed".to_owned()
    } else {
        return Ok(());
    };
    Err(Usage(said))
}

/// What the file does. It is there already, so that what cannot be measured of it is a note.
fn measured(
    session: &Session,
    gguf: &Gguf,
    out: &Path,
    chosen: Option<&Chosen>,
) -> anyhow::Result<Option<Validation>> {
    let bar = output::spinner("measuring the file");
    let held_out = chosen.map(|chosen| &chosen.held_out);
    let done = validate(gguf, out, &session.chosen_or_cpu()?, held_out);
    bar.finish_and_clear();
    match done {
        Ok(measured) => Ok(Some(measured)),
        Err(error) if interrupt::requested() => Err(error),
        Err(error) => {
            say!("note: the file is written, and cannot be measured: {error}");
            Ok(None)
        }
    }
}

fn write(
    session: &Session,
    options: &Quantize,
    gguf: &Gguf,
    plan: &Plan<'_>,
    out: &Path,
) -> anyhow::Result<(Vec<WrittenTensor>, Vec<Gptq>)> {
    let device = session.runtime.cpu();
    let cpu = device.as_cpu().context("the CPU should be one")?;
    let prepared = match options.wants_gptq() {
        true => Some(calibrate::gptq(options, gguf, plan, device, out)?),
        false => None,
    };
    let by_gptq = prepared.as_ref().map_or_else(Vec::new, calibrate::summary);
    let bar = output::byte_progress(Some(plan.bytes_before() as u64), "quantising");
    let names: Vec<_> = plan.tensors().iter().map(|tensor| tensor.name.clone()).collect();
    let mut progress = |done: polaris::optimize::Done| {
        bar.set_position(done.bytes as u64);
        if let Some(name) = names.get(done.tensors) {
            bar.set_message(polaris::printable(name).into_owned());
        }
    };
    let written = match prepared {
        None => plan.write(out, cpu, &mut progress, &interrupt::requested),
        Some(prepared) => {
            plan.write_calibrated(out, cpu, prepared, &mut progress, &interrupt::requested)
        }
    };
    bar.finish_and_clear();
    Ok((written?, by_gptq))
}

fn describe_mixture(chosen: &Chosen, plan: &Plan<'_>) -> anyhow::Result<MixtureChosen> {
    let point = |mixture: Mixture| Point {
        bytes: mixture.bytes,
        predicted_divergence: mixture.divergence,
        predicted_tokens_per_second: chosen.speed(&mixture),
    };
    Ok(MixtureChosen {
        predicted_divergence: chosen.mixture.divergence,
        bound: chosen.mixture.bound,
        predicted_tokens_per_second: chosen.speed(&chosen.mixture),
        source_tokens_per_second: chosen.source_speed(),
        curve: chosen.curve(plan, LISTED)?.into_iter().map(point).collect(),
    })
}

fn describe<'a>(
    tensor: &'a polaris::optimize::PlannedTensor,
    written: Option<&WrittenTensor>,
) -> Tensor<'a> {
    Tensor {
        name: &tensor.name,
        from: tensor.from.name(),
        to: tensor.to.name(),
        bytes_before: tensor.bytes_before(),
        bytes: tensor.bytes(),
        relative_error: written.and_then(|written| written.relative_error),
        weighted_error: written.and_then(|written| written.weighted_error),
        reason: tensor.reason.as_deref(),
        gptq: None,
    }
}

fn print(plan: &Plan<'_>, written: &[WrittenTensor], by_importance: bool) -> anyhow::Result<()> {
    let megabytes = |bytes: usize| format!("{:.1} MB", bytes as f64 / 1e6);
    let mut types = BTreeMap::<_, (usize, usize)>::new();
    for tensor in plan.tensors() {
        let entry = types.entry(tensor.to.name()).or_default();
        *entry = (entry.0 + 1, entry.1 + tensor.bytes());
    }
    let mut table = Table::new(&["type", ">tensors", ">size"]);
    for (name, (count, bytes)) in types {
        table.row(vec![name.to_owned(), count.to_string(), megabytes(bytes)]);
    }
    table.print()?;
    let (before, after) = (plan.bytes_before(), plan.bytes());
    let share = after as f64 / before.max(1) as f64;
    print_line(&format!("{} -> {} ({:.0} %)", megabytes(before), megabytes(after), 100.0 * share))?;
    let mut reasons = BTreeMap::<&str, usize>::new();
    for reason in plan.tensors().iter().filter_map(|tensor| tensor.reason.as_deref()) {
        *reasons.entry(reason).or_default() += 1;
    }
    for (reason, count) in reasons {
        print_line(&format!("  {count} tensors: {reason}"))?;
    }
    if by_importance {
        let [with, without] = plan.by_importance();
        print_line(&format!(
            "  {with} tensors by importance, {without} without: not in the matrix"
        ))?;
    }
    let mut worst: Vec<_> = written
        .iter()
        .filter_map(|tensor| tensor.relative_error.map(|error| (error, tensor)))
        .collect();
    worst.sort_by(|a, b| b.0.total_cmp(&a.0));
    if !worst.is_empty() {
        print_line("largest errors, relative to the root of the mean square, and by importance:")?;
        let mut table = Table::new(&["tensor", "type", ">error", ">by importance"]);
        let percent = |error: f64| format!("{:.2} %", 100.0 * error);
        for (error, tensor) in worst.into_iter().take(WORST) {
            let weighted = tensor.weighted_error.map_or_else(|| "-".to_owned(), percent);
            let (name, ty) = (tensor.name.clone(), tensor.to.name().to_owned());
            table.row(vec![name, ty, percent(error), weighted]);
        }
        table.print()?;
    }
    Ok(())
}
