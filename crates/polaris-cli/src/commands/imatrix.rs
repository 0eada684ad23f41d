//! `polaris imatrix`: how much each column of a model's matrices counts.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use polaris::llm::{CacheType, EngineOptions, LoadOptions, Model, Precision, Special};
use polaris::optimize::{CalibrationText, Error, Importance};
use serde::Serialize;

use super::llm::source;
use super::quantize::check_place;
use crate::arguments::{Global, Imatrix};
use crate::output::{print_line, say};
use crate::session::Session;
use crate::{exit, interrupt, output};

/// The most bytes of a text.
const LARGEST_TEXT: u64 = 1 << 30;

#[derive(Serialize)]
struct Result<'a> {
    model: Option<&'a Path>,
    merged: &'a [PathBuf],
    path: &'a Path,
    texts: &'a [String],
    window: usize,
    windows: usize,
    tensors: usize,
    unseen_matrices: usize,
    seconds: f64,
}

pub fn run(global: Global, options: &Imatrix) -> anyhow::Result<u8> {
    let json = global.json;
    if options.out.is_dir() {
        bail!("{} is a folder; name a file, as in -o model.imatrix.gguf", options.out.display());
    }
    let begin = Instant::now();
    let importance = match (&options.model, &options.text) {
        (Some(model), Some(text)) => {
            check_place(&options.out, model, "the model")?;
            check_place(&options.out, text, "the text")?;
            collect(global, options, model, text)?
        }
        _ => merge(options)?,
    };
    let result = Result {
        model: options.model.as_deref(),
        merged: &options.merge,
        path: &options.out,
        texts: &importance.texts,
        window: importance.window,
        windows: importance.windows,
        tensors: importance.tensors().len(),
        unseen_matrices: importance.unseen(),
        seconds: begin.elapsed().as_secs_f64(),
    };
    if json {
        output::print_json("polaris.imatrix/1", &result)?;
        return Ok(exit::OK);
    }
    let Result { tensors, windows, window, seconds, .. } = result;
    print_line(&format!("{tensors} tensors from {windows} windows of {window} tokens"))?;
    if result.unseen_matrices > 0 {
        let unseen = result.unseen_matrices;
        print_line(&format!(
            "  {unseen} experts got no token, and their columns will count alike; a longer text reaches more"
        ))?;
    }
    let out = options.out.display();
    print_line(&format!("wrote {out} in {seconds:.1} s"))?;
    if let Some(model) = &options.model {
        let model = model.display();
        print_line(&format!("  next: polaris quantize {model} -o OUT --imatrix {out}"))?;
    }
    Ok(exit::OK)
}

/// Adds up files.
fn merge(options: &Imatrix) -> anyhow::Result<Importance> {
    let mut sum = Importance::default();
    for path in &options.merge {
        let one = Importance::read(path)?;
        sum.merge(&one).with_context(|| format!("cannot add {}", path.display()))?;
    }
    sum.write(&options.out)?;
    Ok(sum)
}

fn collect(
    global: Global,
    options: &Imatrix,
    model: &Path,
    text: &Path,
) -> anyhow::Result<Importance> {
    let window = options.window as usize;
    let is_there = options.resume && options.out.exists();
    let mut importance = match is_there {
        true => Importance::read(&options.out)?,
        false => Importance::new(window),
    };
    importance.window = window;
    let name = text.display().to_string();
    let bytes =
        polaris::files::read(text, LARGEST_TEXT).with_context(|| format!("cannot read {name}"))?;
    let string = String::from_utf8(bytes).with_context(|| format!("{name} is not UTF-8"))?;
    let session = Session::on_cpu(global)?;
    let load = LoadOptions { context: window };
    let bar = output::byte_progress(None, "loading");
    let model = Model::load(&source(model)?, session.runtime.cpu(), &load, |done| {
        bar.set_position(done as u64);
        match interrupt::requested() {
            true => Err(polaris::llm::Error::Cancelled),
            false => Ok(()),
        }
    });
    bar.finish_and_clear();
    let model = model?;
    // Activations as they are: nothing of them is rounded but in the products of f32.
    let mut engine = polaris::llm::Engine::new(
        &model,
        &EngineOptions {
            context: window,
            cache: CacheType::F32,
            precision: Precision::Full,
            ..EngineOptions::default()
        },
    )?;
    let tokenizer = model.require_tokenizer()?;
    let tokens = tokenizer.framed(&tokenizer.encode(&string, Special::Plain)?);
    let most = options.windows.map(|windows| windows as usize);
    let text = CalibrationText {
        name: &name,
        tokens: &tokens,
        first: tokenizer.begin().first().copied(),
        windows: most,
    };
    let bar = output::progress((tokens.len() / window).min(most.unwrap_or(usize::MAX)), "windows");
    bar.set_position(importance.windows as u64);
    let before = importance.windows;
    let mut saved = before;
    let mut done = |importance: &Importance| {
        bar.set_position(importance.windows as u64);
        if importance.windows - saved >= options.save_every as usize {
            importance.write(&options.out)?;
            saved = importance.windows;
        }
        Ok(())
    };
    let result = importance.collect(&mut engine, &text, &mut done, &interrupt::requested);
    bar.finish_and_clear();
    let is_stopped = matches!(result, Err(Error::Llm(polaris::llm::Error::Cancelled)));
    // What was computed until then is kept, and goes on with the same command.
    if is_stopped && importance.windows > before || result.is_ok() {
        importance.write(&options.out)?;
    }
    if is_stopped && importance.windows > 0 {
        let (windows, out) = (importance.windows, options.out.display());
        say!("{windows} windows are in {out}; --resume goes on");
    }
    result?;
    Ok(importance)
}
