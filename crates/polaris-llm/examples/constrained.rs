//! Answers of a small random model, constrained by random JSON schemas: a line of JSON for each, with the schema and the
//! answer, for a validator of someone else. `bench/llm/schemas.py` runs this and validates.
//!
//! `cargo run --release -p polaris-llm --example constrained -- ANSWERS SEED`

#[path = "../../polaris-sample/tests/it/random.rs"]
mod random;
#[path = "../../polaris-sample/tests/it/random_schemas.rs"]
mod random_schemas;
#[path = "../tests/it/tiny.rs"]
#[allow(dead_code, reason = "tests use all of it")]
mod tiny;

use std::ops::ControlFlow;

use polaris_llm::{Engine, EngineOptions, Finish, GenerateOptions, Grammar, Prompt, SampleOptions};
use polaris_runtime::{Runtime, RuntimeOptions};
use random::Random;
use tiny::Tiny;

/// The end of a text in the small model.
const END: u32 = 256;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let wanted: usize = arguments.next().map_or(Ok(1000), |count| count.parse())?;
    let seed: u64 = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    let runtime = Runtime::discover(&RuntimeOptions::default())?;
    let options = EngineOptions { context: 512, ..EngineOptions::default() };
    let mut engine = Engine::new(&Tiny::LLAMA.model(runtime.cpu()), &options)?;
    let mut random = Random::new(seed);
    let (mut answers, mut refused, mut endless) = (0, 0, 0);
    while answers < wanted {
        let schema = random_schemas::schema(&mut random);
        let text = schema.to_string();
        let grammar = match Grammar::from_json_schema(&text) {
            Ok(grammar) => grammar,
            Err(error) if random_schemas::may_be_refused(&text, &error.to_string()) => {
                refused += 1;
                continue;
            }
            Err(error) => return Err(format!("{text}: {error}").into()),
        };
        // A random model goes on for ever: what closes a text is made likely.
        let closing = [b'"', b'}', b']'].map(|byte| (u32::from(byte), 8.0));
        let generate = GenerateOptions {
            sampling: SampleOptions {
                seed: random.0.bits(),
                temperature: 1.0,
                logit_bias: [&closing[..], &[(END, 12.0)]].concat(),
                ..SampleOptions::default()
            },
            max_tokens: Some(300),
            grammar: Some(grammar),
            ..GenerateOptions::default()
        };
        let prompt = Prompt { sequence: 0, tokens: &[65, 66] };
        let generated =
            engine.generate(prompt, &generate, &mut |_| ControlFlow::Continue(()), &|| false)?;
        if generated.finish != Finish::End {
            endless += 1;
            continue;
        }
        answers += 1;
        println!("{}", serde_json::json!({ "schema": schema, "answer": generated.text }));
    }
    eprintln!("{answers} answers; {refused} schemas refused, {endless} answers without an end");
    Ok(())
}
