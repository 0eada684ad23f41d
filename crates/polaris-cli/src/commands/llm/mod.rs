//! Commands of language models, and what they share.

pub mod bench;
pub mod chat;
pub mod generate;
pub mod info;
pub mod perplexity;
pub mod plan;
pub mod tokenize;

use std::path::Path;

use anyhow::Context;
use polaris::DeviceRef;
use polaris::llm::{
    Engine, EngineOptions, Grammar, LoadOptions, Model, Perplexity, PerplexityOptions, Source,
    Speculation,
};

use crate::arguments::{Constraint, EngineChoice, Global, ModeName, SpeculationChoice};
use crate::exit::Usage;
use crate::session::Session;
use crate::{interrupt, output};

/// The most bytes of a grammar or schema.
const LARGEST_GRAMMAR: u64 = 4 << 20;

/// The most bytes of a text that a model computes.
const LARGEST_TEXT: u64 = 1 << 30;

/// The name of the model that is built in.
const TINY: &str = "tiny";

/// Whether a path is the name of the model that is built in. A file of that name goes before it.
fn is_built_in(path: &Path) -> bool {
    path.as_os_str() == TINY && !path.exists()
}

/// The model of a file or folder, or the one that is built in.
pub fn source(path: &Path) -> anyhow::Result<Source> {
    Ok(if is_built_in(path) { Source::tiny()? } else { Source::open(path)? })
}

/// A text that a model computes.
pub fn text(path: &Path) -> anyhow::Result<String> {
    polaris::files::read_text(path, LARGEST_TEXT)
        .with_context(|| format!("cannot read {}", path.display()))
}

/// How well two models predict a text, the second one beside the first; `progress` is told how many windows are done, of
/// each of them.
pub fn score(
    models: [&Model; 2],
    tokens: &[u32],
    first: Option<u32>,
    options: &PerplexityOptions,
    progress: &mut dyn FnMut(usize),
) -> anyhow::Result<[Perplexity; 2]> {
    let context = options.window;
    let engine =
        |model: &Model| Engine::new(model, &EngineOptions { context, ..EngineOptions::default() });
    let (mut before, mut after) = (engine(models[0])?, engine(models[1])?);
    let stop = &interrupt::requested;
    let alone = {
        let mut tell = |found: &Perplexity| progress(found.windows);
        before.perplexity(tokens, first, options, None, &mut tell, stop)?
    };
    let mut tell = |found: &Perplexity| progress(alone.windows + found.windows);
    let beside = after.perplexity(tokens, first, options, Some(&mut before), &mut tell, stop)?;
    Ok([alone, beside])
}

/// Whether a path is a language model: the one that is built in, a folder of Hugging Face, or a GGUF file by its name or
/// its first bytes.
pub fn is_language_model(path: &Path) -> bool {
    let by_name = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"));
    by_name
        || is_built_in(path)
        || Source::is_folder(path)
        || polaris::files::open(path).is_ok_and(|(mut file, _)| {
            let mut magic = [0; 4];
            std::io::Read::read_exact(&mut file, &mut magic).is_ok() && &magic == b"GGUF"
        })
}

/// The session and the device for a mode.
pub fn device(global: Global, mode: ModeName) -> anyhow::Result<(Session, DeviceRef)> {
    let mut session = Session::for_mode(global, mode)?;
    if mode != ModeName::Cpu {
        session.check_new_devices()?;
    }
    let named: Vec<DeviceRef> = match session.chosen.is_empty() {
        true => Vec::new(),
        false => session.devices()?,
    };
    let is_cpu = |device: &DeviceRef| device.as_cpu().is_some();
    let device = match (mode, named.first()) {
        (ModeName::Hybrid, _) => {
            let what = "language models do not run in mode hybrid yet; use cpu or gpu";
            return Err(Usage(what.to_owned()).into());
        }
        (ModeName::Cpu, Some(device)) if !is_cpu(device) => {
            let what =
                format!("mode cpu does not run on {}; name cpu or leave out --mode", device.id());
            return Err(Usage(what).into());
        }
        (ModeName::Gpu, Some(device)) if is_cpu(device) => {
            let what = "mode gpu does not run on the CPU; name another device";
            return Err(Usage(what.to_owned()).into());
        }
        (_, Some(device)) => device.clone(),
        (ModeName::Cpu, None) => session.runtime.cpu().clone(),
        (ModeName::Gpu, None) => {
            let first = session.runtime.devices().iter().find(|device| !is_cpu(device));
            first.cloned().ok_or(polaris::graph::Error::NoGpu)?
        }
        (_, None) => session.runtime.best().clone(),
    };
    Ok((session, device))
}

/// Loads a model, with a progress bar for large ones.
pub fn load(path: &Path, device: &DeviceRef, choice: &EngineChoice) -> anyhow::Result<Model> {
    let source = source(path)?;
    let options = LoadOptions { context: choice.context.map_or(0, |context| context as usize) };
    let bar = output::byte_progress(Some(source.bytes() as u64), "loading");
    let model = Model::load(&source, device, &options, |done| {
        bar.set_position(done as u64);
        match interrupt::requested() {
            true => Err(polaris::llm::Error::Cancelled),
            false => Ok(()),
        }
    });
    bar.finish_and_clear();
    Ok(model?)
}

/// Loads a model and makes room for its context.
pub fn engine(path: &Path, device: &DeviceRef, choice: &EngineChoice) -> anyhow::Result<Engine> {
    let model = load(path, device, choice)?;
    Ok(Engine::new(&model, &choice.options())?)
}

/// Gives an engine the draft model that the user asks for, and says how to speculate.
pub fn speculation(
    engine: &mut Engine,
    device: &DeviceRef,
    choice: &EngineChoice,
    speculation: &SpeculationChoice,
) -> anyhow::Result<Speculation> {
    if let Some(path) = &speculation.draft {
        let draft = self::engine(path, device, choice)?;
        engine.set_draft(draft).with_context(|| format!("cannot draft with {}", path.display()))?;
    }
    Ok(speculation.options())
}

/// The grammar that the user asks for.
pub fn grammar(constraint: &Constraint) -> anyhow::Result<Option<Grammar>> {
    let read = |path: &Path| -> anyhow::Result<String> {
        let bytes = polaris::files::read(path, LARGEST_GRAMMAR)
            .with_context(|| format!("cannot read {}", path.display()))?;
        String::from_utf8(bytes).with_context(|| format!("{} is not UTF-8", path.display()))
    };
    Ok(match (&constraint.grammar, &constraint.json_schema) {
        (Some(path), _) => Some(Grammar::from_gbnf(&read(path)?)?),
        (None, Some(path)) => Some(Grammar::from_json_schema(&read(path)?)?),
        (None, None) => None,
    })
}
