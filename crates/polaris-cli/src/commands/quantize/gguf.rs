//! `polaris quantize` of a language model in GGUF.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use polaris::gguf::Gguf;
use polaris::optimize::{Plan, PlanOptions, Recipe, WrittenTensor};
use polaris::runtime::MappedFile;
use serde::Serialize;

use crate::arguments::{Global, Quantize};
use crate::output::{Table, print_line};
use crate::session::Session;
use crate::{exit, interrupt, output};

/// Tensors that are named for their errors.
const WORST: usize = 5;

#[derive(Serialize)]
struct Quantized<'a> {
    model: &'a Path,
    path: Option<&'a Path>,
    r#type: &'static str,
    bytes_before: usize,
    bytes: usize,
    seconds: f64,
    tensors: Vec<Tensor<'a>>,
}

#[derive(Serialize)]
struct Tensor<'a> {
    name: &'a str,
    from: &'static str,
    to: &'static str,
    bytes_before: usize,
    bytes: usize,
    relative_error: Option<f64>,
    reason: Option<&'a str>,
}

pub fn run(global: Global, options: &Quantize) -> anyhow::Result<u8> {
    let json = global.json;
    let recipe = options.r#type.unwrap_or(Recipe::Q4_K_M);
    let out = if options.dry_run { None } else { options.out.as_deref() };
    let gguf = Gguf::open(&options.model, |path| MappedFile::open(path).map(|file| file.bytes()))?;
    let settings =
        PlanOptions { recipe, overrides: options.tensor.clone(), requantize: options.requantize };
    let plan = Plan::new(&gguf, &settings)?;
    let begin = Instant::now();
    let written = match out {
        Some(out) => write(global, &plan, out)?,
        None => Vec::new(),
    };
    let seconds = begin.elapsed().as_secs_f64();
    if json {
        let error = |number: usize| written.get(number).and_then(|tensor| tensor.relative_error);
        let result = Quantized {
            model: &options.model,
            path: out,
            r#type: recipe.name(),
            bytes_before: plan.bytes_before(),
            bytes: plan.bytes(),
            seconds,
            tensors: (plan.tensors().iter().enumerate())
                .map(|(number, tensor)| describe(tensor, error(number)))
                .collect(),
        };
        output::print_json("polaris.quantize/1", &result)?;
        return Ok(exit::OK);
    }
    print(&plan, &written)?;
    match out {
        Some(out) => {
            let (out, model) = (out.display(), options.model.display());
            print_line(&format!("wrote {out} in {seconds:.1} s"))?;
            print_line(&format!("  what it costs: polaris perplexity {out} TEXT --base {model}"))?;
        }
        None => print_line("nothing was written; leave out --dry-run to write it")?,
    }
    Ok(exit::OK)
}

fn write(global: Global, plan: &Plan<'_>, out: &Path) -> anyhow::Result<Vec<WrittenTensor>> {
    let session = Session::on_cpu(global)?;
    let cpu = session.runtime.cpu().as_cpu().context("the CPU should be one")?;
    let bar = output::byte_progress(Some(plan.bytes_before() as u64), "quantising");
    let names: Vec<_> = plan.tensors().iter().map(|tensor| tensor.name.clone()).collect();
    let mut progress = |done: polaris::optimize::Done| {
        bar.set_position(done.bytes as u64);
        if let Some(name) = names.get(done.tensors) {
            bar.set_message(polaris::printable(name).into_owned());
        }
    };
    let written = plan.write(out, cpu, &mut progress, &interrupt::requested);
    bar.finish_and_clear();
    Ok(written?)
}

fn describe(tensor: &polaris::optimize::PlannedTensor, relative_error: Option<f64>) -> Tensor<'_> {
    Tensor {
        name: &tensor.name,
        from: tensor.from.name(),
        to: tensor.to.name(),
        bytes_before: tensor.bytes_before(),
        bytes: tensor.bytes(),
        relative_error,
        reason: tensor.reason.as_deref(),
    }
}

fn print(plan: &Plan<'_>, written: &[WrittenTensor]) -> anyhow::Result<()> {
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
    let mut worst: Vec<_> = written
        .iter()
        .filter_map(|tensor| tensor.relative_error.map(|error| (error, tensor)))
        .collect();
    worst.sort_by(|a, b| b.0.total_cmp(&a.0));
    if !worst.is_empty() {
        print_line("largest errors, relative to the root of the mean square:")?;
        let mut table = Table::new(&["tensor", "type", ">error"]);
        for (error, tensor) in worst.into_iter().take(WORST) {
            let cells = [tensor.name.clone(), tensor.to.name().to_owned()];
            table.row([&cells[..], &[format!("{:.2} %", 100.0 * error)]].concat());
        }
        table.print()?;
    }
    Ok(())
}
