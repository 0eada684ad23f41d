//! Generates many tokens in one process and prints what it takes of the memory: text after text over the same context,
//! and a chat that begins anew when its context is full.
//!
//! `cargo run --release -p polaris-llm --example endurance -- TOKENS`

#[path = "../tests/it/tiny.rs"]
#[allow(dead_code, reason = "tests use all of it")]
mod tiny;

use std::ops::ControlFlow;

use polaris_llm::{Chat, Engine, EngineOptions, Error, GenerateOptions, Prompt, SampleOptions};
use polaris_runtime::{Runtime, RuntimeOptions};
use tiny::Tiny;

/// Kilobytes of this process that are in memory; 0 where the system does not say.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let total: usize = std::env::args().nth(1).map_or(Ok(100_000), |count| count.parse())?;
    let step = (total / 10).max(1);
    let runtime = Runtime::discover(&RuntimeOptions::default())?;
    let options = EngineOptions { context: 512, ..EngineOptions::default() };
    let model = Tiny::LLAMA.model(runtime.cpu());
    let mut engine = Engine::new(&model, &options)?;
    let mut chat = Chat::new(Engine::new(&model, &options)?)?;
    let mut go_on = |_: &str| ControlFlow::Continue(());
    let (mut tokens, mut reused, mut round) = (0, 0, 0u64);
    let mut next = step;
    println!("tokens\tresident KiB\treused tokens of prompts");
    while tokens < total {
        round += 1;
        let mut generate = GenerateOptions {
            sampling: SampleOptions { seed: round, ..SampleOptions::default() },
            ignore_end: true,
            ..GenerateOptions::default()
        };
        let prompt = Prompt { sequence: 0, tokens: &[1, 2, 3] };
        tokens += engine.generate(prompt, &generate, &mut go_on, &|| false)?.tokens.len();
        generate.max_tokens = Some(50);
        generate.ignore_end = false;
        match chat.ask("and what then?", &generate, &mut go_on, &|| false) {
            Ok(answer) => {
                tokens += answer.tokens.len();
                reused += answer.reused_tokens;
            }
            Err(Error::ContextFull { .. }) => chat.reset(),
            Err(error) => return Err(error.into()),
        }
        while tokens >= next {
            println!("{next}\t{}\t{reused}", resident());
            next += step;
        }
    }
    Ok(())
}
