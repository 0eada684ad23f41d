//! Keys and values in blocks: logits near to those of a cache in single precision, greedy runs, what is forgotten and
//! reused, and models that such a cache does not suit.

use std::ops::ControlFlow;

use polaris_llm::{
    CacheType, Engine, EngineOptions, Error, GenerateOptions, Model, Precision, Prompt,
    SampleOptions, Wanted,
};
use polaris_runtime::DeviceRef;

use crate::common::devices;
use crate::reference::{difference, distance};
use crate::tiny::{CONTEXT, KEY_HEADS, LAYERS, SIZE, TEMPLATE, Tiny, WORDS, source};

/// The most that logits may be off, as [`distance`]. Little averages out in tiny models of random weights: that of
/// Gemma 2 has 3e-4 in half precision, 8e-3 in Q8_0 and 0.12 in Q4_0; that of Llama 2e-2 in Q8_0 and 0.28 in Q4_0.
const NEAR: [(CacheType, f64); 2] = [(CacheType::Q8_0, 0.03), (CacheType::Q4_0, 0.4)];

fn engine(tiny: Tiny, device: &DeviceRef, cache: CacheType) -> Engine {
    let options = EngineOptions {
        context: CONTEXT,
        batch: 7,
        cache,
        precision: Precision::Full,
        ..EngineOptions::default()
    };
    Engine::new(&tiny.model(device), &options).unwrap()
}

fn tokens(count: usize, seed: u32) -> Vec<u32> {
    (0..count as u32).map(|i| (i * 37 + seed * 101 + i * i * 13) % WORDS as u32).collect()
}

fn wide(logits: &[f32]) -> Vec<f64> {
    logits.iter().map(|&logit| f64::from(logit)).collect()
}

/// The logits of a prompt, and of single tokens behind it.
fn logits(engine: &mut Engine, tokens: &[u32], prompt: usize) -> Vec<f32> {
    let mut all = engine.feed(0, &tokens[..prompt], Wanted::All, &|| false).unwrap().to_vec();
    for &token in &tokens[prompt..] {
        all.extend(engine.feed(0, &[token], Wanted::Last, &|| false).unwrap());
    }
    all
}

#[test]
fn logits_are_near_to_those_of_single_precision() {
    let tokens = tokens(45, 1);
    for tiny in [Tiny::LLAMA, Tiny { architecture: "gemma2", ..Tiny::LLAMA }] {
        let mut before: [Option<Vec<f64>>; 2] = [None, None];
        for device in devices() {
            let expected = wide(&logits(&mut engine(tiny, &device, CacheType::F32), &tokens, 33));
            for ((cache, limit), before) in NEAR.into_iter().zip(&mut before) {
                let found = logits(&mut engine(tiny, &device, cache), &tokens, 33);
                let error = distance(&found, &expected);
                assert!(error < limit, "{tiny:?} {cache} on {}: {error:e}", device.id());
                assert!(error > limit / 10.0, "{cache} should round: {error:e}");
                // Devices round alike, except halfway between two levels.
                let before = before.get_or_insert_with(|| wide(&found));
                let apart = distance(&found, before);
                assert!(apart < limit / 10.0, "{tiny:?} {cache} on {}: {apart:e}", device.id());
            }
        }
    }
}

/// Each token that is chosen is among the best with a cache in single precision, too, and the same every time.
#[test]
fn greedy_runs_choose_good_tokens() {
    const NEW: usize = 24;
    let prompt = tokens(9, 2);
    for device in devices() {
        for (cache, limit) in NEAR {
            let run = || {
                let mut engine = engine(Tiny::LLAMA, &device, cache);
                let options = GenerateOptions {
                    max_tokens: Some(NEW),
                    sampling: SampleOptions { temperature: 0.0, ..SampleOptions::default() },
                    ignore_end: true,
                    ..GenerateOptions::default()
                };
                let prompt = Prompt { sequence: 0, tokens: &prompt };
                let mut ignore = |_: &str| ControlFlow::Continue(());
                engine.generate(prompt, &options, &mut ignore, &|| false).unwrap();
                engine.tokens(0).to_vec()
            };
            let chosen = run();
            assert_eq!(chosen, run());
            assert!(chosen.len() >= prompt.len() + NEW - 1, "{}", chosen.len());
            let mut exact = engine(Tiny::LLAMA, &device, CacheType::F32);
            let all = wide(exact.feed(0, &chosen, Wanted::All, &|| false).unwrap());
            for at in prompt.len()..chosen.len() {
                let row = &all[(at - 1) * WORDS..][..WORDS];
                let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let largest = row.iter().fold(0.0f64, |most, x| most.max(x.abs()));
                // Both the best logit and that of the token may be off.
                let behind = most - row[chosen[at] as usize];
                assert!(behind <= 2.0 * limit * largest, "{cache} {at}: {behind}");
            }
        }
    }
}

#[test]
fn what_is_common_is_reused_and_the_rest_forgotten() {
    for device in devices() {
        for (cache, limit) in NEAR {
            let mut engine = engine(Tiny::LLAMA, &device, cache);
            // More than a page of positions, of which the second is given back.
            let first = tokens(40, 3);
            engine.feed(0, &first, Wanted::None, &|| false).unwrap();
            let mut second = first[..28].to_vec();
            second.extend(tokens(9, 4));
            assert_eq!(engine.reuse(0, &second), 28);
            let found = engine.feed(0, &second[28..], Wanted::Last, &|| false).unwrap().to_vec();
            assert_eq!(engine.computed(), 40 + 9);
            engine.truncate(0, 0);
            let whole = wide(engine.feed(0, &second, Wanted::Last, &|| false).unwrap());
            // Other batches round elsewhere in single precision, which may change a level here and there.
            assert!(difference(&found, &whole) < limit, "{cache} on {}", device.id());
            // The same batches write the same blocks over those of before.
            engine.truncate(0, 0);
            let again = engine.feed(0, &second, Wanted::Last, &|| false).unwrap();
            assert_eq!(wide(again), whole, "{cache} on {}", device.id());
        }
    }
}

#[test]
fn bytes_are_those_of_blocks() {
    let device = devices()[0].clone();
    let model = Tiny::LLAMA.model(&device);
    let rows = 2 * LAYERS * KEY_HEADS;
    for (cache, row) in [
        (CacheType::F32, 4 * SIZE),
        (CacheType::F16, 2 * SIZE),
        (CacheType::Q8_0, SIZE / 32 * 34),
        (CacheType::Q4_0, SIZE / 32 * 18),
    ] {
        assert_eq!(model.config().cache_bytes(cache), (rows * row) as u64);
        let options = |context: usize| EngineOptions { context, cache, ..EngineOptions::default() };
        let used = |context: usize| {
            let engine = Engine::new(&model, &options(context)).unwrap();
            let used = device.allocator().memory_use().used;
            drop(engine);
            used
        };
        // What else an engine has grows a little with the context, too.
        let (more, expected) = (used(64 * 1024) - used(32 * 1024), 32 * 1024 * rows * row);
        let ratio = more as f64 / expected as f64;
        assert!((1.0..1.02).contains(&ratio), "{cache}: {more} instead of {expected}");
    }
}

#[test]
fn heads_that_are_not_whole_blocks_are_named() {
    let device = devices()[0].clone();
    let sizes = [("llama.attention.key_length", 80), ("llama.attention.value_length", 64)];
    let source = source(Tiny::LLAMA.bytes_with(&sizes, "llama", TEMPLATE));
    let model = Model::load(&source, &device, &Default::default(), |_| Ok(())).unwrap();
    for (cache, _) in NEAR {
        let options = EngineOptions { cache, ..EngineOptions::default() };
        let error = Engine::new(&model, &options).unwrap_err();
        assert!(matches!(error, Error::Argument { .. }));
        let text = error.to_string();
        for part in [cache.name(), "80", "32", "f16"] {
            assert!(text.contains(part), "{text}");
        }
    }
    assert!(Engine::new(&model, &EngineOptions::default()).is_ok());
}
