//! Processes that are killed or stopped at any moment, and what they leave: old files or new ones, never halves,
//! and nothing that keeps the next process from doing the work.
//!
//! The moment depends on the machine; what must hold does not.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::decoders;
use crate::fixtures::{Encoder, TABLE, configuration, text, toml};
use crate::formats::split_safetensors;
use crate::judge::Kind;
use crate::process::{Call, Moment, Output};
use crate::trial::Trial;

pub fn run(trial: &mut Trial<'_>) -> Result<()> {
    match trial.random.below(6) {
        0 | 1 => train(trial),
        2 => embed(trial),
        3 => tune(trial),
        4 => generate(trial),
        _ => chat(trial),
    }
}

const SIGNALS: [&str; 4] = ["KILL", "KILL", "INT", "TERM"];

fn a_signal(trial: &mut Trial<'_>) -> &'static str {
    SIGNALS[trial.random.below(SIGNALS.len())]
}

fn a_delay(trial: &mut Trial<'_>, most_ms: usize) -> Moment {
    Moment::After(Duration::from_micros(trial.random.below(most_ms * 1000) as u64))
}

/// Kills a training several times and resumes it; the model must be that of a training that was left alone.
fn train(trial: &mut Trial<'_>) -> Result<()> {
    let source = *trial.random.pick(&["csv", "text"]);
    let mut document = configuration(source);
    document["train"]["steps"] = json!(40);
    document["train"]["checkpoint_every"] = json!(5);
    trial.write("config.toml", toml(&document))?;
    trial.write("table.csv", TABLE)?;
    trial.write("text.txt", text())?;
    let alone = trial.polaris("train config.toml --out alone")?;
    if !alone.succeeded() {
        trial.fault(Kind::Broken, "a training that is left alone fails", alone.stderr_text());
        return Ok(());
    }
    for _ in 0..trial.random.between(1, 3) {
        let signal = a_signal(trial);
        let moment = match trial.random.below(3) {
            0 => a_delay(trial, 200),
            1 => Moment::Grown(trial.path("run/log.jsonl"), trial.random.below(6000) as u64),
            _ => Moment::Grown(trial.path("run/checkpoints"), trial.random.between(1, 4) as u64),
        };
        let arguments = resume(trial);
        trial.run(Call::new(arguments.split_whitespace()).signal(signal, moment))?;
    }
    // What one way refuses with advice for the other, the other must do.
    let has_checkpoint = resume(trial) == RESUME;
    let mut ended = trial.polaris(resume(trial))?;
    if !ended.succeeded() {
        ended = trial.polaris(if has_checkpoint { BEGIN } else { RESUME })?;
    }
    if !ended.succeeded() {
        let when = if has_checkpoint { "after" } else { "before" };
        let cause = format!(
            "a training that was killed {when} its first checkpoint cannot be gone on with"
        );
        trial.fault(Kind::Broken, cause, ended.stderr_text());
        return Ok(());
    }
    let content = |name: &str| {
        let file = polaris_files::read(&trial.path(name), 1 << 26).ok()?;
        split_safetensors(&file).map(|(header, data)| (header, data.to_vec()))
    };
    let (resumed, alone) = (content("run/model.safetensors"), content("alone/model.safetensors"));
    if resumed.is_none() || alone.is_none() {
        trial.fault(Kind::Broken, "a training leaves no model that can be read", source);
    } else if resumed != alone {
        trial.fault(Kind::Broken, "a resumed training ends with other bits", source);
    }
    Ok(())
}

const BEGIN: &str = "train config.toml --out run";
const RESUME: &str = "train config.toml --out run --resume";

/// Resumes if there is something to go on from.
fn resume(trial: &Trial<'_>) -> &'static str {
    let has_checkpoint = std::fs::read_dir(trial.path("run/checkpoints")).is_ok_and(|entries| {
        entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("step-"))
    });
    match has_checkpoint {
        true => RESUME,
        false => BEGIN,
    }
}

fn embed(trial: &mut Trial<'_>) -> Result<()> {
    Encoder::new().write(trial, "model")?;
    trial.write("lines.txt", "the quick brown fox\njumps over the lazy dog\n".repeat(1500))?;
    let name = *trial.random.pick(&["out.npy", "out.jsonl"]);
    let arguments = format!("embed model lines.txt --mode cpu -o {name}");
    again_is_whole(trial, &arguments, name, 600)
}

/// Stops a generation, whose stdout may be full or closed.
fn generate(trial: &mut Trial<'_>) -> Result<()> {
    let decoder = *trial.random.pick(&decoders::ALL[..7]);
    trial.write("model.gguf", decoder.file().bytes())?;
    let arguments = "generate model.gguf --mode cpu -c 4096 -n 4000 --ignore-end -p abc";
    let mut call = Call::new(arguments.split_whitespace());
    call.output = *trial.random.pick(&[Output::Read, Output::Full, Output::Closed]);
    if trial.random.once_in(3) {
        call.arguments.push("--json".into());
    }
    if call.output == Output::Read || trial.random.once_in(3) {
        call = call.signal(a_signal(trial), a_delay(trial, 2000));
    }
    trial.run(call)?;
    Ok(())
}

/// Stops a chat while it answers or saves: the conversation that was saved is the old one or the new one.
fn chat(trial: &mut Trial<'_>) -> Result<()> {
    trial.write("model.gguf", decoders::ALL[1].file().bytes())?;
    let input = trial.write("stdin", "hello\n/save saved.json\n".repeat(20))?;
    let mut call = Call::new("chat model.gguf --mode cpu -c 2048 -n 16".split_whitespace());
    call.input = Some(input);
    call.output = *trial.random.pick(&[Output::Read, Output::Read, Output::Full, Output::Closed]);
    let call = call.signal(a_signal(trial), a_delay(trial, 400));
    let ended = trial.run(call)?;
    if let Ok(saved) = polaris_files::read(&trial.path("saved.json"), 1 << 26)
        && let Err(error) = serde_json::from_slice::<serde_json::Value>(&saved)
    {
        trial.fault(Kind::Broken, format!("chat: half a file: {error}"), ended.stderr_text());
    }
    Ok(())
}

/// Kills an export of many measurements.
fn tune(trial: &mut Trial<'_>) -> Result<()> {
    let mut lines = String::new();
    for index in 0..20_000 {
        let record = json!({
            "schema": 1, "source": "0", "at": 1, "polaris": "0.1.0", "config": { "a": index },
            "device": { "chip": "cpu", "architecture": "cpu", "vendor": "v", "driver": "d", "compute_units": 2 },
            "problem": { "operation": "matmul", "dtype": "f32", "layout": "nn", "shape": [8, 8, 8] },
            "outcome": { "result": "measured", "seconds": 1e-3, "spread": 0.1, "samples": 3, "error": 0.0 },
        });
        lines.push_str(&record.to_string());
        lines.push('\n');
    }
    trial.write("../data/tuning/cpu.jsonl", lines)?;
    again_is_whole(trial, "tune --export out.jsonl", "out.jsonl", 300)
}

/// Kills a process that writes a file: the old one must be there or the whole new one, and the process must
/// do its work when it is run again.
fn again_is_whole(
    trial: &mut Trial<'_>,
    arguments: &str,
    name: &str,
    most_ms: usize,
) -> Result<()> {
    const OLD: &[u8] = b"what was there before";
    let ended = trial.polaris(arguments)?;
    let whole = polaris_files::read(&trial.path(name), 1 << 28);
    let Ok(whole) = whole else {
        trial.fault(Kind::Broken, format!("{arguments} wrote nothing"), ended.stderr_text());
        return Ok(());
    };
    for _ in 0..2 {
        trial.write(name, OLD)?;
        let (signal, moment) = (a_signal(trial), a_delay(trial, most_ms));
        trial.run(Call::new(arguments.split_whitespace()).signal(signal, moment))?;
        let left = polaris_files::read(&trial.path(name), 1 << 28).unwrap_or_default();
        if left != OLD && left != whole {
            let detail = format!("{} of {} bytes after SIG{signal}", left.len(), whole.len());
            trial.fault(Kind::Broken, format!("{arguments}: half a file"), detail);
        }
    }
    let ended = trial.polaris(arguments)?;
    let again = polaris_files::read(&trial.path(name), 1 << 28).unwrap_or_default();
    if again != whole {
        let detail = format!("{} of {} bytes: {}", again.len(), whole.len(), ended.stderr_text());
        trial.fault(Kind::Broken, format!("{arguments}: not the same after a kill"), detail);
    }
    Ok(())
}
