//! Speculative decoding: the text, its end and the cache are those of ordinary decoding, whatever is proposed.

use std::cell::Cell;
use std::ops::ControlFlow;

use polaris_llm::{
    Engine, EngineOptions, Error, Finish, GenerateOptions, Generated, Grammar, LoadOptions,
    Mirostat, Model, Prompt, ProposalLength, SampleOptions, Source, Speculation, Wanted,
};
use polaris_runtime::DeviceRef;

use crate::common::devices;
use crate::hybrid::hybrid;
use crate::tiny::{TEMPLATE, Tiny, source};

/// Has the tokens of [`Tiny::LLAMA`] and other weights.
const OTHER: Tiny = Tiny { architecture: "qwen3", ..Tiny::LLAMA };

const NGRAM: Speculation = Speculation::Ngram(ProposalLength::Fixed(7));
const DRAFT: Speculation = Speculation::Draft(ProposalLength::Fixed(4));

/// A model of one layer: what is tested here does not depend on more.
fn model(tiny: Tiny, device: &DeviceRef) -> Model {
    let name = format!("{}.block_count", tiny.architecture);
    let bytes = tiny.bytes_with(&[(&name, 1)], tiny.architecture, TEMPLATE);
    Model::load(&source(bytes), device, &LoadOptions::default(), |_| Ok(())).unwrap()
}

fn engine_on(device: &DeviceRef, context: usize, draft: Option<Tiny>) -> Engine {
    let options = EngineOptions { context, ..EngineOptions::default() };
    let mut engine = Engine::new(&model(Tiny::LLAMA, device), &options).unwrap();
    if let Some(draft) = draft {
        engine.set_draft(Engine::new(&model(draft, device), &options).unwrap()).unwrap();
    }
    engine
}

fn engine(draft: Option<Tiny>) -> Engine {
    engine_on(&devices()[0], 256, draft)
}

fn go_on(_: &str) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn greedy(tokens: usize) -> GenerateOptions {
    GenerateOptions {
        sampling: SampleOptions { temperature: 0.0, ..SampleOptions::default() },
        max_tokens: Some(tokens),
        ignore_end: true,
        ..GenerateOptions::default()
    }
}

fn with(options: &GenerateOptions, speculation: Speculation) -> GenerateOptions {
    GenerateOptions { speculation, ..options.clone() }
}

/// Tokens in which every pair of three letters occurs, so that there is always something to propose.
fn repetitive() -> Vec<u32> {
    b"aabacbbccaabacbbcca".iter().map(|&byte| u32::from(byte)).collect()
}

/// Generates in an empty cache. Returns the result and what is in the cache afterwards.
fn generate(
    engine: &mut Engine,
    prompt: &[u32],
    options: &GenerateOptions,
) -> (Generated, Vec<u32>) {
    engine.truncate(0, 0);
    let prompt = Prompt { sequence: 0, tokens: prompt };
    let generated = engine.generate(prompt, options, &mut go_on, &|| false).unwrap();
    (generated, engine.tokens(0).to_vec())
}

/// Generates with and without speculation and expects the same. Returns the result with it.
fn compare(
    engine: &mut Engine,
    prompt: &[u32],
    options: &GenerateOptions,
    speculation: Speculation,
) -> Generated {
    let (plain, cached) = generate(engine, prompt, &with(options, Speculation::Off));
    assert_eq!((plain.proposed_tokens, plain.accepted_tokens), (0, 0));
    let (found, found_cached) = generate(engine, prompt, &with(options, speculation));
    assert_eq!(found.tokens, plain.tokens, "{speculation:?}");
    assert_eq!((&found.text, found.finish), (&plain.text, plain.finish), "{speculation:?}");
    assert_eq!(found_cached, cached, "{speculation:?}");
    assert!(found.accepted_tokens <= found.proposed_tokens);
    found
}

#[test]
fn greedy_text_is_the_same_for_every_length() {
    let lengths = [1, 2, 3, 4, 9, 15].map(ProposalLength::Fixed);
    let mut engine = engine(Some(OTHER));
    for length in lengths.into_iter().chain([ProposalLength::default()]) {
        for prompt in [repetitive(), (0..10).collect()] {
            for speculation in [Speculation::Ngram(length), Speculation::Draft(length)] {
                compare(&mut engine, &prompt, &greedy(50), speculation);
            }
        }
    }
    // Short prompts, down to one without a pair.
    compare(&mut engine, &[65], &greedy(9), NGRAM);
    compare(&mut engine, &[65], &greedy(9), DRAFT);
}

#[test]
fn greedy_text_is_the_same_on_every_device() {
    for device in devices() {
        let mut engine = engine_on(&device, 256, Some(OTHER));
        let length = ProposalLength::Fixed(3);
        let found = compare(&mut engine, &repetitive(), &greedy(30), Speculation::Ngram(length));
        assert!(found.proposed_tokens > 0);
        compare(&mut engine, &repetitive(), &greedy(12), Speculation::Draft(length));
    }
}

#[test]
fn a_draft_that_is_the_model_is_always_right() {
    for device in devices() {
        let mut engine = engine_on(&device, 256, Some(Tiny::LLAMA));
        let before = engine.computed();
        let found = compare(&mut engine, &repetitive(), &greedy(41), DRAFT);
        // The prompt gives the first token, and each of eight batches five.
        assert_eq!((found.proposed_tokens, found.accepted_tokens), (32, 32));
        // Without speculation the last token is not computed, and with it no token twice.
        let tokens = repetitive().len() + 40;
        assert_eq!(engine.computed() - before, 2 * tokens);
    }
}

#[test]
fn samplers_with_a_state_draw_the_same_text() {
    let plain = SampleOptions { temperature: 1.5, top_k: 8, ..SampleOptions::default() };
    let samplings = [
        plain.clone(),
        SampleOptions { penalty_repeat: 1.3, penalty_presence: 0.5, ..plain.clone() },
        SampleOptions { dry_multiplier: 0.8, dry_base: 1.75, ..plain.clone() },
        SampleOptions { xtc_probability: 0.5, xtc_threshold: 0.05, ..plain.clone() },
        SampleOptions { mirostat: Mirostat::V1, mirostat_tau: 2.0, ..plain.clone() },
        SampleOptions { mirostat: Mirostat::V2, mirostat_tau: 2.0, ..plain },
    ];
    // Letters alone, so that pairs repeat.
    let favoured: Vec<(u32, f32)> = (97..100).map(|token| (token, 8.0)).collect();
    let mut engine = engine(Some(OTHER));
    let mut accepted = 0;
    for (seed, sampling) in (0..).zip(samplings.iter().cycle().take(12)) {
        let sampling = SampleOptions { seed, logit_bias: favoured.clone(), ..sampling.clone() };
        let options = GenerateOptions { sampling, ..greedy(30) };
        for speculation in [NGRAM, DRAFT] {
            accepted += compare(&mut engine, &repetitive(), &options, speculation).accepted_tokens;
        }
    }
    assert!(accepted > 50, "{accepted}");
}

/// The probability of each sequence of three tokens out of three, by the model's logits.
fn probabilities(engine: &mut Engine, prompt: &[u32], letters: [u32; 3]) -> Vec<f64> {
    let mut all = vec![(prompt.to_vec(), 1.0)];
    for _ in 0..3 {
        let mut longer = Vec::new();
        for (tokens, probability) in all {
            engine.truncate(0, 0);
            let logits = engine.feed(0, &tokens, Wanted::Last, &|| false).unwrap();
            let weights = letters.map(|letter| f64::from(logits[letter as usize]).exp());
            for (letter, weight) in letters.into_iter().zip(weights) {
                let part = weight / weights.iter().sum::<f64>();
                longer.push(([&tokens[..], &[letter]].concat(), probability * part));
            }
        }
        all = longer;
    }
    all.into_iter().map(|(_, probability)| probability).collect()
}

/// Pearson's statistic over the 27 texts of three tokens has 26 degrees of freedom: it is above 54.05 with probability
/// 0.001. Seeds are fixed, so the test passes always or never.
#[test]
fn the_distribution_is_that_of_the_model() {
    const CRITICAL: f64 = 54.05;
    const SEEDS: u64 = 1500;
    // Of these three the model holds none improbable, so that every text is expected often enough.
    let letters = [49, 50, 51];
    let mut engine = engine(Some(OTHER));
    let prompt: Vec<u32> = repetitive().iter().map(|&token| token - 97 + letters[0]).collect();
    let expected = probabilities(&mut engine, &prompt, letters);
    let smallest = expected.iter().copied().fold(1.0, f64::min);
    assert!(smallest * SEEDS as f64 > 5.0, "{expected:?}");
    let forbidden = |token: &u32| !letters.contains(token);
    let bias = (0..300).filter(forbidden).map(|token| (token, f32::NEG_INFINITY)).collect();
    let mut sampling = SampleOptions {
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        logit_bias: bias,
        ..SampleOptions::default()
    };
    let speculations = [Speculation::Off, NGRAM, DRAFT];
    for (number, speculation) in (0..).zip(speculations) {
        let mut counts = [0u32; 27];
        let (mut proposed, mut accepted) = (0, 0);
        // Other seeds for each, or the texts would be the same ones.
        for seed in number * SEEDS..(number + 1) * SEEDS {
            sampling.seed = seed;
            let options = GenerateOptions { sampling: sampling.clone(), speculation, ..greedy(3) };
            let prompt = Prompt { sequence: 0, tokens: &prompt };
            let generated = engine.generate(prompt, &options, &mut go_on, &|| false).unwrap();
            let digit = |token: &u32| (*token - letters[0]) as usize;
            let cell = generated.tokens.iter().fold(0, |cell, token| 3 * cell + digit(token));
            counts[cell] += 1;
            proposed += generated.proposed_tokens;
            accepted += generated.accepted_tokens;
        }
        let statistic: f64 = counts
            .iter()
            .zip(&expected)
            .map(|(&count, part)| {
                let mean = part * SEEDS as f64;
                (f64::from(count) - mean).powi(2) / mean
            })
            .sum();
        assert!(statistic < CRITICAL, "{speculation:?}: {statistic}");
        if speculation == NGRAM {
            // Some proposals are right and some wrong.
            let share = accepted as f64 / proposed as f64;
            assert!(proposed as u64 >= SEEDS && (0.1..0.9).contains(&share), "{share}");
        }
    }
}

#[test]
fn texts_end_where_they_would() {
    let mut engine = engine(Some(Tiny::LLAMA));
    let prompt = repetitive();
    for speculation in [NGRAM, DRAFT, Speculation::Ngram(ProposalLength::default())] {
        for most in 0..10 {
            let found = compare(&mut engine, &prompt, &greedy(most), speculation);
            assert_eq!((found.finish, found.tokens.len()), (Finish::Length, most));
        }
        let whole = compare(&mut engine, &prompt, &greedy(24), speculation);
        for place in (0..24).step_by(3) {
            // An end token inside a proposal.
            let stop_tokens = vec![whole.tokens[place]];
            let options = GenerateOptions { stop_tokens, ..greedy(24) };
            assert_eq!(compare(&mut engine, &prompt, &options, speculation).finish, Finish::End);
        }
        let characters: Vec<char> = whole.text.chars().collect();
        for pair in characters.windows(2).step_by(3) {
            let options = GenerateOptions { stop: vec![pair.iter().collect()], ..greedy(24) };
            let found = compare(&mut engine, &prompt, &options, speculation);
            assert_eq!(found.finish, Finish::StopString);
        }
        let ending = GenerateOptions { ignore_end: false, max_tokens: None, ..greedy(0) };
        compare(&mut engine, &prompt, &ending, speculation);
    }
}

#[test]
fn a_context_that_fills_up_inside_a_proposal_ends_the_text() {
    for context in 21..31 {
        let mut engine = engine_on(&devices()[0], context, Some(Tiny::LLAMA));
        let options = GenerateOptions { max_tokens: None, ..greedy(0) };
        for speculation in [NGRAM, DRAFT] {
            let found = compare(&mut engine, &repetitive(), &options, speculation);
            assert_eq!(found.finish, Finish::ContextFull);
            assert_eq!(engine.tokens(0).len(), context);
        }
    }
}

/// The other sequence leaves blocks for the text, and none for proposals beyond it.
#[test]
fn proposals_do_not_take_the_cache_that_others_need() {
    let options = EngineOptions { context: 128, sequences: 2, ..EngineOptions::default() };
    let mut engine = Engine::new(&model(Tiny::LLAMA, &devices()[0]), &options).unwrap();
    let other: Vec<u32> = (0..80).collect();
    engine.feed(1, &other, Wanted::None, &|| false).unwrap();
    let options = GenerateOptions { max_tokens: None, ..greedy(0) };
    let found = compare(&mut engine, &repetitive(), &options, NGRAM);
    assert_eq!(found.finish, Finish::ContextFull);
    assert_eq!((engine.tokens(0).len(), engine.tokens(1)), (32, &other[..]));
}

#[test]
fn a_draft_with_a_shorter_context_stops_proposing() {
    let device = devices()[0].clone();
    let options = |context| EngineOptions { context, ..EngineOptions::default() };
    let model = model(Tiny::LLAMA, &device);
    let mut engine = Engine::new(&model, &options(128)).unwrap();
    engine.set_draft(Engine::new(&model, &options(40)).unwrap()).unwrap();
    let found = compare(&mut engine, &repetitive(), &greedy(60), DRAFT);
    assert!(found.proposed_tokens > 10 && found.proposed_tokens <= 22, "{found:?}");
    // A prompt that it has no room for.
    let long: Vec<u32> = (0..50).collect();
    assert_eq!(compare(&mut engine, &long, &greedy(20), DRAFT).proposed_tokens, 0);
}

/// Wherever a generation is cancelled, the cache holds a part of its text, and the next one gives the same text.
#[test]
fn generations_are_cancelled_anywhere() {
    let mut engine = engine(Some(Tiny::LLAMA));
    let prompt = repetitive();
    let (whole, _) = generate(&mut engine, &prompt, &greedy(12));
    let whole_text = [&prompt[..], &whole.tokens].concat();
    for speculation in [NGRAM, DRAFT] {
        let options = with(&greedy(12), speculation);
        for limit in (0..250).step_by(11) {
            engine.truncate(0, 0);
            let calls = Cell::new(0);
            let is_cancelled = || {
                calls.set(calls.get() + 1);
                calls.get() > limit
            };
            let request = Prompt { sequence: 0, tokens: &prompt };
            let found = engine.generate(request, &options, &mut go_on, &is_cancelled).unwrap();
            if calls.get() > limit {
                assert_eq!(found.finish, Finish::Stopped);
            }
            assert!(whole.tokens.starts_with(&found.tokens));
            assert!(whole_text.starts_with(engine.tokens(0)));
            let again = engine.generate(request, &options, &mut go_on, &|| false).unwrap();
            assert_eq!(again.tokens, whole.tokens);
        }
        for most in 1..8 {
            engine.truncate(0, 0);
            let mut texts = 0;
            let mut stop = |_: &str| {
                texts += 1;
                if texts == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let request = Prompt { sequence: 0, tokens: &prompt };
            let found = engine.generate(request, &options, &mut stop, &|| false).unwrap();
            assert_eq!(found.finish, Finish::Stopped);
            assert_eq!(engine.tokens(0).len(), prompt.len() + found.tokens.len() - 1);
            assert!(whole.tokens.starts_with(&found.tokens));
        }
    }
}

#[test]
fn grammars_are_kept() {
    let mut engine = engine(Some(OTHER));
    let grammar = Grammar::from_gbnf(r#"root ::= ("star" | "moon"){6,12} "." "#).unwrap();
    let mut accepted = 0;
    for seed in 0..6 {
        let options = GenerateOptions {
            sampling: SampleOptions { seed, temperature: 2.0, ..SampleOptions::default() },
            grammar: Some(grammar.clone()),
            ..greedy(60)
        };
        for speculation in [NGRAM, DRAFT] {
            let found = compare(&mut engine, &repetitive(), &options, speculation);
            accepted += found.accepted_tokens;
            let words = found.text.replace("star", "").replace("moon", "");
            assert!(found.finish != Finish::End || words == ".", "{}", found.text);
        }
    }
    assert!(accepted > 20, "{accepted}");
}

#[test]
fn the_next_prompt_reuses_what_was_accepted() {
    let mut engine = engine(Some(OTHER));
    for speculation in [NGRAM, DRAFT] {
        let (first, cached) = generate(&mut engine, &repetitive(), &with(&greedy(30), speculation));
        let text = [&repetitive()[..], &first.tokens].concat();
        assert_eq!(cached, text[..text.len() - 1]);
        let longer = [&text[..], &[1, 2, 3]].concat();
        let request = Prompt { sequence: 0, tokens: &longer };
        let options = with(&greedy(10), speculation);
        let second = engine.generate(request, &options, &mut go_on, &|| false).unwrap();
        assert_eq!(second.reused_tokens, text.len() - 1);
        let (afresh, _) = generate(&mut engine, &longer, &greedy(10));
        assert_eq!(second.tokens, afresh.tokens);
    }
}

#[test]
fn recurrent_models_decode_without_ngrams_and_refuse_drafts() {
    let device = devices()[0].clone();
    let recurrent = || {
        let loaded = Model::load(&hybrid("mamba"), &device, &LoadOptions::default(), |_| Ok(()));
        let options = EngineOptions { context: 64, ..EngineOptions::default() };
        Engine::new(&loaded.unwrap(), &options).unwrap()
    };
    let refused = |mut target: Engine, draft: Engine, who: &str| {
        let error = target.set_draft(draft).unwrap_err();
        assert!(matches!(&error, Error::Argument { what } if what.starts_with(who)), "{error}");
    };
    refused(recurrent(), engine(None), "the model is recurrent");
    refused(engine(None), recurrent(), "the draft model is recurrent");
    let mut recurrent = recurrent();
    let prompt: Vec<u32> = [1, 2, 3, 4].repeat(4);
    let found = compare(&mut recurrent, &prompt, &greedy(20), NGRAM);
    assert_eq!(found.proposed_tokens, 0);
}

#[test]
fn speculation_that_makes_no_sense_is_an_error() {
    let mut engine = engine(None);
    let mut refused = |speculation: Speculation| {
        let prompt = Prompt { sequence: 0, tokens: &[1, 2, 3] };
        let options = with(&greedy(4), speculation);
        let error = engine.generate(prompt, &options, &mut go_on, &|| false).unwrap_err();
        assert!(matches!(error, Error::Argument { .. }), "{error}");
        error.to_string()
    };
    assert!(refused(DRAFT).contains("no draft model is set"));
    assert!(refused(Speculation::Ngram(ProposalLength::Fixed(0))).contains("1 to 15"));
    assert!(refused(Speculation::Ngram(ProposalLength::UpTo(16))).contains("1 to 15"));
    let tiny = Model::load(
        &Source::tiny().unwrap(),
        engine.model().device(),
        &LoadOptions::default(),
        |_| Ok(()),
    );
    let draft = Engine::new(&tiny.unwrap(), &EngineOptions::default()).unwrap();
    let error = engine.set_draft(draft).unwrap_err().to_string();
    assert!(error.contains("another vocabulary: its token 0 is"), "{error}");
}
