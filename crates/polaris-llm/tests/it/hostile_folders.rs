//! Folders that contradict themselves: an error that names what is wrong, and never a panic.

use std::fs;
use std::path::Path;

use polaris_core::ErrorKind;
use polaris_core::random::SplitMix64;
use polaris_llm::{Config, Error, LoadOptions, Model, Source};
use safetensors::Dtype;
use serde_json::{Value, json};

use crate::common::devices;
use crate::tiny::Tiny;
use crate::tiny::folder::{config, shard_name, tensors, write, write_tensors};

fn folder(files: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &Tiny::LLAMA, files);
    folder
}

fn load(folder: &Path) -> Result<(), Error> {
    let source = Source::open(folder)?;
    let model = Model::load(&source, &devices()[0], &LoadOptions::default(), |_| Ok(()))?;
    let options = polaris_llm::EngineOptions { context: 16, ..Default::default() };
    let mut engine = polaris_llm::Engine::new(&model, &options)?;
    engine.feed(0, &[1, 2, 3], polaris_llm::Wanted::Last, &|| false).map(drop)
}

fn refused(folder: &Path, expected: &str) {
    let error = load(folder).expect_err(expected).to_string();
    assert!(error.contains(expected), "{expected}: {error}");
    assert!(error.len() < 1200 && !error.contains('\u{1b}'), "{error}");
}

#[test]
fn files_that_are_missing_are_named() {
    let empty = tempfile::tempdir().unwrap();
    let error = load(empty.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("config.json"));
    fs::write(empty.path().join("config.json"), config(&Tiny::LLAMA).to_string()).unwrap();
    assert_eq!(load(empty.path()).unwrap_err().kind(), ErrorKind::NotFound);
    fs::write(empty.path().join("pytorch_model.bin"), "x").unwrap();
    refused(empty.path(), "convert them to safetensors");
}

#[test]
fn settings_that_cannot_be_are_named() {
    let folder = folder(1);
    let path = folder.path().join("config.json");
    let plain = config(&Tiny::LLAMA);
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    for (text, expected) in [
        (deep.as_str(), "recursion limit"),
        ("", "not valid JSON"),
        ("[1]", "it is no object"),
        ("{}", "no `model_type`"),
        (r#"{"model_type": "mamba\u001b[1m"}"#, "is not supported; supported are llama, mistral"),
        (r#"{"model_type": "llama"}"#, "hidden_size"),
    ] {
        fs::write(&path, text).unwrap();
        refused(folder.path(), expected);
    }
    let yarn = json!({"rope_type": "yarn", "factor": -4, "original_max_position_embeddings": 16});
    let llama3 =
        json!({"rope_type": "llama3", "factor": 0, "low_freq_factor": 1, "high_freq_factor": 4});
    let short = json!({"rope_type": "longrope", "short_factor": [1], "long_factor": [1]});
    for (key, value, expected) in [
        ("num_hidden_layers", json!(1e18), "num_hidden_layers"),
        ("num_hidden_layers", json!(100_000), "accepted are 1 to 4096"),
        ("num_hidden_layers", json!(0), "accepted are 1 to 4096"),
        ("num_hidden_layers", json!("3"), "expected is a number"),
        ("num_hidden_layers", json!(2.5), "expected is an integer"),
        ("num_hidden_layers", json!(-1), "expected is an integer"),
        ("num_hidden_layers", json!(4), "blk.3."),
        ("hidden_size", json!(null), "hidden_size"),
        ("hidden_size", json!(128), "token_embd.weight"),
        ("hidden_size", json!(4_000_000_000u64), "too large"),
        ("num_attention_heads", json!(0), "heads"),
        ("num_attention_heads", json!(3), "heads"),
        ("head_dim", json!(32), "attn_k.weight"),
        ("head_dim", json!(1_000_000_000), "heads of 1000000000"),
        ("hidden_act", json!("relu"), "supported is silu"),
        ("hidden_act", json!({"a": "\u{1b}"}), "supported is silu"),
        ("rope_scaling", json!(3), "expected is an object"),
        ("rope_scaling", json!({"type": "dynamic", "factor": 2}), "type `dynamic`"),
        ("rope_scaling", json!({"type": "linear"}), "no `factor`"),
        ("rope_scaling", json!({"type": "linear", "factor": -1}), "factor"),
        ("rope_scaling", yarn, "factor"),
        ("rope_scaling", llama3, "factor 0"),
        ("rope_scaling", short, "a list of 32 numbers"),
        ("rope_theta", json!(-5), "base"),
        ("partial_rotary_factor", json!(7), "share of 7"),
        ("layer_types", json!(["full_attention"]), "a list of 3 known values"),
        ("layer_types", json!(["linear_attention", "x", 1]), "a list of 3 known values"),
        ("tie_word_embeddings", json!("yes"), "true or false"),
        ("quantization_config", json!({"quant_method": "gptq"}), "quantised by `gptq`"),
        ("attn_logit_softcapping", json!(30), "not supported in llama"),
    ] {
        let mut changed = plain.clone();
        changed[key] = value.clone();
        fs::write(&path, changed.to_string()).unwrap();
        let error = load(folder.path()).expect_err(key).to_string();
        assert!(error.contains(expected), "{key} = {value}: {error}");
        assert!(error.len() < 1200 && !error.contains('\u{1b}'), "{error}");
    }
    fs::write(&path, plain.to_string()).unwrap();
    load(folder.path()).unwrap();
}

#[test]
fn tensors_that_cannot_be_are_named() {
    let folder = folder(1);
    let path = folder.path().join("model.safetensors");
    let q = "model.layers.0.self_attn.q_proj.weight";
    let f8 = (Dtype::F8_E4M3, vec![256, 256], vec![0; 1 << 16]);
    let none = (Dtype::F32, vec![0, 256], Vec::new());
    let row = (Dtype::F32, vec![256], vec![0; 1024]);
    for (name, tensor, expected) in [
        (q, Some(f8), "F8_E4M3"),
        (q, Some(none), "expected are elements"),
        (q, Some(row.clone()), "attn_q.weight"),
        (q, None, "blk.0.attn_q.weight"),
        ("lm_head.weight", None, "no lm_head.weight"),
        (
            "model.layers.0.self_attn.mystery",
            Some(row.clone()),
            "not known in models of type llama",
        ),
        ("norm.weight", Some(row.clone()), "there twice"),
    ] {
        let mut all = tensors(&Tiny::LLAMA);
        match tensor {
            Some(tensor) => all.insert(name.to_owned(), tensor),
            None => all.remove(name),
        };
        write_tensors(&path, &all);
        refused(folder.path(), expected);
    }
    // What has no weights, or belongs to layers that are not run, is left out.
    let mut all = tensors(&Tiny::LLAMA);
    for name in
        ["model.layers.0.self_attn.rotary_emb.inv_freq", "model.layers.3.x", "vision_tower.x"]
    {
        all.insert(name.to_owned(), row.clone());
    }
    write_tensors(&path, &all);
    load(folder.path()).unwrap();
}

#[test]
fn experts_must_be_complete_and_alike() {
    let tiny = Tiny { experts: 3, ..Tiny::LLAMA };
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &tiny, 1);
    let path = folder.path().join("model.safetensors");
    let name = |number: &str| format!("model.layers.1.block_sparse_moe.experts.{number}.w1.weight");
    let mut all = tensors(&tiny);
    let taken = all.remove(&name("1")).unwrap();
    write_tensors(&path, &all);
    refused(folder.path(), "number 1 is missing");
    let (dtype, _, bytes) = taken.clone();
    all.insert(name("1"), (dtype, vec![128, 512], bytes));
    write_tensors(&path, &all);
    refused(folder.path(), "another type or shape");
    all.insert(name("1"), taken.clone());
    all.insert(name("18446744073709551615"), taken.clone());
    write_tensors(&path, &all);
    refused(folder.path(), "number 3 is missing");
    all.remove(&name("18446744073709551615"));
    all.insert(name("3"), taken);
    write_tensors(&path, &all);
    refused(folder.path(), "ffn_gate_exps.weight");
}

#[test]
fn an_index_stays_in_its_folder_and_is_complete() {
    let folder = folder(3);
    load(folder.path()).unwrap();
    let path = folder.path().join("model.safetensors.index.json");
    let plain: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let norm = "model.norm.weight";
    for (file, expected) in [
        (json!("../model.safetensors"), "accepted is the name of a file in this folder"),
        (json!("/etc/passwd"), "accepted is"),
        (json!("config.json"), "accepted is"),
        (json!("a/b.safetensors"), "accepted is"),
        (json!(null), "accepted is"),
        (json!("absent.safetensors"), "absent.safetensors"),
    ] {
        let mut changed = plain.clone();
        changed["weight_map"][norm] = file;
        fs::write(&path, changed.to_string()).unwrap();
        refused(folder.path(), expected);
    }
    let mut changed = plain.clone();
    changed["weight_map"]["model.layers.0.x\u{1b}.weight"] = shard_name(1, 3).into();
    fs::write(&path, changed.to_string()).unwrap();
    refused(folder.path(), "and is not there");
    fs::write(&path, "{\"weight_map\": [1]}").unwrap();
    refused(folder.path(), "weight_map");
    fs::write(&path, plain.to_string()).unwrap();
    fs::remove_file(folder.path().join(shard_name(2, 3))).unwrap();
    let error = load(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains(&shard_name(2, 3)), "{error}");
}

#[test]
fn headers_that_lie_are_refused() {
    let folder = folder(1);
    let path = folder.path().join("model.safetensors");
    let write = |header: &str, length: u64, data: &[u8]| {
        let bytes = [&length.to_le_bytes()[..], header.as_bytes(), data].concat();
        fs::write(&path, bytes).unwrap();
    };
    let tensor = |name: &str, dims: &str, start: u64, end: u64| {
        format!(
            "\"{name}\":{{\"dtype\":\"F32\",\"shape\":[{dims}],\"data_offsets\":[{start},{end}]}}"
        )
    };
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    for (entries, expected) in [
        (vec![tensor("a", "2", 0, 16)], "not a whole safetensors file"),
        (vec![tensor("a", "4", 8, 24)], "not a whole safetensors file"),
        (vec![tensor("a", "4", 16, 0)], "not a whole safetensors file"),
        (vec![tensor("a", "4", 0, 16), tensor("b", "2", 8, 16)], "not a whole safetensors file"),
        (vec![tensor("a", "18446744073709551615,4", 0, 16)], "not a whole safetensors file"),
        (vec![tensor("a", "4294967296,4294967296,0", 0, 0)], "not a whole safetensors file"),
        (vec![tensor("a", "4", 0, 1 << 60)], "not a whole safetensors file"),
        (vec![tensor("a", "4", 0, 16), tensor("a", "2,2", 0, 16)], "an entry twice"),
        (vec![tensor("a", "4", 0, 16)], "not known"),
        (vec!["\"a\": 3".to_owned()], "not a whole safetensors file"),
    ] {
        let header = format!("{{{}}}", entries.join(","));
        write(&header, header.len() as u64, &[0; 16]);
        refused(folder.path(), expected);
    }
    for (header, length) in [("{}", 1 << 40), ("{}", u64::MAX), ("{}", 3), ("{", 1), ("", 0)] {
        write(header, length, &[]);
        refused(folder.path(), "not a whole safetensors file");
    }
    write(&deep, deep.len() as u64, &[]);
    refused(folder.path(), "not a whole safetensors file");
    fs::write(&path, "abc").unwrap();
    refused(folder.path(), "not a whole safetensors file");
}

#[test]
fn damaged_folders_never_panic() {
    let folder = folder(1);
    let path = folder.path().join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    let header = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let settings = config(&Tiny::LLAMA).to_string().into_bytes();
    let mut random = SplitMix64::new(5);
    let (mut read, mut ran) = (0, 0);
    for round in 0..120 {
        let (mut file, mut json) = (whole.clone(), settings.clone());
        for _ in 0..1 + random.bits() % 3 {
            let target = if round % 2 == 0 { &mut file[..header] } else { &mut json[..] };
            let at = random.bits() as usize % target.len();
            target[at] = match random.bits() % 3 {
                0 => b'0' + (random.bits() % 10) as u8,
                1 => random.bits() as u8,
                _ => target[at].wrapping_add(1),
            };
        }
        fs::write(&path, &file).unwrap();
        fs::write(folder.path().join("config.json"), &json).unwrap();
        let Ok(source) = Source::open(folder.path()) else { continue };
        read += 1;
        ran += usize::from(Config::read(&source.metadata).is_ok() && load(folder.path()).is_ok());
    }
    assert!(read > 5 && ran > 2, "{read} were read, {ran} ran");
    for cut in [0, 7, 8, header / 2, header, header + 100, whole.len() - 1] {
        fs::write(&path, &whole[..cut]).unwrap();
        fs::write(folder.path().join("config.json"), &settings).unwrap();
        assert!(load(folder.path()).is_err());
    }
}
