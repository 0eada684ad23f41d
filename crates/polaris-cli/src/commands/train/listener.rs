//! The progress of a training, on the terminal or line by line.

use std::io::IsTerminal;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use polaris::nn::quantize::Cause;
use polaris::nn::train::{Event, Listener, Trainer};

use crate::output::say;

/// Shows what happens.
pub struct Shown {
    bar: Option<ProgressBar>,
    quiet: bool,
    /// A loss that does not jump with every batch.
    loss: Option<f64>,
    examples: usize,
    since: Instant,
}

/// What a new loss counts in the one that is shown.
const NEW: f64 = 0.05;

impl Shown {
    pub fn new(trainer: &Trainer, json: bool) -> Self {
        let bar = (!json && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(trainer.total_steps());
            let style = ProgressStyle::with_template(
                "epoch {prefix} [{bar:30}] {pos}/{len} {msg} ({eta} left)",
            );
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_position(trainer.progress().step);
            bar.reset_eta();
            bar
        });
        Self { bar, quiet: json, loss: None, examples: 0, since: Instant::now() }
    }

    /// Leaves the terminal clean.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(polaris::printable_lines(line)),
            None if !self.quiet => say!("{line}"),
            None => {}
        }
    }
}

impl Listener for Shown {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Step { step, epoch, loss, examples, .. } => {
                let before = self.loss.unwrap_or(*loss);
                let shown = before + NEW * (loss - before);
                self.loss = Some(shown);
                self.examples += examples;
                if let Some(bar) = &self.bar {
                    let rate = self.examples as f64 / self.since.elapsed().as_secs_f64().max(1e-9);
                    bar.set_position(*step);
                    bar.set_prefix(epoch.to_string());
                    bar.set_message(format!("loss {shown:.4}, {rate:.0} examples/s"));
                }
            }
            Event::Evaluated { step, epoch, loss, accuracy, best } => {
                let accuracy = accuracy
                    .map_or(String::new(), |accuracy| format!(", {:.2} % right", 100.0 * accuracy));
                let learned = self.loss.map_or(String::new(), |loss| format!("loss {loss:.4}, "));
                let best = if *best { ", the best so far" } else { "" };
                self.say(&format!(
                    "step {step}, epoch {epoch}: {learned}validation {loss:.4}{accuracy}{best}"
                ));
            }
            Event::Precision { step, epoch, bits, cause } => {
                let why = match cause {
                    Cause::Begin => "quantisation begins",
                    Cause::Schedule => "a bit more by the schedule",
                    Cause::Plateau => "a bit more, since the loss became no smaller",
                };
                let bits = match bits {
                    0 => String::new(),
                    bits => format!(": weights of {bits} bits"),
                };
                self.say(&format!("step {step}, epoch {epoch}: {why}{bits}"));
            }
            Event::Saved { .. } => {}
        }
    }
}
