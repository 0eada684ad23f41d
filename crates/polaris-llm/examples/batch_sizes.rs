//! How far the logits of batches of several tokens are from those of single tokens, on the CPU: by so much texts with
//! speculative decoding may differ from those without.
//!
//! `cargo run --release -p polaris-llm --example batch_sizes -- MODEL [TOKENS]`

use std::ops::ControlFlow;
use std::path::Path;

use polaris_llm::{
    Engine, EngineOptions, GenerateOptions, LoadOptions, Model, Precision, Prompt, ProposalLength,
    Result, SampleOptions, Source, Special, Speculation, Wanted,
};
use polaris_runtime::{Runtime, RuntimeOptions};

const LINE: &str = "The pole star stands still, and all the others turn around it.\n";

/// Logits after each of some tokens behind a prompt, in batches of this size.
fn logits(engine: &mut Engine, prompt: &[u32], tokens: &[u32], size: usize) -> Result<Vec<f32>> {
    engine.truncate(0, 0);
    engine.feed(0, prompt, Wanted::None, &|| false)?;
    let mut rows = Vec::new();
    for batch in tokens.chunks(size) {
        rows.extend_from_slice(engine.feed(0, batch, Wanted::All, &|| false)?);
    }
    Ok(rows)
}

fn greedy(
    engine: &mut Engine,
    prompt: &[u32],
    count: usize,
    speculation: Speculation,
) -> Result<Vec<u32>> {
    engine.truncate(0, 0);
    let options = GenerateOptions {
        sampling: SampleOptions { temperature: 0.0, ..SampleOptions::default() },
        max_tokens: Some(count),
        ignore_end: true,
        speculation,
        ..GenerateOptions::default()
    };
    let prompt = Prompt { sequence: 0, tokens: prompt };
    let mut go_on = |_: &str| ControlFlow::Continue(());
    Ok(engine.generate(prompt, &options, &mut go_on, &|| false)?.tokens)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map_or("tiny", String::as_str);
    let count = arguments.get(1).map_or(Ok(32), |text| text.parse())?;
    let runtime = Runtime::discover(&RuntimeOptions { opencl: false, ..Default::default() })?;
    let source = if name == "tiny" { Source::tiny()? } else { Source::open(Path::new(name))? };
    let model = Model::load(&source, runtime.cpu(), &LoadOptions::default(), |_| Ok(()))?;
    let tokenizer = model.require_tokenizer()?;
    let prompt = [tokenizer.begin(), &tokenizer.encode(LINE, Special::Plain)?].concat();
    println!("precision\tbatch\tdifference by the largest logit\ttexts part at");
    for precision in [Precision::Int8, Precision::Full] {
        let options = EngineOptions { context: 1024, precision, ..EngineOptions::default() };
        let mut engine = Engine::new(&model, &options)?;
        let tokens = greedy(&mut engine, &prompt, count, Speculation::Off)?;
        let single = logits(&mut engine, &prompt, &tokens, 1)?;
        let largest = single.iter().fold(0.0f32, |most, logit| most.max(logit.abs()));
        for size in [2, 4, 8] {
            let several = logits(&mut engine, &prompt, &tokens, size)?;
            let pairs = single.iter().zip(&several);
            let difference = pairs.fold(0.0f32, |most, (a, b)| most.max((a - b).abs())) / largest;
            let speculation = Speculation::Ngram(ProposalLength::Fixed(size - 1));
            let found = greedy(&mut engine, &prompt, count, speculation)?;
            let parts = found.iter().zip(&tokens).position(|(a, b)| a != b);
            let parts = parts.map_or("never".to_owned(), |place| place.to_string());
            println!("{precision:?}\t{size}\t{difference:.1e}\t{parts}");
        }
    }
    Ok(())
}
