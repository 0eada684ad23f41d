//! `polaris compare` of language models: on the same text.

use std::path::{Path, PathBuf};

use anyhow::bail;
use polaris::llm::{LoadOptions, Model, PerplexityOptions, Special};
use polaris::optimize::speed::{SpeedOptions, tokens_per_second};
use serde::Serialize;

use super::llm::{device, score, source, text as read_text};
use crate::arguments::{Compare, Global};
use crate::output::{self, Table, print_line};
use crate::{exit, interrupt};

/// Tokens of a window, of which the second half counts, as in `polaris perplexity`.
const WINDOW: usize = 512;

#[derive(Serialize)]
struct Result {
    tokens: usize,
    windows: usize,
    window: usize,
    device: String,
    models: [Side; 2],
    /// Of the second model from the first, in nats a token.
    kl_mean: f64,
    kl_largest: f64,
    /// From 0 to 1.
    top1_agreement: f64,
}

#[derive(Serialize)]
struct Side {
    path: PathBuf,
    bytes: u64,
    perplexity: f64,
    /// One token after another, in turns.
    tokens_per_second: f64,
}

pub fn run(global: Global, options: &Compare) -> anyhow::Result<u8> {
    let paths = [&options.first, &options.second];
    let data = &options.data;
    if data.is_dir() {
        bail!("{} is a folder; language models are compared on a text", data.display());
    }
    let text = read_text(data)?;
    let json = global.json;
    let (_session, device) = device(global, options.mode)?;
    let load = |path: &Path| -> anyhow::Result<(Model, u64)> {
        let source = source(path)?;
        let model = Model::load(&source, &device, &LoadOptions { context: WINDOW }, |_| {
            match interrupt::requested() {
                true => Err(polaris::llm::Error::Cancelled),
                false => Ok(()),
            }
        })?;
        Ok((model, source.bytes() as u64))
    };
    let [(first, first_bytes), (second, second_bytes)] = [load(paths[0])?, load(paths[1])?];
    let tokenizer = first.require_tokenizer()?;
    let encode = |model: &Model| -> anyhow::Result<Vec<u32>> {
        let tokenizer = model.require_tokenizer()?;
        Ok(tokenizer.framed(&tokenizer.encode(&text, Special::Plain)?))
    };
    let tokens = encode(&first)?;
    if tokens != encode(&second)? {
        bail!("the models have other tokens for this text: what they predict cannot be compared");
    }
    let stop = &interrupt::requested;
    let speeds = tokens_per_second(&[&first, &second], &SpeedOptions::default(), stop)?;
    let windows = options.samples.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    let settings = PerplexityOptions { window: WINDOW, windows };
    let all = (tokens.len() / WINDOW).min(windows.unwrap_or(usize::MAX));
    let begin = tokenizer.begin().first().copied();
    let bar = output::progress(2 * all, "windows");
    let mut progress = |done: usize| bar.set_position(done as u64);
    let [alone, scored] = score([&first, &second], &tokens, begin, &settings, &mut progress)?;
    bar.finish_and_clear();
    let divergence = scored.divergence.unwrap_or_default();
    let side = |at: usize, bytes: u64, perplexity: f64| Side {
        path: paths[at].clone(),
        bytes,
        perplexity,
        tokens_per_second: speeds[at],
    };
    let result = Result {
        tokens: scored.tokens,
        windows: scored.windows,
        window: WINDOW,
        device: device.id().to_string(),
        models: [side(0, first_bytes, alone.perplexity), side(1, second_bytes, scored.perplexity)],
        kl_mean: divergence.mean,
        kl_largest: divergence.largest,
        top1_agreement: divergence.same_top,
    };
    match json {
        true => output::print_json("polaris.compare.llm/1", &result)?,
        false => print(&result)?,
    }
    Ok(exit::OK)
}

fn print(result: &Result) -> anyhow::Result<()> {
    let mut table = Table::new(&["model", ">weights", ">perplexity", ">tokens/s"]);
    for side in &result.models {
        table.row(vec![
            side.path.display().to_string(),
            format!("{:.2} MB", side.bytes as f64 / 1e6),
            format!("{:.4}", side.perplexity),
            format!("{:.1}", side.tokens_per_second),
        ]);
    }
    table.print()?;
    let same = 100.0 * result.top1_agreement;
    print_line(&format!(
        "KL divergence {:.6} on average, {:.4} at most; the same top token in {same:.2} %",
        result.kl_mean, result.kl_largest
    ))?;
    let Result { tokens, windows, window, device, .. } = result;
    print_line(&format!("{tokens} tokens in {windows} windows of {window}, on {device}"))
}
