//! Folders of Hugging Face: the logits of a GGUF file with the same weights, and those of transformers for models that
//! `bench/llm/huggingface.py` writes.

use std::path::PathBuf;

use polaris_gguf::TensorType;
use polaris_llm::angles::Scaling;
use polaris_llm::{
    Chat, Config, Engine, EngineOptions, Error, GenerateOptions, LoadOptions, Model, SampleOptions,
    Source, Special,
};
use serde_json::{Value, json};

use crate::common::devices;
use crate::peers::{Peer, compare_all, compare_logits, files, logits, relative_error};
use crate::tiny::folder::{config, open, write, write_tokenizer};
use crate::tiny::{Tiny, WORDS};

fn load(source: &Source) -> Model {
    Model::load(source, &devices()[0], &LoadOptions::default(), |_| Ok(())).unwrap()
}

#[test]
fn logits_are_those_of_the_same_weights_in_gguf() {
    let tokens: Vec<u32> = (0..40u32).map(|i| (i * 37 + i * i * 13) % WORDS as u32).collect();
    let qwen3 = Tiny { architecture: "qwen3", ..Tiny::LLAMA };
    let gemma2 = Tiny { architecture: "gemma2", ..Tiny::LLAMA };
    for (tiny, files) in [
        (Tiny::LLAMA, 1),
        (Tiny::LLAMA, 4),
        (Tiny { ty: TensorType::F16, ..Tiny::LLAMA }, 1),
        (Tiny { ty: TensorType::BF16, experts: 3, ..Tiny::LLAMA }, 2),
        (Tiny { experts: 4, ..Tiny::LLAMA }, 1),
        (qwen3, 1),
        (Tiny { ty: TensorType::BF16, ..qwen3 }, 1),
        (gemma2, 3),
    ] {
        let (_folder, source) = open(&tiny, files);
        let expected = logits(&load(&tiny.source()), &tokens).unwrap();
        let found = logits(&load(&source), &tokens).unwrap();
        let error = relative_error(&found, &expected);
        assert!(error < 1e-5, "{tiny:?}: {error:e}");
        assert!(found.iter().any(|logit| logit.abs() > 0.1));
    }
}

#[test]
fn weights_stay_in_the_file() {
    let (folder, source) = open(&Tiny::LLAMA, 1);
    let file = std::fs::metadata(folder.path().join("model.safetensors")).unwrap().len();
    assert!(source.bytes() as u64 <= file && source.bytes() as u64 > file * 9 / 10);
    let (q, expected) = (&source.tensors["blk.0.attn_q.weight"], Tiny::LLAMA.source());
    let expected = &expected.tensors["blk.0.attn_q.weight"];
    assert_eq!((q.ty, &q.dims, q.bytes()), (expected.ty, &expected.dims, expected.bytes()));
    assert!(!source.tensors.keys().any(|name| name.contains("proj")));
}

#[test]
fn tokenizer_template_and_ends_come_from_the_other_files() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &Tiny::LLAMA, 1);
    let bare = load(&Source::open(folder.path()).unwrap());
    assert!(bare.tokenizer().is_none() && bare.template().is_none());
    assert!(bare.require_tokenizer().is_err());
    write_tokenizer(folder.path());
    let model = Model::open(folder.path(), &devices()[0], &LoadOptions::default()).unwrap();
    let tokenizer = model.require_tokenizer().unwrap();
    let expected = Tiny::LLAMA.model(&devices()[0]);
    let expected = expected.require_tokenizer().unwrap();
    let text = "pole star \u{e9}<end>";
    for special in [Special::Parse, Special::Plain] {
        let found = tokenizer.encode(text, special).unwrap();
        assert_eq!(found, expected.encode(text, special).unwrap());
    }
    assert_eq!(tokenizer.eos(), Some(256));
    assert!(tokenizer.is_stop(256) && !tokenizer.is_stop(65));
    let options = EngineOptions { context: 64, ..EngineOptions::default() };
    let mut chat = Chat::new(Engine::new(&model, &options).unwrap()).unwrap();
    let greedy = GenerateOptions {
        sampling: SampleOptions { temperature: 0.0, ..SampleOptions::default() },
        max_tokens: Some(3),
        ..GenerateOptions::default()
    };
    let mut go_on = |_: &str| std::ops::ControlFlow::Continue(());
    chat.ask("hello", &greedy, &mut go_on, &|| false).unwrap();
    let prompt = chat.prompt().unwrap();
    assert!(prompt.starts_with("<user>hello<end><assistant>"), "{prompt}");
    // A file of its own comes first.
    let path = folder.path().join("chat_template.jinja");
    std::fs::write(path, "{{ messages[0].content }}!").unwrap();
    let source = Source::open(folder.path()).unwrap();
    let template: &str = source.metadata.require("tokenizer.chat_template").unwrap();
    assert_eq!(template, "{{ messages[0].content }}!");
}

#[test]
fn generation_config_suggests_how_tokens_are_chosen() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &Tiny::LLAMA, 1);
    write_tokenizer(folder.path());
    let sampling = |generation: &str| {
        std::fs::write(folder.path().join("generation_config.json"), generation).unwrap();
        load(&Source::open(folder.path()).unwrap())
    };
    let model = sampling(
        r#"{"do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": 20, "min_p": null,
            "repetition_penalty": 1.05, "eos_token_id": [256, 65]}"#,
    );
    let expected = SampleOptions {
        temperature: 0.6,
        top_p: 0.9,
        top_k: 20,
        penalty_repeat: 1.05,
        penalty_last_n: -1,
        ..SampleOptions::default()
    };
    assert_eq!(*model.sampling(), expected);
    let tokenizer = model.require_tokenizer().unwrap();
    assert!(tokenizer.is_stop(256) && tokenizer.is_stop(65) && !tokenizer.is_stop(66));
    // What makes no sense is left out.
    for none in ["{}", "[]", r#"{"temperature": "hot", "top_p": 3, "top_k": -7.5}"#] {
        assert_eq!(*sampling(none).sampling(), SampleOptions::default(), "{none}");
    }
}

/// A folder whose `config.json` has other values for some keys.
fn changed(changes: &[(&str, Value)]) -> Result<Source, Error> {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &Tiny::LLAMA, 1);
    let mut config = config(&Tiny::LLAMA);
    for (key, value) in changes {
        config[*key] = value.clone();
    }
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    Source::open(folder.path())
}

#[test]
fn rotary_embeddings_of_old_and_new_settings() {
    let mut llama3 = json!({ "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 32 });
    let old = changed(&[("rope_scaling", llama3.clone())]).unwrap();
    llama3["rope_theta"] = json!(1e4);
    let new = changed(&[("rope_theta", json!(3e5)), ("rope_parameters", llama3)]).unwrap();
    for source in [old, new] {
        assert_eq!(source.metadata.get::<f32>("llama.rope.freq_base").unwrap(), Some(1e4));
        let bytes = source.tensors["rope_freqs.weight"].parts.concat();
        let divisors = polaris_gguf::dequantize(TensorType::F32, &bytes).unwrap();
        assert_eq!(divisors.len(), 32);
        // Of transformers.
        let expected = [1.0, 1.0557, 1.4955, 2.1751, 3.2995, 5.3883, 8.0, 8.0];
        assert!(
            divisors.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-4)
        );
    }
    let yarn = |more: Value| {
        let mut yarn =
            json!({ "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16 });
        more.as_object().unwrap().iter().for_each(|(key, value)| yarn[key] = value.clone());
        let source = changed(&[("rope_scaling", yarn)]).unwrap();
        let rotary = Config::read(&source.metadata).unwrap().rotary[0].clone().unwrap();
        (rotary.magnitude, rotary.scaling)
    };
    let grown = 1.0 + 0.1 * 4f64.ln();
    let (magnitude, scaling) = yarn(json!({}));
    assert!((magnitude - grown).abs() < 1e-6);
    assert!(
        matches!(scaling, Scaling::Yarn(yarn) if yarn.truncates && yarn.original_context == 16)
    );
    let (magnitude, scaling) = yarn(json!({ "attention_factor": 1.5, "truncate": false }));
    assert!((magnitude - 1.5).abs() < 1e-6);
    assert!(matches!(scaling, Scaling::Yarn(yarn) if !yarn.truncates));
    let long =
        json!({ "type": "longrope", "short_factor": vec![1.0; 32], "long_factor": vec![2.0; 32] });
    let source =
        changed(&[("rope_scaling", long), ("original_max_position_embeddings", json!(16))])
            .unwrap();
    let rotary = Config::read(&source.metadata).unwrap().rotary[0].clone().unwrap();
    assert!((rotary.magnitude - (1.0 + 4f64.ln() / 16f64.ln()).sqrt()).abs() < 1e-6);
    assert_eq!(source.tensors["rope_factors_long.weight"].dims, [32]);
    let window = [
        ("sliding_window", json!(5)),
        ("layer_types", json!(["sliding_attention", "full_attention", "sliding_attention"])),
    ];
    let source = changed(&window).unwrap();
    let windows: Vec<_> =
        Config::read(&source.metadata).unwrap().layers.iter().map(|layer| layer.window).collect();
    assert_eq!(windows, [Some(5), None, Some(5)]);
}

#[test]
fn logits_are_those_of_transformers() {
    // The context decides between the factors of LongRoPE: that of the tokens.
    let peer = |rows: PathBuf| Peer { model: rows.with_extension(""), rows, context: 48 };
    let rows = files("POLARIS_HF_MODELS", "POLARIS_HF_FILTER", "logits");
    compare_all(&rows.into_iter().map(peer).collect::<Vec<_>>(), compare_logits);
}
