//! Logits against the definition, and what the cache keeps and forgets.

use polaris_gguf::TensorType;
use polaris_llm::{
    CacheType, Chat, Engine, EngineOptions, Error, GenerateOptions, Model, PerplexityOptions,
    Precision, Prompt, Wanted,
};
use polaris_runtime::DeviceRef;

use crate::common::devices;
use crate::reference::{Reference, difference};
use crate::tiny::{CONTEXT, LAYERS, Tiny, WORDS};

fn engine(tiny: Tiny, device: &DeviceRef, options: EngineOptions) -> Engine {
    Engine::new(&tiny.model(device), &options).unwrap()
}

fn exact() -> EngineOptions {
    EngineOptions {
        context: CONTEXT,
        batch: 7,
        cache: CacheType::F32,
        precision: Precision::Full,
        ..EngineOptions::default()
    }
}

fn tokens(count: usize, seed: u32) -> Vec<u32> {
    (0..count as u32).map(|i| (i * 37 + seed * 101 + i * i * 13) % WORDS as u32).collect()
}

fn check(tiny: Tiny, tolerance: f64) {
    let tokens = tokens(23, 1);
    let expected = Reference::new(tiny, &tiny.source()).logits(&tokens);
    for device in devices() {
        let mut engine = engine(tiny, &device, exact());
        let (prompt, rest) = tokens.split_at(18);
        let mut found = engine.feed(0, prompt, Wanted::All, &|| false).unwrap().to_vec();
        for &token in rest {
            found.extend(engine.feed(0, &[token], Wanted::Last, &|| false).unwrap());
        }
        let error = difference(&found, &expected.concat());
        assert!(error < tolerance, "{tiny:?} on {}: {error:e}", device.id());
    }
}

#[test]
fn llama_is_its_definition() {
    check(Tiny::LLAMA, 2e-5);
}

#[test]
fn norms_of_heads_and_other_pairs() {
    check(Tiny { architecture: "qwen3", ..Tiny::LLAMA }, 2e-5);
}

#[test]
fn windows_caps_and_norms_after_a_part() {
    check(Tiny { architecture: "gemma2", ..Tiny::LLAMA }, 2e-5);
}

#[test]
fn mixtures_of_experts() {
    check(Tiny { experts: 4, ..Tiny::LLAMA }, 2e-5);
}

#[test]
fn diffusion_models_see_all_tokens_of_a_call_and_do_not_continue_texts() {
    let tiny = Tiny { architecture: "llada", ..Tiny::LLAMA };
    let tokens = tokens(23, 1);
    let expected = Reference::new(tiny, &tiny.source()).logits(&tokens).concat();
    for device in devices() {
        // More tokens than a batch: they are computed together all the same.
        let mut engine = engine(tiny, &device, exact());
        for _ in 0..2 {
            let found = engine.feed(0, &tokens, Wanted::All, &|| false).unwrap();
            let error = difference(found, &expected);
            assert!(error < 2e-5, "{}: {error:e}", device.id());
        }
        assert_eq!(engine.tokens(0), tokens);
        let prompt = Prompt { sequence: 0, tokens: &tokens };
        let options = GenerateOptions::default();
        let mut ignore = |_: &str| std::ops::ControlFlow::Continue(());
        let error = engine.generate(prompt, &options, &mut ignore, &|| false).unwrap_err();
        assert!(matches!(error, Error::NotAutoregressive { name: "llada" }), "{error}");
        assert!(matches!(engine.step(&[(0, 1)], &|| false), Err(Error::NotAutoregressive { .. })));
        assert!(matches!(Chat::new(engine), Err(Error::NotAutoregressive { .. })));
    }
}

#[test]
fn weights_stay_as_they_are_stored() {
    for ty in [TensorType::F16, TensorType::BF16, TensorType::Q8_0, TensorType::Q4_0] {
        check(Tiny { ty, ..Tiny::LLAMA }, 5e-5);
    }
    check(Tiny { ty: TensorType::Q8_0, experts: 3, ..Tiny::LLAMA }, 5e-5);
    let mixed = Tiny { ty: TensorType::Q4_0, values: Some(TensorType::Q8_0), ..Tiny::LLAMA };
    check(mixed, 5e-5);
    for architecture in ["qwen3", "gemma2"] {
        check(Tiny { architecture, ..mixed }, 5e-5);
    }
}

/// A launch costs some microseconds, which is as much as reading megabytes.
#[test]
fn a_token_takes_few_steps() {
    for device in devices().iter().filter(|device| device.as_opencl().is_some()) {
        let steps = |tiny: Tiny| engine(tiny, device, exact()).describe(1).unwrap();
        let llama = Tiny { ty: TensorType::Q4_0, ..Tiny::LLAMA };
        let mixed = Tiny { values: Some(TensorType::Q8_0), ..llama };
        // Queries, keys and values; rotation; cache; attention; its output; gate and up; down. Then the embedding and
        // the logits.
        for tiny in [llama, mixed] {
            let steps = steps(tiny);
            assert_eq!(steps.len(), 7 * LAYERS + 2, "{steps:#?}");
        }
        // The norms of queries and of keys.
        let steps = steps(Tiny { architecture: "qwen3", ..llama });
        assert_eq!(steps.len(), 9 * LAYERS + 2, "{steps:#?}");
    }
}

/// What rounding activations to bytes costs a tiny model, in which little averages out.
#[test]
fn activations_in_bytes_are_near() {
    let tokens = tokens(40, 2);
    for ty in [TensorType::Q8_0, TensorType::Q4_0] {
        let tiny = Tiny { ty, ..Tiny::LLAMA };
        let expected = Reference::new(tiny, &tiny.source()).logits(&tokens).concat();
        for device in devices() {
            let rounded = EngineOptions { precision: Precision::Int8, ..exact() };
            let mut engine = engine(tiny, &device, rounded);
            let found = engine.feed(0, &tokens, Wanted::All, &|| false).unwrap();
            let error = difference(found, &expected);
            assert!(error < 0.1, "{tiny:?} on {}: {error:e}", device.id());
        }
    }
}

#[test]
fn a_cache_in_half_precision_is_near() {
    let tokens = tokens(40, 2);
    for device in devices() {
        let half = EngineOptions { cache: CacheType::F16, ..exact() };
        let mut engines =
            [engine(Tiny::LLAMA, &device, exact()), engine(Tiny::LLAMA, &device, half)];
        let [exact, half] = engines.each_mut().map(|engine| {
            engine
                .feed(0, &tokens, Wanted::Last, &|| false)
                .unwrap()
                .iter()
                .map(|&x| f64::from(x))
                .collect::<Vec<_>>()
        });
        let half: Vec<f32> = half.iter().map(|&x| x as f32).collect();
        assert!(difference(&half, &exact) < 2e-3);
    }
}

#[test]
fn what_is_common_is_computed_once() {
    for device in devices() {
        let mut engine = engine(Tiny::LLAMA, &device, exact());
        let first = tokens(20, 3);
        engine.feed(0, &first, Wanted::None, &|| false).unwrap();
        let mut second = first[..12].to_vec();
        second.extend(tokens(9, 4));
        let kept = engine.reuse(0, &second);
        assert_eq!(kept, 12);
        let found = engine.feed(0, &second[kept..], Wanted::Last, &|| false).unwrap().to_vec();
        assert_eq!(engine.computed(), 20 + 9);
        engine.truncate(0, 0);
        let whole = engine.feed(0, &second, Wanted::Last, &|| false).unwrap();
        let whole: Vec<f64> = whole.iter().map(|&x| f64::from(x)).collect();
        assert!(difference(&found, &whole) < 1e-5);
        // The last token is computed again even if all are there: its logits are wanted.
        assert_eq!(engine.reuse(0, &second), second.len() - 1);
    }
}

#[test]
fn sequences_do_not_see_each_other() {
    for device in devices() {
        let together = EngineOptions { sequences: 3, context: 3 * CONTEXT, ..exact() };
        let mut engine = engine(Tiny::LLAMA, &device, together);
        let lengths = [5, 33, 12];
        let mut expected = Vec::new();
        for (sequence, &length) in lengths.iter().enumerate() {
            let mut tokens = tokens(length, sequence as u32);
            tokens.push(7 + sequence as u32);
            let mut alone = self::engine(Tiny::LLAMA, &device, exact());
            expected.extend(alone.feed(0, &tokens, Wanted::Last, &|| false).unwrap().to_vec());
            engine.feed(sequence, &tokens[..length], Wanted::None, &|| false).unwrap();
        }
        let found = engine.step(&[(0, 7), (1, 8), (2, 9)], &|| false).unwrap();
        let expected: Vec<f64> = expected.iter().map(|&x| f64::from(x)).collect();
        assert!(difference(found, &expected) < 1e-5);
        // A sequence that is forgotten gives its memory to the others.
        engine.truncate(1, 0);
        engine.feed(0, &tokens(30, 9), Wanted::Last, &|| false).unwrap();
        assert!(matches!(engine.step(&[(0, 1), (0, 2)], &|| false), Err(Error::Argument { .. })));
    }
}

#[test]
fn what_does_not_fit_is_an_error_and_changes_nothing() {
    let device = devices()[0].clone();
    let mut engine = engine(Tiny::LLAMA, &device, exact());
    engine.feed(0, &tokens(60, 1), Wanted::None, &|| false).unwrap();
    let full = engine.feed(0, &tokens(5, 1), Wanted::Last, &|| false);
    assert!(matches!(full, Err(Error::ContextFull { tokens: 65, context: 64 })));
    assert_eq!(engine.tokens(0).len(), 60);
    let unknown = engine.feed(0, &[WORDS as u32], Wanted::Last, &|| false);
    assert!(matches!(unknown, Err(Error::Argument { .. })));
    let cancelled = engine.feed(0, &[1], Wanted::Last, &|| true);
    assert!(matches!(cancelled, Err(Error::Cancelled)));
    assert_eq!(engine.tokens(0).len(), 60);
    engine.feed(0, &[1, 2, 3, 4], Wanted::Last, &|| false).unwrap();
    assert!(matches!(engine.feed(9, &[1], Wanted::Last, &|| false), Err(Error::Argument { .. })));
    engine.truncate(9, 0);
    assert!(engine.tokens(9).is_empty() && engine.reuse(9, &[1]) == 0);
    let huge = EngineOptions { context: 1 << 40, ..exact() };
    let error = Engine::new(&Tiny::LLAMA.model(&device), &huge).unwrap_err();
    assert!(matches!(error, Error::ContextTooLarge { fitting, .. } if fitting > 1000), "{error}");
}

#[test]
fn perplexity_is_that_of_the_logits() {
    let device = devices()[0].clone();
    let text = tokens(40, 5);
    let mut engine = engine(Tiny::LLAMA, &device, exact());
    let mut base = self::engine(Tiny { ty: TensorType::Q4_0, ..Tiny::LLAMA }, &device, exact());
    let options = PerplexityOptions { window: 16, windows: None };
    let scored = engine
        .perplexity(&text, Some(3), &options, Some(&mut base), &mut |_| {}, &|| false)
        .unwrap();
    let reference = Reference::new(Tiny::LLAMA, &Tiny::LLAMA.source());
    let (mut loss, mut count) = (0.0, 0);
    for chunk in text.chunks_exact(16) {
        let mut chunk = chunk.to_vec();
        chunk[0] = 3;
        let logits = reference.logits(&chunk);
        for position in 8..15 {
            let normal = logits[position].iter().map(|x| x.exp()).sum::<f64>().ln();
            loss += normal - logits[position][chunk[position + 1] as usize];
            count += 1;
        }
    }
    assert_eq!((scored.tokens, scored.windows), (count, 2));
    let expected = (loss / count as f64).exp();
    assert!((scored.perplexity / expected - 1.0).abs() < 1e-4, "{} {expected}", scored.perplexity);
    let divergence = scored.divergence.unwrap();
    assert!(divergence.mean > 0.0 && divergence.largest >= divergence.mean);
    let short = engine.perplexity(&text[..10], None, &options, None, &mut |_| {}, &|| false);
    assert!(matches!(short, Err(Error::Argument { .. })));
}

#[test]
fn memory_does_not_grow_with_tokens() {
    let device = devices()[0].clone();
    let mut engine = engine(Tiny::LLAMA, &device, exact());
    let mut round = |count: usize| {
        engine.truncate(0, 0);
        engine.feed(0, &tokens(count, 6), Wanted::Last, &|| false).unwrap();
        for token in 0..20 {
            engine.feed(0, &[token], Wanted::Last, &|| false).unwrap();
        }
        device.allocator().memory_use().used
    };
    for count in 1..40 {
        round(count);
    }
    let before = round(7);
    let after = (1..40).map(&mut round).max().unwrap();
    assert_eq!(before, after);
}

/// What files say in several ways.
#[test]
fn lists_of_switches_are_booleans_or_integers() {
    use polaris_gguf::{Gguf, Writer};
    let config = |set: &dyn Fn(&mut Writer)| {
        let mut writer = Writer::new();
        writer.set("general.architecture", "granite_swa").unwrap();
        for (key, value) in [
            ("block_count", 3),
            ("embedding_length", 64),
            ("context_length", 128),
            ("attention.head_count", 2),
            ("attention.sliding_window", 16),
        ] {
            writer.set(&format!("granite_swa.{key}"), value as u32).unwrap();
        }
        set(&mut writer);
        let gguf = Gguf::from_bytes(writer.into_bytes().unwrap().into()).unwrap();
        polaris_llm::Config::read(gguf.metadata())
            .map(|config| config.layers.iter().map(|layer| layer.window).collect::<Vec<_>>())
    };
    let key = "granite_swa.attention.sliding_window_pattern";
    let booleans = config(&|writer| {
        writer.set(key, &[true, false, true][..]).unwrap();
    });
    assert_eq!(booleans.unwrap(), [Some(16), None, Some(16)]);
    let integers = config(&|writer| {
        writer.set(key, &[0u32, 1, 0][..]).unwrap();
    });
    assert_eq!(integers.unwrap(), [None, Some(16), None]);
    let short = config(&|writer| {
        writer.set(key, &[true][..]).unwrap();
    });
    assert!(short.is_err());
}

/// Models of speech choose among the last tokens of their vocabulary.
#[test]
fn an_output_may_have_rows_for_the_last_tokens() {
    const LAST: usize = 40;
    let tiny = Tiny { architecture: "qwen3tts", ..Tiny::LLAMA };
    let (whole, mut part) = (tiny.source(), tiny.source());
    let output = part.tensors.get_mut("output.weight").unwrap();
    let bytes = output.parts.concat();
    let row = bytes.len() / WORDS;
    output.parts = vec![bytes[(WORDS - LAST) * row..].to_vec().into()];
    output.dims[0] = LAST;
    for device in devices() {
        let [found, expected] = [&part, &whole].map(|source| {
            let model = Model::load(source, &device, &Default::default(), |_| Ok(())).unwrap();
            assert_eq!(model.vocabulary(), WORDS);
            let mut engine = Engine::new(&model, &exact()).unwrap();
            engine.feed(0, &tokens(9, 3), Wanted::Last, &|| false).unwrap().to_vec()
        });
        let (none, last) = found.split_at(WORDS - LAST);
        assert!(none.iter().all(|&logit| logit == f32::NEG_INFINITY));
        let expected: Vec<f64> =
            expected[WORDS - LAST..].iter().map(|&logit| f64::from(logit)).collect();
        assert!(difference(last, &expected) < 1e-6);
    }
}

#[test]
fn steps_of_a_token_are_told_with_their_tensors() {
    for device in devices() {
        let mut engine = engine(Tiny::LLAMA, &device, exact());
        engine.feed(0, &tokens(5, 2), Wanted::None, &|| false).unwrap();
        let steps = engine.step_timed(0, 7, &|| false).unwrap();
        assert_eq!(engine.tokens(0).len(), 6);
        let mut found: Vec<&String> = steps.iter().flat_map(|step| &step.tensors).collect();
        found.sort();
        let layer = |layer| {
            let names =
                ["attn_k", "attn_output", "attn_q", "attn_v", "ffn_down", "ffn_gate", "ffn_up"];
            names.map(|name| format!("blk.{layer}.{name}.weight"))
        };
        // Each once; the table of embeddings is looked up, and norms are no matrices.
        let mut expected: Vec<String> = (0..LAYERS).flat_map(layer).collect();
        expected.push("output.weight".to_owned());
        assert_eq!(found, expected.iter().collect::<Vec<_>>(), "{}", device.id());
        assert!(steps.iter().all(|step| step.seconds >= 0.0));
        // Another profile goes on, and knows nothing of these steps.
        engine.begin_profile();
        engine.step_timed(0, 8, &|| false).unwrap();
        assert!(engine.end_profile().is_empty());
        let error = engine.step_timed(0, WORDS as u32, &|| false).unwrap_err();
        assert!(matches!(error, Error::Argument { .. }), "{error}");
    }
}
