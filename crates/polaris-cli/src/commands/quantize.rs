//! `polaris quantize`: makes a language model smaller.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};
use polaris::gguf::Gguf;
use polaris::optimize::{Plan, PlanOptions, WrittenTensor};
use polaris::runtime::MappedFile;
use serde::Serialize;

use super::calibrate::{self, Gptq};
use crate::arguments::{Global, MethodName, Quantize};
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
    method: &'static str,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    gptq: Option<&'a Gptq>,
}

pub fn run(global: Global, options: &Quantize) -> anyhow::Result<u8> {
    let json = global.json;
    let out = if options.dry_run { None } else { options.out.as_deref() };
    if let Some(out) = out {
        check_place(out, &options.model)?;
    }
    if options.model.is_dir() {
        bail!("{} is a folder; convert it to GGUF first", options.model.display());
    }
    let gguf = Gguf::open(&options.model, |path| MappedFile::open(path).map(|file| file.bytes()))?;
    let settings = PlanOptions {
        recipe: options.r#type,
        overrides: options.tensor.clone(),
        requantize: options.requantize,
    };
    let plan = Plan::new(&gguf, &settings)?;
    let begin = Instant::now();
    let (written, by_gptq) = match out {
        Some(out) => write(global, options, &gguf, &plan, out)?,
        None => (Vec::new(), Vec::new()),
    };
    let seconds = begin.elapsed().as_secs_f64();
    if json {
        let error = |number: usize| written.get(number).and_then(|tensor| tensor.relative_error);
        let result = Quantized {
            model: &options.model,
            path: out,
            r#type: options.r#type.name(),
            bytes_before: plan.bytes_before(),
            bytes: plan.bytes(),
            seconds,
            method: match options.method {
                MethodName::Nearest => "nearest",
                MethodName::Gptq => "gptq",
            },
            tensors: (plan.tensors().iter().enumerate())
                .map(|(number, tensor)| Tensor {
                    gptq: by_gptq.iter().find(|gptq| gptq.tensor == number),
                    ..describe(tensor, error(number))
                })
                .collect(),
        };
        output::print_json("polaris.quantize/1", &result)?;
        return Ok(exit::OK);
    }
    print(&plan, &written)?;
    calibrate::print(&plan, &by_gptq)?;
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

/// That a file can be written there without harm to the model.
fn check_place(out: &Path, model: &Path) -> anyhow::Result<()> {
    if out.is_dir() {
        bail!("{} is a folder; name a file, as in -o model-q4.gguf", out.display());
    }
    let same = |path: &Path| std::fs::canonicalize(path).ok();
    if out.exists() && same(out).is_some() && same(out) == same(model) {
        bail!("{} is the model itself; name another file", out.display());
    }
    Ok(())
}

fn write(
    global: Global,
    options: &Quantize,
    gguf: &Gguf,
    plan: &Plan<'_>,
    out: &Path,
) -> anyhow::Result<(Vec<WrittenTensor>, Vec<Gptq>)> {
    let session = Session::on_cpu(global)?;
    let device = session.runtime.cpu();
    let cpu = device.as_cpu().context("the CPU should be one")?;
    let prepared = match options.method {
        MethodName::Nearest => None,
        MethodName::Gptq => Some(calibrate::gptq(options, gguf, plan, device, out)?),
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

fn describe(tensor: &polaris::optimize::PlannedTensor, relative_error: Option<f64>) -> Tensor<'_> {
    Tensor {
        name: &tensor.name,
        from: tensor.from.name(),
        to: tensor.to.name(),
        bytes_before: tensor.bytes_before(),
        bytes: tensor.bytes(),
        relative_error,
        reason: tensor.reason.as_deref(),
        gptq: None,
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
