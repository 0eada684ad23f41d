//! What several families start from: a tiny encoder, and trainings that the binary made itself.

use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow};
use serde_json::{Map, Value, json};

use crate::formats;
use crate::process::{self, Call};
use crate::trial::{Settings, Trial};

/// Trainings, made when a trial first needs them.
#[derive(Default)]
pub struct Fixtures {
    trained: OnceLock<std::result::Result<Trained, String>>,
}

/// The files of trainings, by their path.
pub struct Trained {
    pub table: Vec<(String, Vec<u8>)>,
    pub text: Vec<(String, Vec<u8>)>,
}

/// A table of two classes.
pub const TABLE: &str = "a,b,c,label\n0.1,0.2,0.3,x\n0.4,0.1,0.9,y\n0.2,0.2,0.1,x\n0.7,0.5,0.8,y\n\
    0.3,0.1,0.2,x\n0.9,0.6,0.7,y\n0.1,0.1,0.1,x\n0.8,0.8,0.9,y\n0.2,0.3,0.1,x\n0.6,0.9,0.8,y\n";

/// A text to learn from.
pub fn text() -> String {
    "the quick brown fox jumps over the lazy dog. ".repeat(20)
}

/// The configuration of a training by the name of its data's source, as sections of keys.
pub fn configuration(source: &str) -> Value {
    let train = json!({ "epochs": 0, "steps": 2, "batch": 4, "seed": 1 });
    let optim =
        json!({ "kind": "adamw", "lr": 1e-3, "betas": [0.9, 0.99], "eps": 1e-8, "clip": 1.0 });
    let schedule = json!({ "kind": "cosine", "warmup": 1, "floor": 0.1 });
    let mlp = json!({ "kind": "mlp", "hidden": [6, 5], "activation": "gelu", "dropout": 0.1 });
    let cnn = json!({ "kind": "cnn", "channels": [2, 3], "kernel": 3, "padding": 1, "batch_norm": true,
                      "pool_after": [1], "hidden": [4], "dropout": 0.1 });
    let (model, data) = match source {
        "csv" => (mlp, json!({ "source": "csv", "path": "table.csv", "target": "label" })),
        "npz" => (mlp, json!({ "source": "npz", "path": "data.npz", "target_is": "number" })),
        "idx" => (
            cnn,
            json!({ "source": "idx", "path": "images.idx", "labels": "labels.idx", "dims": [1, 6, 6],
                    "shift": 1, "rotate": 5.0, "zoom": 0.1, "noise": 0.05, "flip": true }),
        ),
        "images" => (cnn, json!({ "source": "images", "path": "pictures", "dims": [3, 6, 6] })),
        _ => (
            json!({ "kind": "gpt", "layers": 1, "width": 8, "heads": 2, "dropout": 0.1 }),
            json!({ "source": "text", "path": "text.txt", "context": 8, "tokenizer": "bytes" }),
        ),
    };
    json!({ "model": model, "data": data, "optim": optim, "schedule": schedule, "train": train })
}

/// Sections of keys as TOML; what TOML has no way to say becomes text.
pub fn toml(document: &Value) -> String {
    let Some(sections) = document.as_object() else { return document.to_string() };
    let mut text = String::new();
    for (name, section) in sections {
        match section.as_object() {
            Some(keys) => {
                text.push_str(&format!("[{}]\n", key(name)));
                for (name, value) in keys {
                    text.push_str(&format!("{} = {}\n", key(name), value_of(value)));
                }
            }
            None => text = format!("{} = {}\n{text}", key(name), value_of(section)),
        }
    }
    text
}

fn key(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match !name.is_empty() && name.chars().all(plain) {
        true => name.to_owned(),
        false => json!(name).to_string(),
    }
}

fn value_of(value: &Value) -> String {
    match value {
        Value::Null => "nan".to_owned(),
        Value::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .map(|(name, value)| format!("{} = {}", key(name), value_of(value)))
                .collect();
            format!("{{ {} }}", members.join(", "))
        }
        Value::Array(values) => {
            format!("[{}]", values.iter().map(value_of).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

impl Fixtures {
    /// The trainings.
    pub fn trained(&self, settings: &Settings) -> Result<&Trained> {
        let made = self.trained.get_or_init(|| {
            let train = |name: &str, data: &str| {
                train(settings, name, data).map_err(|error| format!("{error:#}"))
            };
            Ok(Trained { table: train("csv", TABLE)?, text: train("text", &text())? })
        });
        made.as_ref().map_err(|error| anyhow!("no training could be made: {error}"))
    }
}

fn train(settings: &Settings, source: &str, data: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let folder = settings.work.join(format!("trained-{source}"));
    settings.make_folder(&folder)?;
    let configuration = configuration(source);
    let name = configuration["data"]["path"].as_str().unwrap_or_default();
    settings.write(&folder.join(name), data.as_bytes())?;
    settings.write(&folder.join("config.toml"), toml(&configuration).as_bytes())?;
    let call = Call::new(["train", "config.toml", "--out", "run"])
        .env("POLARIS_OPENCL", "off")
        .env("HOME", &folder)
        .env("POLARIS_DATA_DIR", folder.join("data"))
        .env("POLARIS_CACHE_DIR", folder.join("cache"));
    let patience = settings.patience;
    let ended = process::run(&settings.binary, &folder, settings.uid, patience, &call)?;
    if !ended.succeeded() {
        return Err(anyhow!("{}", ended.stderr_text())).context("polaris train");
    }
    let mut files = vec![(name.to_owned(), data.as_bytes().to_vec())];
    collect(&folder.join("run"), "run", &mut files)?;
    // The folder's name differs from run to run, and stands in the files; damage must hit the same places.
    let own = settings.work.display().to_string();
    for (_, bytes) in &mut files {
        replace(bytes, own.as_bytes(), &blank(settings));
    }
    Ok(files)
}

/// What stands in fixtures for the name of this run's folder, in as many bytes.
fn blank(settings: &Settings) -> Vec<u8> {
    vec![b'~'; settings.work.display().to_string().len()]
}

/// The configuration that a fixture was trained by: it names the data by their place in this run.
pub fn configuration_of_trained(settings: &Settings, source: &str) -> Value {
    let mut document = configuration(source);
    let name = document["data"]["path"].as_str().unwrap_or_default().to_owned();
    document["data"]["path"] = json!(settings.work.join(format!("trained-{source}")).join(name));
    document
}

/// A file of a fixture, damaged or not, as it belongs into this run.
pub fn of_this_run(settings: &Settings, mut bytes: Vec<u8>) -> Vec<u8> {
    let own = settings.work.display().to_string();
    replace(&mut bytes, &blank(settings), own.as_bytes());
    bytes
}

/// Replaces bytes by as many others.
fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    let mut at = 0;
    while at + from.len() <= bytes.len() {
        if bytes[at..].starts_with(from) {
            bytes[at..at + from.len()].copy_from_slice(to);
        }
        at += 1;
    }
}

fn collect(folder: &Path, name: &str, files: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    let mut entries = std::fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{name}/{}", entry.file_name().to_string_lossy());
        match entry.file_type()?.is_dir() {
            true => collect(&entry.path(), &name, files)?,
            false => files.push((name, polaris_files::read(&entry.path(), 1 << 26)?)),
        }
    }
    Ok(())
}

/// Elements of a token's vector.
const HIDDEN: usize = 12;
const POSITIONS: usize = 40;
const INNER: usize = 20;
const LAYERS: usize = 2;
/// Four special tokens, every letter, and every letter inside a word.
const VOCABULARY: usize = 4 + 26 + 26;

/// A tiny encoder: its configuration, its tokenizer, its weights.
pub struct Encoder {
    pub config: Value,
    pub tokenizer: Value,
    pub weights: Vec<(String, Vec<usize>, Vec<f32>)>,
}

impl Encoder {
    pub fn new() -> Self {
        let config = json!({
            "model_type": "bert", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
            "num_attention_heads": 3, "intermediate_size": INNER, "hidden_act": "gelu",
            "max_position_embeddings": POSITIONS, "layer_norm_eps": 1e-5, "pad_token_id": 0,
            "vocab_size": VOCABULARY, "type_vocab_size": 2, "position_embedding_type": "absolute",
        });
        Self { config, tokenizer: tokenizer(), weights: weights() }
    }

    /// Writes it as a folder.
    pub fn write(&self, trial: &Trial<'_>, folder: &str) -> Result<()> {
        trial.write(format!("{folder}/config.json"), self.config.to_string())?;
        trial.write(format!("{folder}/tokenizer.json"), self.tokenizer.to_string())?;
        let file = formats::safetensors_of(&self.weights);
        trial.write(format!("{folder}/model.safetensors"), file)?;
        Ok(())
    }
}

fn weights() -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let mut all = Vec::new();
    let mut add = |name: String, shape: &[usize], middle: f32| {
        let count: usize = shape.iter().product();
        let values = (0..count).map(|i| middle + ((i * 7919 + 13) % 101) as f32 / 200.0 - 0.25);
        all.push((name, shape.to_vec(), values.collect()));
    };
    let mut norm = vec!["embeddings.LayerNorm".to_owned()];
    add("embeddings.word_embeddings.weight".into(), &[VOCABULARY, HIDDEN], 0.0);
    add("embeddings.position_embeddings.weight".into(), &[POSITIONS, HIDDEN], 0.0);
    add("embeddings.token_type_embeddings.weight".into(), &[2, HIDDEN], 0.0);
    for layer in 0..LAYERS {
        for (part, out, of) in [
            ("attention.self.query", HIDDEN, HIDDEN),
            ("attention.self.key", HIDDEN, HIDDEN),
            ("attention.self.value", HIDDEN, HIDDEN),
            ("attention.output.dense", HIDDEN, HIDDEN),
            ("intermediate.dense", INNER, HIDDEN),
            ("output.dense", HIDDEN, INNER),
        ] {
            add(format!("encoder.layer.{layer}.{part}.weight"), &[out, of], 0.0);
            add(format!("encoder.layer.{layer}.{part}.bias"), &[out], 0.0);
        }
        norm.push(format!("encoder.layer.{layer}.attention.output.LayerNorm"));
        norm.push(format!("encoder.layer.{layer}.output.LayerNorm"));
    }
    for norm in norm {
        add(format!("{norm}.weight"), &[HIDDEN], 1.0);
        add(format!("{norm}.bias"), &[HIDDEN], 0.0);
    }
    all
}

fn tokenizer() -> Value {
    let mut pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"].map(str::to_owned).to_vec();
    pieces.extend(('a'..='z').map(String::from));
    pieces.extend(('a'..='z').map(|letter| format!("##{letter}")));
    let vocabulary: Map<String, Value> =
        pieces.iter().enumerate().map(|(id, piece)| (piece.clone(), json!(id))).collect();
    let special = |id: usize| json!({ "id": pieces[id], "ids": [id], "tokens": [pieces[id]] });
    let added = |id: usize| {
        json!({ "id": id, "content": pieces[id], "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true })
    };
    let template = json!([{ "SpecialToken": { "id": "[CLS]", "type_id": 0 } },
                          { "Sequence": { "id": "A", "type_id": 0 } },
                          { "SpecialToken": { "id": "[SEP]", "type_id": 0 } }]);
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [added(0), added(2), added(3)],
        "normalizer": { "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                        "strip_accents": null, "lowercase": true },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": { "type": "TemplateProcessing", "single": template, "pair": template,
                            "special_tokens": { "[CLS]": special(2), "[SEP]": special(3) } },
        "decoder": null,
        "model": { "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                   "max_input_chars_per_word": 100, "vocab": vocabulary },
    })
}
