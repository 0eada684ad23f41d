//! What a file that was written really does, beside what was predicted of it.

use std::path::Path;

use polaris::DeviceRef;
use polaris::gguf::Gguf;
use polaris::llm::{LoadOptions, Model, PerplexityOptions, Source};
use polaris::optimize::speed::{SpeedOptions, tokens_per_second};
use serde::Serialize;

use super::mixed::Chosen;
use crate::commands::llm;
use crate::interrupt;
use crate::output::print_line;

/// The part of a text that nothing was chosen by.
pub struct HeldOut {
    pub tokens: Vec<u32>,
    /// What begins each window.
    pub first: Option<u32>,
    pub window: usize,
    pub windows: usize,
}

/// What was measured of the file and of the model that it was made from.
#[derive(Debug, Serialize)]
pub struct Validation {
    /// On the device that was named, or the CPU: one token after another, both in turns.
    pub tokens_per_second: f64,
    pub source_tokens_per_second: f64,
    /// With a text, of which windows are left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<Score>,
}

/// How well the file predicts a text.
#[derive(Debug, Serialize)]
pub struct Score {
    /// From the model, in nats a token.
    pub divergence: f64,
    pub perplexity: f64,
    pub source_perplexity: f64,
    pub windows: usize,
}

/// Measures and scores the file.
pub fn validate(
    gguf: &Gguf,
    written: &Path,
    device: &DeviceRef,
    held_out: Option<&HeldOut>,
) -> anyhow::Result<Validation> {
    let context = held_out.map_or(0, |held_out| held_out.window);
    let load = |source: &Source| {
        Model::load(source, device, &LoadOptions { context }, |_| match interrupt::requested() {
            true => Err(polaris::llm::Error::Cancelled),
            false => Ok(()),
        })
    };
    let before = load(&Source::from_gguf(gguf)?)?;
    let after = load(&Source::open(written)?)?;
    let speeds =
        tokens_per_second(&[&before, &after], &SpeedOptions::default(), &interrupt::requested)?;
    let enough = held_out.filter(|held_out| held_out.tokens.len() >= held_out.window);
    let score = enough.map(|held_out| score(&before, &after, held_out)).transpose()?;
    Ok(Validation { tokens_per_second: speeds[1], source_tokens_per_second: speeds[0], score })
}

fn score(before: &Model, after: &Model, held_out: &HeldOut) -> anyhow::Result<Score> {
    let &HeldOut { ref tokens, first, window, windows } = held_out;
    let options = PerplexityOptions { window, windows: Some(windows) };
    let models = [before, after];
    let [alone, scored] = llm::score(models, tokens, first, &options, &mut |_| {})?;
    Ok(Score {
        divergence: scored.divergence.unwrap_or_default().mean,
        perplexity: scored.perplexity,
        source_perplexity: alone.perplexity,
        windows: scored.windows,
    })
}

impl Validation {
    /// What was measured, and how far predictions were from that.
    pub fn print(&self, chosen: Option<&Chosen>) -> anyhow::Result<()> {
        let Self { tokens_per_second: speed, source_tokens_per_second: source, score } = self;
        let predicted = chosen.and_then(|chosen| chosen.speed(&chosen.mixture));
        let said = predicted.map_or_else(String::new, |predicted| {
            format!("; {predicted:.1} predicted ({:+.1} %)", 100.0 * (predicted / speed - 1.0))
        });
        print_line(&format!(
            "measured speed {speed:.1} tokens/s, {:.2} times as fast as the model ({source:.1}){said}",
            speed / source
        ))?;
        let Some(score) = score else {
            return match chosen {
                Some(_) => {
                    print_line("not scored: the text has no window that nothing was chosen by")
                }
                None => Ok(()),
            };
        };
        let predicted = chosen.map_or_else(String::new, |chosen| {
            format!("; {:.5} predicted", chosen.mixture.divergence)
        });
        print_line(&format!(
            "measured divergence {:.5} nats a token in {} other windows of the text{predicted}",
            score.divergence, score.windows
        ))?;
        print_line(&format!(
            "perplexity {:.3} there, of the model {:.3}",
            score.perplexity, score.source_perplexity
        ))
    }
}
