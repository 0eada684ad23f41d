//! Tokens a second with and without speculative decoding: the same prompts and seeds, in turns.
//!
//! `cargo run --release -p polaris-llm --example speculation -- MODEL [TOKENS [ROUNDS [THREADS [DRAFT]]]]`
//!
//! MODEL is a file or folder, or `tiny`, the model that is built in. Each run has a new engine, so that making plans and
//! measuring costs are part of it. Ratios are medians of the rounds.

use std::ops::ControlFlow;
use std::path::Path;

use polaris_llm::{
    Engine, EngineOptions, GenerateOptions, Generated, LoadOptions, Model, Prompt, ProposalLength,
    SampleOptions, Source, Special, Speculation,
};
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

const LINE: &str = "The pole star stands still, and all the others turn around it.\n";
const PROSE: &str =
    "And the king said to the men of the city: tell me what you have seen on the way.";

fn open(name: &str, device: &DeviceRef) -> polaris_llm::Result<Model> {
    let source = if name == "tiny" { Source::tiny()? } else { Source::open(Path::new(name))? };
    Model::load(&source, device, &LoadOptions::default(), |_| Ok(()))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, default: usize| {
        arguments.get(place).map_or(Ok(default), |text| text.parse())
    };
    let name = arguments.first().map_or("tiny", String::as_str);
    let (tokens, rounds, threads) = (number(1, 128)?, number(2, 5)?, number(3, 1)?);
    let options = RuntimeOptions { threads: Some(threads), opencl: false, ..Default::default() };
    let runtime = Runtime::discover(&options)?;
    let model = open(name, runtime.cpu())?;
    let draft = match arguments.get(4) {
        Some(name) => Some(open(name, runtime.cpu())?),
        None => None,
    };
    let speculation = match draft {
        Some(_) => Speculation::Draft(ProposalLength::UpTo(7)),
        None => Speculation::Ngram(ProposalLength::default()),
    };
    let run = |prompt: &[u32], options: &GenerateOptions| -> polaris_llm::Result<Generated> {
        let context = EngineOptions { context: 1024, ..EngineOptions::default() };
        let mut engine = Engine::new(&model, &context)?;
        if let Some(draft) = &draft {
            engine.set_draft(Engine::new(draft, &context)?)?;
        }
        let prompt = Prompt { sequence: 0, tokens: prompt };
        engine.generate(prompt, options, &mut |_| ControlFlow::Continue(()), &|| false)
    };
    let greedy = SampleOptions { temperature: 0.0, ..SampleOptions::default() };
    let warm = SampleOptions { seed: 3, ..SampleOptions::default() };
    // Nothing that is drawn from all tokens repeats.
    let hot = SampleOptions { temperature: 3.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..warm.clone() };
    let repeated = LINE.repeat(6);
    let texts = [
        ("repetitive, greedy", repeated.as_str(), greedy),
        ("prose, temperature 0.8", PROSE, warm),
        ("random, temperature 3", PROSE, hot),
    ];
    println!("text\twithout\twith\tratio\tproposed\taccepted\tsame text");
    for (label, text, sampling) in texts {
        let tokenizer = model.require_tokenizer()?;
        let prompt = [tokenizer.begin(), &tokenizer.encode(text, Special::Plain)?].concat();
        let plain = GenerateOptions {
            sampling,
            max_tokens: Some(tokens),
            ignore_end: true,
            ..GenerateOptions::default()
        };
        let speculative = GenerateOptions { speculation, ..plain.clone() };
        let (mut rates, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
        let (mut is_same, mut counts) = (true, (0, 0));
        for round in 0..rounds.max(1) {
            // Whoever is first finds another machine than whoever is second.
            let (without, with) = match round % 2 {
                0 => (run(&prompt, &plain)?, run(&prompt, &speculative)?),
                _ => {
                    let with = run(&prompt, &speculative)?;
                    (run(&prompt, &plain)?, with)
                }
            };
            rates[0].push(without.rate());
            rates[1].push(with.rate());
            ratios.push(with.rate() / without.rate());
            is_same &= with.tokens == without.tokens;
            counts = (with.proposed_tokens, with.accepted_tokens);
        }
        let [without, with] = rates.map(median);
        let ratio = median(ratios);
        let (proposed, accepted) = counts;
        println!("{label}\t{without:.1}\t{with:.1}\t{ratio:.2}\t{proposed}\t{accepted}\t{is_same}");
    }
    Ok(())
}
