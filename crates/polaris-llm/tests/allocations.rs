//! What language models allocate: files that mean harm cost no memory, and generated tokens leave nothing behind. A
//! binary of its own, since it counts what the process allocates.
//!
//! `POLARIS_FUZZ_FILES` says how many damaged files are read (600 if it does not).

#[path = "it/common.rs"]
mod common;
#[path = "../../polaris-core/tests/counting/mod.rs"]
mod counting;
#[path = "it/tiny.rs"]
mod tiny;

use std::ops::ControlFlow;

use bytes::Bytes;
use counting::measured;
use polaris_core::random::SplitMix64;
use polaris_gguf::{Gguf, TensorType};
use polaris_llm::{
    Chat, Engine, EngineOptions, GenerateOptions, LoadOptions, Model, Prompt, ProposalLength,
    Result, SampleOptions, Source, Speculation, Wanted,
};
use polaris_runtime::DeviceRef;
use tiny::{TEMPLATE, Tiny};

/// What a file of this size may make the process allocate before its model is accepted.
fn allowed(file: usize) -> usize {
    file + (64 << 20)
}

fn below(random: &mut SplitMix64, end: usize) -> usize {
    (random.bits() % end.max(1) as u64) as usize
}

const ODD: [u64; 14] = [
    0,
    1,
    2,
    7,
    31,
    255,
    4096,
    1 << 20,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// Bits flipped, bytes and whole numbers replaced, parts cut out or doubled; mostly before the weights, which may be any
/// bits.
fn damage(file: &mut Vec<u8>, header: usize, random: &mut SplitMix64) {
    for _ in 0..1 + below(random, 3) {
        let limit = if below(random, 8) == 0 { file.len() } else { header.min(file.len()) };
        let at = below(random, limit);
        let end = (at + below(random, 40)).min(file.len());
        match below(random, 8) {
            _ if file.is_empty() => {}
            0 | 1 => file[at] ^= 1 << below(random, 8),
            2 => file[at] = random.bits() as u8,
            3..=5 => {
                let number = ODD[below(random, ODD.len())].to_le_bytes();
                let end = (at + 8).min(file.len());
                file[at..end].copy_from_slice(&number[..end - at]);
            }
            6 => {
                // As many bytes as before, so that offsets still fit.
                let from = below(random, header.min(file.len()));
                let part = file[from..(from + end - at).min(file.len())].to_vec();
                file[at..at + part.len().min(end - at)]
                    .copy_from_slice(&part[..part.len().min(end - at)]);
            }
            _ if below(random, 8) == 0 => file.truncate(at),
            _ => drop(file.drain(at..end)),
        }
    }
}

/// A file whose metadata say something else, and whose tensors are as they were.
fn other_metadata(base: &Tiny, random: &mut SplitMix64) -> Vec<u8> {
    const KEYS: [&str; 14] = [
        "block_count",
        "embedding_length",
        "context_length",
        "feed_forward_length",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.value_length",
        "attention.sliding_window",
        "rope.dimension_count",
        "expert_count",
        "expert_used_count",
        "rope.scaling.original_context_length",
        "leading_dense_block_count",
    ];
    let mut keys: Vec<String> =
        (0..1 + below(random, 2)).map(|_| KEYS[below(random, KEYS.len())].to_owned()).collect();
    keys.dedup();
    let keys: Vec<String> =
        keys.into_iter().map(|key| format!("{}.{key}", base.architecture)).collect();
    let changed: Vec<(&str, u32)> =
        keys.iter().map(|key| (key.as_str(), ODD[below(random, ODD.len())] as u32)).collect();
    base.bytes_with(&changed, base.architecture, TEMPLATE)
}

/// Whether a file is accepted, and the model then computes.
fn load(bytes: Bytes, device: &DeviceRef) -> Result<Model> {
    let source = Source::from_gguf(&Gguf::from_bytes(bytes)?)?;
    Model::load(&source, device, &LoadOptions::default(), |_| Ok(()))
}

fn compute(model: &Model) -> Result<()> {
    let options = EngineOptions { context: 16, batch: 4, ..EngineOptions::default() };
    let mut engine = Engine::new(model, &options)?;
    engine.feed(0, &[1, 2, 3, 4, 5], Wanted::Last, &|| false)?;
    Ok(())
}

/// A seed for each file, so that one that fails can be made again.
fn damaged_files_cost_no_memory(device: &DeviceRef) {
    let count = std::env::var("POLARIS_FUZZ_FILES").ok().and_then(|count| count.parse().ok());
    let count: u64 = count.unwrap_or(600);
    let bases = [
        Tiny::LLAMA,
        Tiny { ty: TensorType::Q4_0, experts: 2, ..Tiny::LLAMA },
        Tiny { architecture: "qwen3", ty: TensorType::Q8_0, experts: 0, ..Tiny::LLAMA },
        Tiny { architecture: "gemma2", ty: TensorType::F16, experts: 0, ..Tiny::LLAMA },
    ];
    let files = bases.map(|base| base.bytes());
    let (mut accepted, mut computed, mut most) = (0, 0, 0);
    for seed in 0..count {
        let mut random = SplitMix64::new(seed);
        let which = below(&mut random, bases.len());
        let file = match below(&mut random, 4) {
            0 => other_metadata(&bases[which], &mut random),
            _ => {
                let mut file = files[which].clone();
                // Metadata and infos come first and take some ten thousand bytes.
                damage(&mut file, 12_000, &mut random);
                file
            }
        };
        let size = file.len();
        let (model, allocated) = measured(|| load(file.into(), device));
        assert!(allocated.peak <= allowed(size), "seed {seed}: {allocated:?} for a file of {size}");
        most = most.max(allocated.peak);
        let Ok(model) = model else { continue };
        accepted += 1;
        // The context is 16: what it needs does not depend on what the file claims.
        let (result, allocated) = measured(|| compute(&model));
        assert!(
            allocated.peak <= allowed(size),
            "seed {seed}: {allocated:?} to run a file of {size}"
        );
        computed += u64::from(result.is_ok());
    }
    println!(
        "of {count} damaged files {accepted} are accepted and {computed} compute; {most} bytes at most"
    );
    assert!(
        accepted > count / 20 && computed > count / 40,
        "{accepted} accepted, {computed} compute"
    );
}

/// Generates so many tokens, over several contexts.
fn generate(
    engine: &mut Engine,
    tokens: usize,
    speculation: Speculation,
    on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
) {
    let options = GenerateOptions {
        sampling: SampleOptions { seed: 1, ..SampleOptions::default() },
        max_tokens: Some(100),
        ignore_end: true,
        speculation,
        ..GenerateOptions::default()
    };
    for _ in 0..tokens / 100 {
        let prompt = Prompt { sequence: 0, tokens: &[1, 2, 3] };
        let generated = engine.generate(prompt, &options, on_text, &|| false).unwrap();
        assert_eq!(generated.tokens.len(), 100);
    }
}

/// As many bytes are allocated after 2,000 tokens as after 200.
fn tokens_leave_nothing_behind(device: &DeviceRef, speculation: Speculation) {
    let options = EngineOptions { context: 128, ..EngineOptions::default() };
    let mut engine = Engine::new(&Tiny::LLAMA.model(device), &options).unwrap();
    let mut go_on = |_: &str| ControlFlow::Continue(());
    generate(&mut engine, 200, speculation, &mut go_on);
    let after_200 = counting::live();
    generate(&mut engine, 1_800, speculation, &mut go_on);
    assert_eq!(counting::live(), after_200, "bytes after 2000 tokens and after 200");
}

/// A chat keeps what was said, and nothing for each token that was computed.
fn chats_leave_nothing_behind(device: &DeviceRef) {
    let options = EngineOptions { context: 256, ..EngineOptions::default() };
    let mut chat = Chat::new(Engine::new(&Tiny::LLAMA.model(device), &options).unwrap()).unwrap();
    let greedy = GenerateOptions {
        sampling: SampleOptions { temperature: 0.0, ..SampleOptions::default() },
        max_tokens: Some(10),
        ..GenerateOptions::default()
    };
    let mut round = || {
        for text in ["hello", "and?", "why"] {
            chat.ask(text, &greedy, &mut |_| ControlFlow::Continue(()), &|| false).unwrap();
        }
        chat.reset();
        counting::live()
    };
    round();
    let second = round();
    let last = (0..10).map(|_| round()).last();
    assert_eq!(last, Some(second), "bytes after the twelfth chat and after the second");
}

/// One after the other: what all of them allocate would be added up.
#[test]
fn allocations_are_bounded() {
    let device = common::devices()[0].clone();
    damaged_files_cost_no_memory(&device);
    tokens_leave_nothing_behind(&device, Speculation::Off);
    tokens_leave_nothing_behind(&device, Speculation::Ngram(ProposalLength::Fixed(7)));
    chats_leave_nothing_behind(&device);
}
