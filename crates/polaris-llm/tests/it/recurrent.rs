//! Models with recurrent layers: logits against the definition, and what states keep and forget.

use std::cell::Cell;

use polaris_llm::{
    CacheType, Engine, EngineOptions, Error, LoadOptions, Model, Precision, SourceTensor, Wanted,
};
use polaris_runtime::DeviceRef;

use crate::common::devices;
use crate::definition::Definition;
use crate::hybrid::{
    ARCHITECTURES, CHANNELS, CONTEXT, GROUPS, STATE, STATES, VALUE, WORDS, hybrid, hybrid_with,
};
use crate::reference::difference;
use crate::tiny::source;

fn engine(architecture: &str, device: &DeviceRef, batch: usize, sequences: usize) -> Engine {
    let model = Model::load(&hybrid(architecture), device, &LoadOptions::default(), |_| Ok(()));
    Engine::new(&model.unwrap(), &exact(batch, sequences)).unwrap()
}

fn exact(batch: usize, sequences: usize) -> EngineOptions {
    EngineOptions {
        context: sequences * CONTEXT,
        batch,
        sequences,
        cache: CacheType::F32,
        precision: Precision::Full,
    }
}

fn tokens(count: usize, seed: u32) -> Vec<u32> {
    (0..count as u32).map(|i| (i * 37 + seed * 101 + i * i * 13) % WORDS as u32).collect()
}

fn wide(logits: &[f32]) -> Vec<f64> {
    logits.iter().map(|&x| f64::from(x)).collect()
}

fn all(engine: &mut Engine, tokens: &[u32]) -> Vec<f32> {
    engine.feed(0, tokens, Wanted::All, &|| false).unwrap().to_vec()
}

#[test]
fn recurrent_layers_are_their_definition() {
    let tokens = tokens(40, 1);
    let kimi = ["kimi-linear", "kimi-k3", "bailingmoe3"];
    for architecture in ["qwen35", "lfm2", "mamba2"].into_iter().chain(kimi) {
        let definition = Definition::new(architecture, &hybrid(architecture));
        let expected = match kimi.contains(&architecture) {
            true => definition.kimi_logits(&tokens).concat(),
            false => definition.logits(&tokens).concat(),
        };
        for device in devices() {
            let mut engine = engine(architecture, &device, 64, 1);
            let (prompt, rest) = tokens.split_at(27);
            let mut found = all(&mut engine, prompt);
            for &token in rest {
                found.extend(engine.feed(0, &[token], Wanted::Last, &|| false).unwrap());
            }
            let error = difference(&found, &expected);
            assert!(error < 5e-5, "{architecture} on {}: {error:e}", device.id());
        }
    }
}

/// Older files of Qwen3-Next have queries, keys, values and gates in one matrix, group by group.
#[test]
fn one_matrix_is_taken_apart() {
    let apart = hybrid("qwen3next");
    let mut joined = hybrid("qwen3next");
    let mut take = |name: &str| joined.tensors.remove(&format!("blk.0.{name}.weight")).unwrap();
    let (mixed, gate) = (take("attn_qkv"), take("attn_gate"));
    let bytes = [mixed.parts.concat(), gate.parts.concat()].concat();
    let rows: Vec<&[u8]> = bytes.chunks_exact(mixed.dims[1] * 4).collect();
    let share = STATES / GROUPS * VALUE;
    let mut parts = Vec::new();
    for group in 0..GROUPS {
        // Where each of the four begins, and how many of its rows a group has.
        let (keys, values) = (GROUPS * STATE, 2 * GROUPS * STATE);
        for (begin, size) in [(0, STATE), (keys, STATE), (values, share), (CHANNELS, share)] {
            parts.push(rows[begin + group * size..][..size].concat());
        }
    }
    let dims = vec![rows.len(), mixed.dims[1]];
    let all = SourceTensor { dims, parts: vec![parts.concat().into()], ..mixed };
    joined.tensors.insert("blk.0.ssm_in.weight".to_owned(), all);
    for device in devices() {
        let [found, expected] = [&joined, &apart].map(|source| {
            let model = Model::load(source, &device, &LoadOptions::default(), |_| Ok(())).unwrap();
            let mut engine = Engine::new(&model, &exact(7, 1)).unwrap();
            self::all(&mut engine, &tokens(20, 7))
        });
        assert!(difference(&found, &wide(&expected)) < 1e-6);
    }
}

#[test]
fn a_prompt_in_pieces_is_a_prompt_as_a_whole() {
    let tokens = tokens(45, 2);
    for architecture in ARCHITECTURES {
        for device in devices() {
            let whole = wide(&all(&mut engine(architecture, &device, 64, 1), &tokens));
            // Other devices run the same plans.
            let batches: &[usize] = if device.as_cpu().is_some() { &[1, 2, 7] } else { &[7] };
            for &batch in batches {
                let found = all(&mut engine(architecture, &device, batch, 1), &tokens);
                let error = difference(&found, &whole);
                assert!(error < 5e-5, "{architecture} by {batch} on {}: {error:e}", device.id());
            }
        }
    }
}

#[test]
fn sequences_have_states_of_their_own() {
    for architecture in ARCHITECTURES {
        for device in devices() {
            let mut together = engine(architecture, &device, 7, 3);
            let mut expected = Vec::new();
            for (sequence, length) in [5, 33, 1].into_iter().enumerate() {
                let mut tokens = tokens(length, sequence as u32);
                tokens.extend([7 + sequence as u32, 3]);
                let mut alone = engine(architecture, &device, 64, 1);
                expected.extend(wide(alone.feed(0, &tokens, Wanted::Last, &|| false).unwrap()));
                together.feed(sequence, &tokens[..length], Wanted::None, &|| false).unwrap();
            }
            // The order of sequences in a step is free.
            together.step(&[(2, 9), (0, 7), (1, 8)], &|| false).unwrap();
            let found = together.step(&[(0, 3), (1, 3), (2, 3)], &|| false).unwrap();
            let error = difference(found, &expected);
            assert!(error < 5e-5, "{architecture} on {}: {error:e}", device.id());
        }
    }
}

#[test]
fn states_are_kept_whole_or_not_at_all() {
    for device in devices() {
        let mut engine = engine("qwen35", &device, 7, 1);
        let first = tokens(20, 3);
        all(&mut engine, &first);
        // What continues the sequence keeps it.
        let mut longer = first.clone();
        longer.extend(tokens(9, 4));
        assert_eq!(engine.reuse(0, &longer), 20);
        let found = engine.feed(0, &longer[20..], Wanted::Last, &|| false).unwrap().to_vec();
        assert_eq!(engine.computed(), 29);
        // What has a part in common, or needs the logits of the last token again, begins anew.
        let mut other = first[..12].to_vec();
        other.extend(tokens(9, 5));
        let mut fresh = self::engine("qwen35", &device, 7, 1);
        for prompt in [&other[..], &longer, &longer[..20]] {
            assert_eq!(engine.reuse(0, prompt), 0);
            assert!(engine.tokens(0).is_empty());
            let again = engine.feed(0, prompt, Wanted::Last, &|| false).unwrap().to_vec();
            fresh.truncate(0, 0);
            let expected = wide(fresh.feed(0, prompt, Wanted::Last, &|| false).unwrap());
            assert!(difference(&again, &expected) < 1e-6);
            if prompt.len() == longer.len() {
                assert!(difference(&found, &expected) < 5e-5);
            }
        }
        // Truncation to the end changes nothing, to any other place forgets.
        engine.truncate(0, 20);
        assert_eq!(engine.tokens(0).len(), 20);
        engine.truncate(0, 19);
        assert!(engine.tokens(0).is_empty());
    }
}

#[test]
fn a_run_that_was_cancelled_leaves_no_half_state() {
    for device in devices() {
        let mut engine = engine("mamba2", &device, 64, 1);
        let tokens = tokens(12, 6);
        let expected = wide(&all(&mut engine, &tokens));
        engine.truncate(0, 0);
        all(&mut engine, &tokens[..5]);
        let asked = Cell::new(0);
        let later = || {
            asked.set(asked.get() + 1);
            asked.get() > 10
        };
        let cancelled = engine.feed(0, &tokens[5..], Wanted::All, &later);
        assert!(matches!(cancelled, Err(Error::Cancelled)));
        assert!(engine.tokens(0).is_empty());
        assert!(difference(&all(&mut engine, &tokens), &expected) < 1e-6);
        // What is refused before anything is computed changes nothing.
        let unknown = engine.feed(0, &[WORDS as u32], Wanted::Last, &|| false);
        assert!(matches!(unknown, Err(Error::Argument { .. })));
        assert_eq!(engine.tokens(0).len(), 12);
    }
}

#[test]
fn memory_of_states_does_not_grow_with_tokens() {
    let device = devices()[0].clone();
    let mut engine = engine("qwen35", &device, 7, 1);
    let mut round = |count: usize| {
        engine.truncate(0, 0);
        all(&mut engine, &tokens(count, 6));
        for token in 0..20 {
            engine.feed(0, &[token], Wanted::Last, &|| false).unwrap();
        }
        device.allocator().memory_use().used
    };
    for count in 1..30 {
        round(count);
    }
    let before = round(7);
    assert_eq!((1..30).map(&mut round).max().unwrap(), before);
}

#[test]
fn sizes_that_contradict_tensors_are_errors() {
    let device = devices()[0].clone();
    let keys = ["ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank"];
    let others = ["ssm.group_count", "shortconv.l_cache", "block_count", "kda.head_dim"];
    let kimi = ["attn_res.block_size", "attention.kv_lora_rank", "rope.dimension_count"];
    for key in keys.into_iter().chain(others).chain(kimi) {
        for value in [0, 1, 3, 33, 1 << 20, u32::MAX] {
            for architecture in ARCHITECTURES {
                let source = source(hybrid_with(architecture, &[(key, value)]));
                let model = Model::load(&source, &device, &LoadOptions::default(), |_| Ok(()));
                let options = EngineOptions { context: 32, ..EngineOptions::default() };
                let engine = model.and_then(|model| Engine::new(&model, &options));
                let fed = engine.and_then(|mut engine| {
                    engine.feed(0, &[1, 2, 3], Wanted::Last, &|| false).map(|_| ())
                });
                // Other architectures do not read all of these.
                let is_read = architecture == "mamba2" && key.starts_with("ssm")
                    || architecture == "kimi-k3" && key == "kda.head_dim";
                assert!(fed.is_err() || !is_read, "{architecture} {key} {value}");
            }
        }
    }
}
