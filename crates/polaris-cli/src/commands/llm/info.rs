//! `polaris info` of a language model: metadata, tensors, memory.

use std::collections::BTreeMap;
use std::path::Path;

use polaris::llm::{CacheType, Config};
use serde::Serialize;

use crate::arguments::{Global, ModeName};
use crate::output::Table;
use crate::session::Session;
use crate::{exit, output};

/// Values of metadata that are longer are truncated.
const LONGEST_VALUE: usize = 80;

#[derive(Serialize)]
struct Result {
    model: String,
    architecture: String,
    supported: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    name: Option<String>,
    parameters: usize,
    bytes: usize,
    layers: Option<usize>,
    context: usize,
    cache_type: &'static str,
    cache_bytes: Option<u64>,
    tensors: Vec<Kind>,
    devices: Vec<Fit>,
    metadata: BTreeMap<String, String>,
}

/// Tensors of a type.
#[derive(Serialize)]
struct Kind {
    r#type: &'static str,
    count: usize,
    elements: usize,
    bytes: usize,
}

/// Whether weights and cache fit a device.
#[derive(Serialize)]
struct Fit {
    device: String,
    name: String,
    memory_bytes: u64,
    fits: bool,
}

pub fn run(
    global: Global,
    path: &Path,
    mode: ModeName,
    context: Option<usize>,
    cache_type: CacheType,
) -> anyhow::Result<u8> {
    let json = global.json;
    let source = super::source(path)?;
    let architecture: &str = source.metadata.get("general.architecture")?.unwrap_or("?");
    let config = Config::read(&source.metadata);
    let (config, problem) = match config {
        Ok(config) => (Some(config), None),
        Err(error) => (None, Some(error.to_string())),
    };
    if let Some(config) = &config {
        cache_type.check(config)?;
    }
    let trained = config.as_ref().map_or(0, |config| config.context);
    let context = context.unwrap_or(trained.min(4096));
    let cache_bytes = config.as_ref().map(|config| {
        let keys = config.cache_bytes(cache_type).saturating_mul(context as u64);
        keys.saturating_add(config.state_bytes())
    });
    let mut kinds: BTreeMap<u32, Kind> = BTreeMap::new();
    for tensor in source.tensors.values() {
        let r#type = tensor.ty.name();
        let kind = kinds.entry(tensor.ty.id());
        let kind = kind.or_insert(Kind { r#type, count: 0, elements: 0, bytes: 0 });
        kind.count += 1;
        kind.elements += tensor.dims.iter().product::<usize>();
        kind.bytes += tensor.bytes();
    }
    let session = Session::for_mode(global, mode)?;
    let needed = (source.bytes() as u64).saturating_add(cache_bytes.unwrap_or(0));
    let fit = |device: &polaris::DeviceRef| {
        let memory = device.allocator().memory_use();
        let memory_bytes = memory.limit.saturating_sub(memory.used);
        Fit {
            device: device.id().to_string(),
            name: device.info().name.clone(),
            memory_bytes,
            fits: needed <= memory_bytes,
        }
    };
    let result = Result {
        model: path.display().to_string(),
        architecture: architecture.to_owned(),
        supported: problem.is_none(),
        problem,
        name: source.metadata.get::<&str>("general.name")?.map(str::to_owned),
        parameters: kinds.values().map(|kind| kind.elements).sum(),
        bytes: source.bytes(),
        layers: config.as_ref().map(|config| config.layers.len()),
        context,
        cache_type: cache_type.name(),
        cache_bytes,
        tensors: kinds.into_values().collect(),
        devices: session.devices()?.iter().map(fit).collect(),
        metadata: source
            .metadata
            .iter()
            .map(|(key, value)| (key.to_owned(), shortened(&value.to_string())))
            .collect(),
    };
    match json {
        true => output::print_json("polaris.info.gguf/1", &result)?,
        false => print(&result)?,
    }
    Ok(exit::OK)
}

fn shortened(value: &str) -> String {
    match value.char_indices().nth(LONGEST_VALUE) {
        Some((at, _)) => format!("{}...", &value[..at]),
        None => value.to_owned(),
    }
}

fn print(result: &Result) -> anyhow::Result<()> {
    let gb = |bytes: u64| format!("{:.2} GB", bytes as f64 / 1e9);
    let name = result.name.as_deref().unwrap_or("no name");
    let billions = result.parameters as f64 / 1e9;
    output::print_line(&format!(
        "{name}: {}, {billions:.3} billion parameters, {}",
        result.architecture,
        gb(result.bytes as u64)
    ))?;
    if let Some(problem) = &result.problem {
        output::print_line(&format!("cannot be run: {problem}"))?;
    }
    if let Some(cache) = result.cache_bytes {
        let layers = result.layers.unwrap_or(0);
        output::print_line(&format!(
            "{layers} layers; {} of cache for {} tokens in {}",
            gb(cache),
            result.context,
            result.cache_type
        ))?;
    }
    let mut table = Table::new(&["type", ">tensors", ">elements", ">bytes"]);
    for kind in &result.tensors {
        table.row(vec![
            kind.r#type.to_owned(),
            kind.count.to_string(),
            kind.elements.to_string(),
            kind.bytes.to_string(),
        ]);
    }
    table.print()?;
    let mut table = Table::new(&["device", "name", ">memory", "fits"]);
    for fit in &result.devices {
        let fits = if fit.fits { "yes" } else { "no" };
        table.row(vec![
            fit.device.clone(),
            fit.name.clone(),
            gb(fit.memory_bytes),
            fits.to_owned(),
        ]);
    }
    table.print()?;
    let mut table = Table::new(&["key", "value"]);
    for (key, value) in &result.metadata {
        table.row(vec![key.clone(), value.clone()]);
    }
    table.print()
}
