//! Files that contradict themselves: an error that names what is wrong, and never a panic.

use polaris_llm::{Engine, EngineOptions, Error, LoadOptions, Model, Source, Wanted};

use crate::common::devices;
use crate::tiny::{TEMPLATE, Tiny, source};

fn run(source: &Source) -> Result<(), Error> {
    let device = devices()[0].clone();
    let model = Model::load(source, &device, &LoadOptions::default(), |_| Ok(()))?;
    let options = EngineOptions { context: 16, batch: 4, ..EngineOptions::default() };
    let mut engine = Engine::new(&model, &options)?;
    engine.feed(0, &[1, 2, 3, 4, 5], Wanted::Last, &|| false).map(drop)
}

#[test]
fn contradictions_are_named() {
    let changed = |key: &str, value: u32| {
        let bytes = Tiny::LLAMA.bytes_with(&[(key, value)], "llama", TEMPLATE);
        run(&source(bytes)).unwrap_err().to_string()
    };
    for (key, value, expected) in [
        ("llama.block_count", 0, "llama.block_count"),
        ("llama.block_count", 4, "blk.3."),
        ("llama.block_count", 1 << 20, "layers"),
        ("llama.block_count", 1 << 30, "too large"),
        ("llama.embedding_length", 128, "token_embd.weight"),
        ("llama.attention.head_count", 0, "heads"),
        ("llama.attention.head_count", 3, "heads"),
        ("llama.attention.head_count_kv", 3, "heads"),
        ("llama.attention.head_count_kv", 4, "attn_k.weight"),
        ("llama.attention.key_length", 32, "attn_q.weight"),
        ("llama.attention.key_length", 0, "without elements"),
        ("llama.attention.value_length", u32::MAX, "too large"),
        ("llama.rope.dimension_count", 1000, "rotated"),
    ] {
        let error = changed(key, value);
        assert!(error.contains(expected), "{key} = {value}: {error}");
    }
    for (name, dims) in [
        ("token_embd.weight", vec![]),
        ("token_embd.weight", vec![300 * 256]),
        ("output.weight", vec![200, 256]),
        ("position_embd.weight", vec![256]),
    ] {
        let mut source = Tiny::LLAMA.source();
        let mut tensor = source.tensors["output.weight"].clone();
        let elements: usize = dims.iter().product();
        tensor.parts = vec![tensor.parts[0].slice(..4 * elements)];
        tensor.dims = dims;
        source.tensors.insert(name.to_owned(), tensor);
        let error = run(&source).unwrap_err().to_string();
        assert!(error.contains(name), "{name}: {error}");
    }
    let bytes = Tiny::LLAMA.bytes_with(&[], "unheard-of", TEMPLATE);
    let error = run(&source(bytes)).unwrap_err();
    assert!(matches!(error, Error::UnknownArchitecture { .. }), "{error}");
}

#[test]
fn tensors_that_are_missing_or_of_another_shape_are_named() {
    let mut source = Tiny::LLAMA.source();
    let names: Vec<String> = source.tensors.keys().cloned().collect();
    for name in names {
        let mut taken = source.tensors.remove(&name).unwrap();
        // The output may be the embedding; whatever happens is no panic.
        match run(&source) {
            Ok(()) => assert_eq!(name, "output.weight"),
            Err(error) => assert!(error.to_string().contains(&name), "{name}: {error}"),
        }
        let dims = taken.dims.clone();
        taken.dims.reverse();
        taken.dims.push(1);
        source.tensors.insert(name.clone(), taken.clone());
        let _ = run(&source);
        source.tensors.insert(name, polaris_llm::SourceTensor { dims, ..taken });
    }
    run(&source).unwrap();
}

/// A cache is as large as the metadata say, and it is made before the tensors are looked at: what no tensor could fill
/// is refused when the model is loaded.
#[test]
fn caches_that_no_tensor_could_fill_are_refused() {
    for (key, value) in [
        ("llama.attention.key_length", 1 << 20),
        ("llama.attention.value_length", 1 << 20),
        ("llama.attention.head_count_kv", 1 << 12),
    ] {
        let heads = [(key, value), ("llama.attention.head_count", 1 << 12)];
        let changed = if key.ends_with("_kv") { &heads[..] } else { &heads[..1] };
        let source = source(Tiny::LLAMA.bytes_with(changed, "llama", TEMPLATE));
        let device = devices()[0].clone();
        let error = Model::load(&source, &device, &LoadOptions::default(), |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("keys and values"), "{key}: {error}");
    }
}
