//! Llamas: their gradients beside differences, their files beside the engine that reads them.

use std::collections::HashMap;

use bytes::Bytes;
use polaris_core::DType;
use polaris_data::{Bpe, DIALOG_TOKENS, Tokenizer as _};
use polaris_gguf::TensorType;
use polaris_llm::{CacheType, Engine, EngineOptions, LoadOptions, Source, Wanted};
use polaris_nn::export::Gguf;
use polaris_nn::models::{Ends, Llama, Model};
use polaris_nn::train::{Config, ModelFile, Task, Trainer};
use polaris_nn::{Init, Module, Pass, parameters, state};
use polaris_tensor::Tensor;
use polaris_testkit::devices_under_test;
use polaris_tokenizer::{Special, Tokenizer};
use serde_json::json;

/// Every derivative with respect to every parameter, in `f64`, beside a central difference.
#[test]
fn gradients_are_those_of_differences() {
    let device = &devices_under_test()[0];
    let small =
        Llama { layers: 1, width: 8, heads: 4, kv_heads: 2, feed_forward: 6, ..Llama::default() };
    for tied in [true, false] {
        let model = Model::Llama(Llama { tied, ..small.clone() });
        let init = &mut Init::new(device, 3).with_dtype(DType::F64);
        let built = model.build(&Ends { input: vec![5], outputs: 7 }, init).unwrap();
        // As they begin, embeddings are too small and norms too even to show a mistake.
        for (at, (_, tensor)) in state(&*built).into_iter().enumerate() {
            let random = Tensor::uniform(device, tensor.dims(), DType::F64, (-0.8, 0.8), at as u64);
            tensor.copy_from(&random.unwrap()).unwrap();
        }
        let tokens = Tensor::from_slice(device, &[2, 4], &[0i64, 3, 6, 3, 1, 5, 2, 4]).unwrap();
        let weights = Tensor::randn(device, &[2, 4, 7], DType::F64, 9).unwrap();
        let loss = || {
            let logits = built.forward(&tokens, &Pass::training(0)).unwrap();
            logits.mul(&weights).unwrap().sum().unwrap()
        };
        loss().backward().unwrap();
        let mut compared = 0;
        for (name, parameter) in parameters(&*built) {
            let gradient = parameter.tensor().grad().unwrap().to_f64().unwrap();
            let tensor = parameter.tensor().detach();
            let before = tensor.to_f64().unwrap();
            for (at, gradient) in gradient.iter().enumerate() {
                let step = 1e-5;
                let [above, below] = [step, -step].map(|step| {
                    let mut values = before.clone();
                    values[at] += step;
                    let values = Tensor::from_slice(device, tensor.dims(), &values).unwrap();
                    tensor.copy_from(&values).unwrap();
                    polaris_tensor::no_grad(|| loss().item().unwrap())
                });
                let difference = (above - below) / (2.0 * step);
                let error = (difference - gradient).abs() / (1.0 + gradient.abs());
                assert!(error < 1e-7, "{name}[{at}]: {gradient} beside {difference}");
                compared += 1;
            }
            let before = Tensor::from_slice(device, tensor.dims(), &before).unwrap();
            tensor.copy_from(&before).unwrap();
        }
        let all = 7 * 8 * if tied { 1 } else { 2 } + 8 * (8 + 4 + 4 + 8) + 3 * 8 * 6 + 3 * 8;
        assert_eq!(compared, all);
    }
}

/// A trained tokenizer of a small text.
fn tokenizer(special: &[&str]) -> Bpe {
    let text = &polaris_data::text().unwrap()[..20_000];
    Bpe::train(text, 320, special).unwrap()
}

fn about(model: Llama, tokenizer: Option<&Bpe>) -> ModelFile {
    let config = json!({ "model": { "kind": "llama" }, "data": { "source": "sample" } });
    let mut config: Config = serde_json::from_value(config).unwrap();
    config.model = Model::Llama(model);
    ModelFile {
        config,
        task: Task::Tokens,
        input: vec![64],
        outputs: tokenizer.map_or(256, |tokenizer| tokenizer.vocabulary()),
        classes: Vec::new(),
        tokenizer: tokenizer.map(|tokenizer| tokenizer.to_json().unwrap()),
    }
}

fn source(gguf: &Gguf) -> Source {
    let file = polaris_gguf::Gguf::from_bytes(Bytes::from(gguf.bytes.clone())).unwrap();
    Source::from_gguf(&file).unwrap()
}

/// The norm of the difference by the norm of what is expected.
fn relative_error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let difference: f64 = found.iter().zip(expected).map(|(a, b)| (a - b) * (a - b)).sum();
    (difference / expected.iter().map(|x| x * x).sum::<f64>()).sqrt()
}

#[test]
fn an_exported_file_gives_the_logits_of_the_model() {
    let tokenizer = tokenizer(&DIALOG_TOKENS);
    let tokens: Vec<u32> = (0..40u32).map(|at| at * 37 % tokenizer.vocabulary() as u32).collect();
    for device in devices_under_test() {
        for (tied, rope_theta, ty, allowed) in [
            (true, 1e4, TensorType::F32, 1e-5),
            (false, 5e5, TensorType::F32, 1e-5),
            (true, 1e4, TensorType::F16, 2e-3),
            (true, 1e4, TensorType::Q8_0, 5e-2),
        ] {
            let llama = Llama {
                layers: 2,
                width: 64,
                heads: 4,
                kv_heads: 2,
                feed_forward: 96,
                rope_theta,
                tied,
                dropout: 0.0,
            };
            let about = about(llama, Some(&tokenizer));
            let ends = Ends { input: about.input.clone(), outputs: about.outputs };
            let model = about.config.model.build(&ends, &mut Init::new(device, 1)).unwrap();
            for (at, (name, tensor)) in state(&*model).into_iter().enumerate() {
                let bounds = if name.contains("norm") { (0.5, 1.5) } else { (-0.3, 0.3) };
                let random = Tensor::uniform(device, tensor.dims(), DType::F32, bounds, at as u64);
                tensor.copy_from(&random.unwrap()).unwrap();
            }
            let ids: Vec<i64> = tokens.iter().map(|&token| i64::from(token)).collect();
            let x = Tensor::from_slice(device, &[1, ids.len()], &ids).unwrap();
            let expected = model.forward(&x, &Pass::evaluation()).unwrap().to_f64().unwrap();

            let gguf = Gguf::of(&about, &*model, "a test", ty).unwrap();
            let loaded =
                polaris_llm::Model::load(&source(&gguf), device, &LoadOptions::default(), |_| {
                    Ok(())
                })
                .unwrap();
            assert_eq!(loaded.vocabulary(), gguf.vocabulary);
            let options =
                EngineOptions { context: 64, cache: CacheType::F32, ..EngineOptions::default() };
            let mut engine = Engine::new(&loaded, &options).unwrap();
            let found = engine.feed(0, &tokens, Wanted::All, &|| false).unwrap();
            let found: Vec<f64> = found.iter().map(|&logit| f64::from(logit)).collect();
            let error = relative_error(&found, &expected);
            assert!(error <= allowed, "{ty}, tied: {tied}, on {}: {error:.1e}", device.id());
        }
    }
}

#[test]
fn the_exported_tokenizer_gives_the_ids_of_training() {
    let trained = tokenizer(&DIALOG_TOKENS);
    let device = &devices_under_test()[0];
    let llama =
        Llama { layers: 1, width: 32, heads: 2, kv_heads: 1, feed_forward: 32, ..Llama::default() };
    let export = |tokenizer: Option<&Bpe>| {
        let about = about(llama.clone(), tokenizer);
        let ends = Ends { input: about.input.clone(), outputs: about.outputs };
        let model = about.config.model.build(&ends, &mut Init::new(device, 1)).unwrap();
        Gguf::of(&about, &*model, "a test", TensorType::F16).unwrap()
    };
    let exported = source(&export(Some(&trained)));
    let tokenizer = Tokenizer::from_gguf(&exported.metadata).unwrap();
    let book = polaris_data::text().unwrap();
    let texts = [
        "",
        " ",
        "And the LORD said unto Moses, I'm 12  years\n\n old\t\r\n",
        "naïve – 日本語 🦀\u{0}\u{7f}\u{ffff} don't 'S 's ''ll",
        "<|im_start|>user\nHi<|im_end|>\n<|endoftext|>",
        "<|im_sta",
        &book[20_000..60_000],
    ];
    for text in texts {
        let expected = trained.encode(text).unwrap();
        assert_eq!(tokenizer.encode(text, Special::Parse).unwrap(), expected, "{text:?}");
        assert_eq!(tokenizer.decode(&expected, Special::Parse), text);
        assert_eq!(trained.decode(&expected), text);
    }
    let id = |text: &str| tokenizer.token_id(text).unwrap();
    assert!(DIALOG_TOKENS.iter().all(|text| id(text) >= 317));
    assert!(tokenizer.is_stop(id("<|im_end|>")) && tokenizer.is_stop(id("<|endoftext|>")));
    assert!(tokenizer.begin().is_empty());
    let bytes = Tokenizer::from_gguf(&source(&export(None)).metadata).unwrap();
    assert_eq!(bytes.encode("ä\n", Special::Parse).unwrap(), [0xc3, 0xa4, 10]);
}

#[test]
fn what_cannot_be_exported_is_named() {
    let device = &devices_under_test()[0];
    let refused = |about: &ModelFile| {
        let ends = Ends { input: about.input.clone(), outputs: about.outputs };
        let model = about.config.model.build(&ends, &mut Init::new(device, 1)).unwrap();
        Gguf::of(about, &*model, "a test", TensorType::F16).unwrap_err().to_string()
    };
    let llama =
        Llama { layers: 1, width: 8, heads: 2, kv_heads: 1, feed_forward: 8, ..Llama::default() };
    let trained = tokenizer(&[]);
    let mut gpt = about(llama.clone(), None);
    gpt.config.model =
        serde_json::from_value(json!({ "kind": "gpt", "width": 8, "heads": 2, "layers": 1 }))
            .unwrap();
    assert!(refused(&gpt).contains("only models of the kind `llama`"));
    for (part, value, why) in [
        ("pre_tokenizer", json!({ "type": "Whitespace" }), "not ByteLevel"),
        ("normalizer", json!({ "type": "NFC" }), "has a normalizer"),
        ("added_tokens", json!([{ "id": 1_000_000, "content": "<far>" }]), "no id below"),
        (
            "added_tokens",
            json!([{ "id": 3, "content": "<same>" }, { "id": 4, "content": "<same>" }]),
            "the same text",
        ),
    ] {
        let mut file = about(llama.clone(), Some(&trained));
        let mut json: serde_json::Value =
            serde_json::from_str(file.tokenizer.as_deref().unwrap()).unwrap();
        json[part] = value;
        file.tokenizer = Some(json.to_string());
        let found = refused(&file);
        assert!(found.contains(why), "{found}");
    }
}

#[test]
fn sizes_that_do_not_fit_are_named() {
    let config = |model: serde_json::Value, data: serde_json::Value| -> Config {
        serde_json::from_value(json!({ "model": model, "data": data })).unwrap()
    };
    let sample = json!({ "source": "sample" });
    for (model, expected) in [
        (json!({ "kind": "llama", "width": 100, "heads": 3 }), "cannot be cut into 3 heads"),
        (json!({ "kind": "llama", "heads": 4, "kv_heads": 3 }), "use a divisor of 4"),
        (json!({ "kind": "llama", "heads": 4, "kv_heads": 0 }), "0 heads of keys"),
        (json!({ "kind": "llama", "width": 12, "heads": 4 }), "even size"),
        (json!({ "kind": "llama", "rope_theta": -1.0 }), "rope_theta = -1"),
        (json!({ "kind": "llama", "feed_forward": 0 }), "at least 1"),
    ] {
        let config = config(model, sample.clone());
        let error =
            Trainer::from_config(&config, &devices_under_test()[0]).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("short.txt");
    std::fs::write(&path, "a short text, and a short one").unwrap();
    let short = json!({ "source": "text", "path": path, "tokenizer": "bpe", "vocabulary": 300, "context": 4 });
    let config = config(json!({ "kind": "llama" }), short);
    config.check().unwrap();
    let error = Trainer::from_config(&config, &devices_under_test()[0]).err().unwrap().to_string();
    assert!(error.contains("29 bytes") && error.contains("data.vocabulary = 300"), "{error}");
    for (key, value) in [("vocabulary", 100), ("vocabulary", 1 << 20)] {
        let mut config = config.clone();
        config.data.vocabulary = value;
        assert!(config.check().unwrap_err().to_string().contains(key));
    }
    let mut bytes = config.clone();
    bytes.data.tokenizer = "bytes".to_owned();
    assert!(bytes.check().unwrap_err().to_string().contains("tokenizer = \"bpe\""));
}

/// A trained model is read back with its tokenizer, and scores as it did.
#[test]
fn a_training_learns_and_its_file_keeps_the_tokenizer() {
    let device = &devices_under_test()[0];
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    std::fs::write(&text, &polaris_data::text().unwrap()[..30_000]).unwrap();
    let config: Config = serde_json::from_value(json!({
        "model": { "kind": "llama", "layers": 1, "width": 32, "heads": 2, "kv_heads": 1, "feed_forward": 64 },
        "data": { "source": "text", "path": text, "tokenizer": "bpe", "vocabulary": 300, "context": 32 },
        "optim": { "lr": 0.01 },
        "train": { "epochs": 1, "batch": 8 },
    }))
    .unwrap();
    let mut trainer = Trainer::from_config(&config, device).unwrap();
    let before = trainer.evaluate().unwrap().unwrap().loss;
    assert!((before - 300f64.ln()).abs() < 0.3, "{before}");
    let run = polaris_nn::train::RunFolder::open(&folder.path().join("run")).unwrap();
    trainer.run(&run, &mut |_: &polaris_nn::train::Event| {}).unwrap();
    let after = trainer.evaluate().unwrap().unwrap().loss;
    assert!(after < before - 0.8, "{before} before, {after} after");
    let (about, model) =
        ModelFile::load(&folder.path().join("run/model.safetensors"), device).unwrap();
    let states: [HashMap<String, Vec<f64>>; 2] = [trainer.model(), &*model].map(|model| {
        state(model).into_iter().map(|(name, tensor)| (name, tensor.to_f64().unwrap())).collect()
    });
    assert_eq!(states[0], states[1]);
    let again = Bpe::from_json(about.tokenizer.unwrap().as_bytes()).unwrap();
    assert_eq!(again.vocabulary(), 300);
}
