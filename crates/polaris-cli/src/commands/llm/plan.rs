//! `polaris plan` of a language model: the steps that compute some tokens.

use std::path::Path;

use polaris::llm::{Engine, EngineOptions, LoadOptions, Model};
use serde::Serialize;

use super::device;
use crate::arguments::{Global, ModeName};
use crate::{exit, output};

#[derive(Serialize)]
struct Result {
    model: String,
    device: String,
    tokens: usize,
    steps: Vec<String>,
}

/// `tokens`: how many are computed at once; 1 is the plan of generation.
pub fn run(global: Global, path: &Path, mode: ModeName, tokens: usize) -> anyhow::Result<u8> {
    let json = global.json;
    let (_session, device) = device(global, mode)?;
    let source = super::source(path)?;
    let model = Model::load(&source, &device, &LoadOptions::default(), |_| Ok(()))?;
    let options = EngineOptions { batch: tokens, ..EngineOptions::default() };
    let mut engine = Engine::new(&model, &options)?;
    let steps = engine.describe(tokens)?;
    let result = Result {
        model: path.display().to_string(),
        device: device.id().to_string(),
        tokens,
        steps,
    };
    if json {
        output::print_json("polaris.plan.gguf/1", &result)?;
        return Ok(exit::OK);
    }
    result.steps.iter().try_for_each(|step| output::print_line(step))?;
    Ok(exit::OK)
}
