//! `polaris generate` with a language model from a file.

use std::ops::ControlFlow;

use polaris::llm::{GenerateOptions, Prompt, Special};
use serde::Serialize;

use super::{device, engine, grammar, speculation};
use crate::arguments::{Generate, Global};
use crate::output::{Stream, say};
use crate::{exit, interrupt, output};

#[derive(Serialize)]
struct Generated<'a> {
    prompt: &'a str,
    text: &'a str,
    tokens: usize,
    seconds: f64,
    finish: &'static str,
    prompt_tokens: usize,
    prompt_seconds: f64,
    proposed_tokens: usize,
    accepted_tokens: usize,
    device: String,
}

pub fn run(global: Global, options: &Generate) -> anyhow::Result<u8> {
    let json = global.json;
    let grammar = grammar(&options.constraint)?;
    let (_session, device) = device(global, options.engine.mode)?;
    let mut engine = engine(&options.model, &device, &options.engine)?;
    let speculation = speculation(&mut engine, &device, &options.engine, &options.speculation)?;
    let model = engine.model().clone();
    let tokenizer = model.require_tokenizer()?;
    let special = if options.special { Special::Parse } else { Special::Plain };
    let encoded = tokenizer.encode(&options.prompt, special)?;
    let mut tokens = [tokenizer.begin(), &encoded].concat();
    if tokens.is_empty() {
        tokens.extend(tokenizer.bos().or(tokenizer.eos()));
    }
    let most = options.tokens.unwrap_or(300);
    let begin = tokenizer.begin().len();
    if options.truncate && tokens.len() + most > engine.context() {
        // The end of a prompt matters most; its beginning goes. Half of the context stays at least.
        let kept = engine.context().saturating_sub(most).max(engine.context() / 2).max(begin + 1);
        let cut = tokens.len().saturating_sub(kept);
        if cut > 0 {
            tokens.drain(begin..begin + cut);
            say!("note: the first {cut} tokens of the prompt were left out");
        }
    }
    let generate = GenerateOptions {
        sampling: options.sampling.options(model.sampling()),
        max_tokens: Some(most),
        stop: options.stop.clone(),
        grammar,
        speculation,
        ignore_end: options.ignore_end,
        ..GenerateOptions::default()
    };
    let mut stream = Stream::new(!json);
    stream.write(&options.prompt);
    let prompt = Prompt { sequence: 0, tokens: &tokens };
    let mut on_text = |text: &str| match stream.write(text) {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    let generated = engine.generate(prompt, &generate, &mut on_text, &interrupt::requested)?;
    if json {
        let result = Generated {
            prompt: &options.prompt,
            text: &generated.text,
            tokens: generated.tokens.len(),
            seconds: generated.time.as_secs_f64(),
            finish: generated.finish.name(),
            prompt_tokens: generated.prompt_tokens,
            prompt_seconds: generated.prompt_time.as_secs_f64(),
            proposed_tokens: generated.proposed_tokens,
            accepted_tokens: generated.accepted_tokens,
            device: device.id().to_string(),
        };
        output::print_json("polaris.generate/1", &result)?;
    } else {
        output::print_line("")?;
        say!(
            "{} tokens of prompt, {:.1} tokens/s; {} generated, {:.1} tokens/s; ended by {}",
            generated.prompt_tokens,
            generated.prompt_rate(),
            generated.tokens.len(),
            generated.rate(),
            generated.finish.name()
        );
        if generated.proposed_tokens > 0 {
            say!(
                "{} of {} proposed tokens accepted",
                generated.accepted_tokens,
                generated.proposed_tokens
            );
        }
    }
    Ok(if interrupt::requested() { exit::INTERRUPTED } else { exit::OK })
}
