//! `polaris perplexity`: how well a model predicts a text.

use anyhow::Context;
use polaris::llm::{PerplexityOptions, Special};
use serde::Serialize;

use super::{device, engine};
use crate::arguments::{Global, Perplexity};
use crate::output::say;
use crate::{exit, interrupt, output};

/// The most bytes of a text that is scored.
const LARGEST_TEXT: u64 = 1 << 30;

#[derive(Serialize)]
struct Result {
    perplexity: f64,
    error: f64,
    tokens: usize,
    windows: usize,
    window: u32,
    seconds: f64,
    device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    divergence: Option<Divergence>,
}

#[derive(Serialize)]
struct Divergence {
    mean: f64,
    largest: f64,
    same_top: f64,
}

pub fn run(global: Global, options: &Perplexity) -> anyhow::Result<u8> {
    let json = global.json;
    let path = &options.text;
    let text = polaris::files::read(path, LARGEST_TEXT)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let text =
        String::from_utf8(text).with_context(|| format!("{} is not UTF-8", path.display()))?;
    let (_session, device) = device(global, options.engine.mode)?;
    let mut choice = options.engine.clone();
    choice.context = Some(choice.context.unwrap_or(options.window).max(options.window));
    let mut engine = engine(&options.model, &device, &choice)?;
    let mut base = match &options.base {
        Some(path) => Some(super::engine(path, &device, &choice)?),
        None => None,
    };
    let model = engine.model().clone();
    let tokenizer = model.require_tokenizer()?;
    let tokens = tokenizer.framed(&tokenizer.encode(&text, Special::Plain)?);
    let count = options.windows.map(|windows| windows as usize);
    let settings = PerplexityOptions { window: options.window as usize, windows: count };
    let all = (tokens.len() / settings.window).min(count.unwrap_or(usize::MAX));
    let bar = output::progress(all, "windows");
    let begin = std::time::Instant::now();
    let mut progress = |result: &polaris::llm::Perplexity| {
        bar.set_position(result.windows as u64);
        bar.set_message(format!("perplexity {:.4}", result.perplexity));
    };
    let first = tokenizer.begin().first().copied();
    let scored = engine.perplexity(
        &tokens,
        first,
        &settings,
        base.as_mut(),
        &mut progress,
        &interrupt::requested,
    );
    bar.finish_and_clear();
    let scored = scored?;
    let result = Result {
        perplexity: scored.perplexity,
        error: scored.error,
        tokens: scored.tokens,
        windows: scored.windows,
        window: options.window,
        seconds: begin.elapsed().as_secs_f64(),
        device: device.id().to_string(),
        divergence: scored.divergence.map(|divergence| Divergence {
            mean: divergence.mean,
            largest: divergence.largest,
            same_top: divergence.same_top,
        }),
    };
    if json {
        output::print_json("polaris.perplexity/1", &result)?;
        return Ok(exit::OK);
    }
    output::print_line(&format!("perplexity {:.4} ± {:.4}", result.perplexity, result.error))?;
    if let Some(divergence) = &result.divergence {
        let same = 100.0 * divergence.same_top;
        output::print_line(&format!(
            "KL divergence {:.6} (largest {:.4}), same top token {same:.2} %",
            divergence.mean, divergence.largest
        ))?;
    }
    say!("{} tokens in {} windows of {}", result.tokens, result.windows, result.window);
    Ok(exit::OK)
}
