//! `polaris run`: runs a model on inputs from files.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail};
use polaris::graph::Session as Model;
use polaris::models::classify::{Class, labels_of, likeliest, read_image, takes_images};
use polaris::models::inputs;
use polaris::nn::tensors_file::write_atomically;
use polaris::onnx::{Tensor, Value};
use polaris_bench::model::device_name;
use serde::Serialize;

use super::{load, profile};
use crate::arguments::{Global, Run};
use crate::exit;
use crate::interrupt;
use crate::output::{self, Table, print_line, say};
use crate::session::Session;

#[derive(Serialize)]
struct Result {
    model: PathBuf,
    device: String,
    runs: u32,
    /// The first run, with planning and building.
    first_ms: f64,
    /// The other runs.
    median_ms: Option<f64>,
    outputs: Vec<Output>,
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<Vec<Class>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<polaris::graph::Profile>,
}

/// Profiled runs if `--repeat` is 1.
const PROFILED_RUNS: usize = 5;

#[derive(Serialize)]
struct Output {
    name: String,
    r#type: String,
    min: Option<f64>,
    mean: Option<f64>,
    max: Option<f64>,
    file: Option<PathBuf>,
}

pub fn run(global: Global, options: &Run) -> anyhow::Result<u8> {
    let json = global.json;
    let labels = options.labels.as_deref().map(read_labels).transpose()?;
    let mut session = Session::for_mode(global, options.choice.mode)?;
    let model = load(&mut session, &options.choice)?;
    let given = gather(&model, options)?;
    let given: Vec<(&str, Value)> =
        given.iter().map(|(name, tensor)| (name.as_str(), Value::Tensor(tensor.clone()))).collect();
    let mut times = Vec::new();
    let mut outputs = Vec::new();
    for _ in 0..options.repeat {
        if interrupt::requested() {
            return Err(polaris::runtime::Error::Interrupted.into());
        }
        let start = Instant::now();
        outputs = model.run(&given)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let first_ms = times.remove(0);
    times.sort_by(f64::total_cmp);
    let classify = options.image.is_some() || labels.is_some();
    let classes = match outputs.first() {
        Some((_, Value::Tensor(tensor))) if classify => {
            let own = labels.or_else(|| labels_of(&model));
            Some(likeliest(tensor, own.as_deref())?)
        }
        _ => None,
    };
    let mut result = Result {
        model: options.choice.model.clone(),
        device: device_name(&model),
        runs: options.repeat,
        first_ms,
        median_ms: times.get(times.len() / 2).copied(),
        outputs: Vec::new(),
        classes,
        profile: None,
    };
    if let Some(path) = &options.profile {
        let runs = if options.repeat > 1 { options.repeat as usize } else { PROFILED_RUNS };
        let taken = model.profile(&given, runs)?;
        let title = options.choice.model.display().to_string();
        profile::write_trace(path, &title, &model, &taken)?;
        result.profile = Some(taken);
    }
    let mut taken = Vec::new();
    for (name, value) in &outputs {
        result.outputs.push(describe(name, value, options, &mut taken)?);
    }
    match json {
        true => output::print_json("polaris.run/1", &result)?,
        false => print(&result)?,
    }
    Ok(exit::OK)
}

/// Every input's tensor: from a file, from an image, or random.
fn gather(model: &Model, options: &Run) -> anyhow::Result<Vec<(String, Tensor)>> {
    let lengths = options.choice.lengths();
    inputs::check_lengths(model, &lengths)?;
    let mut given = Vec::new();
    for file in &options.input {
        let declared = model.inputs().into_iter().find(|(name, _)| *name == file.name);
        let tensor = inputs::read(&file.value, declared.and_then(|(_, ty)| ty))?;
        given.push((file.name.clone(), tensor));
    }
    let mut shown = false;
    for (name, ty) in model.inputs() {
        if given.iter().any(|(other, _)| other == name) {
            continue;
        }
        let image = options.image.as_ref().filter(|_| !shown && takes_images(ty));
        if let Some(path) = image {
            shown = true;
            let ty = ty.map(|ty| match options.choice.dim.is_empty() {
                true => ty.clone(),
                false => inputs::closed(ty, &lengths),
            });
            given.push((name.to_owned(), read_image(path, ty.as_ref(), name)?));
        } else if options.random_inputs {
            let ty = ty.context("the model does not declare the types of its inputs")?;
            let tensor = inputs::random(&inputs::closed(ty, &lengths), name, options.seed)?;
            given.push((name.to_owned(), tensor));
        }
    }
    if options.image.is_some() && !shown {
        bail!(
            "no remaining input takes an image, f32[N, 3, H, W]; the model takes {}",
            model.inputs_in_words()
        );
    }
    if given.is_empty() && !model.inputs().is_empty() {
        bail!(
            "no inputs were given; the model takes {}: use --input NAME=FILE.npy, or try --random-inputs",
            model.inputs_in_words()
        );
    }
    Ok(given)
}

/// A unique file name for an output, since names of values may contain path separators.
fn file_name(name: &str, taken: &mut Vec<String>) -> String {
    let allowed = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let plain: String = name.trim_start_matches('.').chars().take(100).map(allowed).collect();
    let numbered = (1..).map(|number| format!("{plain}_{number}.npy"));
    let mut names = std::iter::once(format!("{plain}.npy")).chain(numbered);
    let free = names.find(|name| !taken.contains(name)).unwrap_or_default();
    taken.push(free.clone());
    free
}

fn describe(
    name: &str,
    value: &Value,
    options: &Run,
    taken: &mut Vec<String>,
) -> anyhow::Result<Output> {
    let mut output = Output {
        name: name.to_owned(),
        r#type: value.ty().to_string(),
        min: None,
        mean: None,
        max: None,
        file: None,
    };
    let Value::Tensor(tensor) = value else { return Ok(output) };
    if let Ok(numbers) = tensor.to_f64()
        && !numbers.is_empty()
    {
        output.min = numbers.iter().copied().reduce(f64::min);
        output.max = numbers.iter().copied().reduce(f64::max);
        output.mean = Some(numbers.iter().sum::<f64>() / numbers.len() as f64);
    }
    if let Some(folder) = &options.output_dir {
        match inputs::npy(tensor) {
            Ok(bytes) => {
                let path = folder.join(file_name(name, taken));
                write_atomically(&path, &bytes)?;
                output.file = Some(path);
            }
            Err(error) => say!("note: cannot write the output `{name}`: {error:#}"),
        }
    }
    Ok(output)
}

fn read_labels(path: &std::path::Path) -> anyhow::Result<Vec<String>> {
    // Enough for millions of classes.
    let text = polaris_files::read_text(path, 256 << 20);
    let text = text.with_context(|| format!("{}", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn print(result: &Result) -> anyhow::Result<()> {
    let mut table = Table::new(&["output", "type", ">min", ">mean", ">max", "file"]);
    let number =
        |number: Option<f64>| number.map_or(String::new(), |number| format!("{number:.6}"));
    for output in &result.outputs {
        table.row(vec![
            output.name.clone(),
            output.r#type.clone(),
            number(output.min),
            number(output.mean),
            number(output.max),
            output.file.as_ref().map_or(String::new(), |path| path.display().to_string()),
        ]);
    }
    table.print()?;
    if let Some(classes) = &result.classes {
        let mut table = Table::new(&[">class", "label", ">probability"]);
        for class in classes {
            let label = class.label.clone().unwrap_or_default();
            table.row(vec![class.class.to_string(), label, format!("{:.4}", class.probability)]);
        }
        table.print()?;
    }
    if let Some(taken) = &result.profile {
        profile::print(taken)?;
    }
    let median = result.median_ms.map_or(String::new(), |ms| format!(", then {ms:.2} ms"));
    print_line(&format!("{}: first run {:.1} ms{median}", result.device, result.first_ms))
}
