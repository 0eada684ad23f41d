//! `polaris bench llm`: the speed of prompts and of generation.

use std::ops::Range;
use std::time::Instant;

use polaris::llm::{Engine, EngineOptions, StepTime, Wanted};
use serde::Serialize;

use super::{device, load};
use crate::arguments::{BenchLlm, Global};
use crate::output::{Table, say};
use crate::{exit, interrupt, output};

/// No block of the cache holds more positions.
const CACHE_BLOCK: u32 = 32;

#[derive(Serialize)]
struct Document {
    model: String,
    architecture: &'static str,
    bytes: usize,
    load_seconds: f64,
    results: Vec<Measured>,
    peak_memory_bytes: u64,
}

#[derive(Serialize)]
struct Measured {
    test: String,
    sequences: usize,
    threads: usize,
    device: String,
    tokens_per_second: f64,
    standard_deviation: f64,
    samples: Vec<f64>,
    /// The time of one token after an empty context, or of the whole prompt: what a user waits for.
    first_token_seconds: f64,
    /// Bytes of weights that a generated token reads, by the time it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    weight_bytes_per_second: Option<f64>,
    /// The same, by the measured memory bandwidth of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    bandwidth_share: Option<f64>,
    /// Where the time of one more run went, the longest steps first.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<Vec<Timed>>,
}

/// A step of all layers.
#[derive(Serialize)]
struct Timed {
    step: String,
    operation: &'static str,
    runs: u64,
    seconds: f64,
    share: f64,
    bytes_per_second: f64,
}

pub fn run(global: Global, options: &BenchLlm) -> anyhow::Result<u8> {
    let json = global.json;
    let (session, device) = device(global, options.engine.mode)?;
    let begin = Instant::now();
    let mut choice = options.engine.clone();
    let longest = options.prompt.iter().chain(&options.tokens).max().copied().unwrap_or(0);
    let sequences = options.sequences.iter().max().copied().unwrap_or(1);
    // Blocks of the cache belong to one sequence.
    let needed = options.depth.saturating_add(longest).saturating_add(CACHE_BLOCK);
    choice.context = Some(choice.context.unwrap_or(0).max(needed.saturating_mul(sequences)));
    let model = load(&options.model, &device, &choice)?;
    let load_seconds = begin.elapsed().as_secs_f64();
    let engine_options = EngineOptions { sequences: sequences as usize, ..choice.options() };
    let mut engine = Engine::new(&model, &engine_options)?;
    let bandwidth = session
        .runtime
        .profile(device.as_ref())
        .and_then(|profile| profile.measured.as_ref())
        .map(|measured| measured.memory_gbs * 1e9);
    let threads = session.runtime.cpu().as_cpu().map_or(1, |cpu| cpu.pool().threads());
    let mut results = Vec::new();
    let tests = options.prompt.iter().map(|&count| ("pp", 1, count));
    let generations = options.tokens.iter().flat_map(|&count| {
        options.sequences.iter().map(move |&sequences| ("tg", sequences, count))
    });
    for (kind, sequences, count) in tests.chain(generations).filter(|&(_, _, count)| count > 0) {
        let test = Test {
            depth: options.depth as usize,
            at_once: kind == "pp",
            sequences: sequences as usize,
            count: count as usize,
        };
        let mut samples = Vec::new();
        let mut first = f64::INFINITY;
        // The first run makes plans and programs, and is not counted.
        for repetition in 0..=options.repetitions {
            let (seconds, waited) = measure(&mut engine, test)?;
            if repetition > 0 {
                samples.push(f64::from(count) * f64::from(sequences) / seconds);
                first = first.min(waited);
            }
        }
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>()
            / (samples.len() as f64 - 1.0).max(1.0);
        // A step of all sequences reads the weights once.
        let read = (kind == "tg").then(|| mean / f64::from(sequences) * model.bytes() as f64);
        let profile = match options.profile {
            true => Some(profile(&mut engine, test)?),
            false => None,
        };
        results.push(Measured {
            test: match sequences {
                1 => format!("{kind}{count}"),
                _ => format!("{kind}{count}x{sequences}"),
            },
            sequences: sequences as usize,
            threads,
            device: device.id().to_string(),
            tokens_per_second: mean,
            standard_deviation: variance.sqrt(),
            samples,
            first_token_seconds: first,
            weight_bytes_per_second: read,
            bandwidth_share: read.zip(bandwidth).map(|(read, bandwidth)| read / bandwidth),
            profile,
        });
    }
    let document = Document {
        model: options.model.display().to_string(),
        architecture: model.architecture().name,
        bytes: model.bytes(),
        load_seconds,
        results,
        peak_memory_bytes: device.allocator().memory_use().peak,
    };
    if json {
        output::print_json("polaris.bench.llm/1", &document)?;
        return Ok(exit::OK);
    }
    let mut table =
        Table::new(&["test", "device", ">threads", ">tokens/s", ">±", ">first token", ">GB/s"]);
    for result in &document.results {
        table.row(vec![
            result.test.clone(),
            result.device.clone(),
            result.threads.to_string(),
            format!("{:.2}", result.tokens_per_second),
            format!("{:.2}", result.standard_deviation),
            format!("{:.1} ms", 1e3 * result.first_token_seconds),
            result
                .weight_bytes_per_second
                .map_or("-".to_owned(), |rate| format!("{:.1}", rate / 1e9)),
        ]);
    }
    table.print()?;
    for result in &document.results {
        let Some(profile) = &result.profile else { continue };
        say!("\nWhere the time of {} goes:", result.test);
        let mut table = Table::new(&["step", "operation", ">runs", ">ms", ">share", ">GB/s"]);
        for step in profile {
            table.row(vec![
                step.step.clone(),
                step.operation.to_owned(),
                step.runs.to_string(),
                format!("{:.3}", 1e3 * step.seconds),
                format!("{:.1}%", 100.0 * step.share),
                format!("{:.1}", step.bytes_per_second / 1e9),
            ]);
        }
        table.print()?;
    }
    say!(
        "{} of {:.2} GB, loaded in {:.2} s",
        document.architecture,
        document.bytes as f64 / 1e9,
        document.load_seconds
    );
    Ok(exit::OK)
}

/// What is measured: so many tokens of each sequence behind a text of `depth`, at once or one by one.
#[derive(Clone, Copy)]
struct Test {
    depth: usize,
    at_once: bool,
    sequences: usize,
    count: usize,
}

/// The steps of a test.
fn profile(engine: &mut Engine, test: Test) -> anyhow::Result<Vec<Timed>> {
    // The text before it is not part of it.
    rewind(engine, test)?;
    engine.begin_profile();
    let measured = measure(engine, test);
    let steps = engine.end_profile();
    measured?;
    let total: f64 = steps.iter().map(|step| step.seconds).sum();
    let timed = |step: StepTime| Timed {
        step: step.label,
        operation: step.operation,
        runs: step.runs,
        seconds: step.seconds,
        share: step.seconds / total.max(f64::MIN_POSITIVE),
        bytes_per_second: step.bytes as f64 / step.seconds.max(f64::MIN_POSITIVE),
    };
    Ok(steps.into_iter().map(timed).collect())
}

/// The seconds of a test, and until the first logits are there.
fn measure(engine: &mut Engine, test: Test) -> anyhow::Result<(f64, f64)> {
    let Test { depth, at_once, sequences, count } = test;
    rewind(engine, test)?;
    let tokens = tokens(engine, depth..depth + count);
    let begin = Instant::now();
    if at_once {
        engine.feed(0, &tokens, Wanted::Last, &interrupt::requested)?;
        let seconds = begin.elapsed().as_secs_f64();
        return Ok((seconds, seconds));
    }
    let mut first = 0.0;
    for (place, token) in tokens.into_iter().enumerate() {
        let each: Vec<_> = (0..sequences).map(|sequence| (sequence, token)).collect();
        engine.step(&each, &interrupt::requested)?;
        if place == 0 {
            first = begin.elapsed().as_secs_f64();
        }
    }
    Ok((begin.elapsed().as_secs_f64(), first))
}

/// Forgets all but the first `depth` tokens of each sequence, and computes those that are not there.
fn rewind(engine: &mut Engine, test: Test) -> anyhow::Result<()> {
    for sequence in 0..test.sequences {
        engine.truncate(sequence, test.depth);
        let missing = tokens(engine, engine.tokens(sequence).len()..test.depth);
        engine.feed(sequence, &missing, Wanted::None, &interrupt::requested)?;
    }
    Ok(())
}

/// Tokens that are drawn from the vocabulary, the same each time.
fn tokens(engine: &Engine, places: Range<usize>) -> Vec<u32> {
    let vocabulary = engine.model().vocabulary() as u32;
    places.map(|place| (place as u32).wrapping_mul(2_654_435_761) % vocabulary).collect()
}
