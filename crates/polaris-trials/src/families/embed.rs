//! `polaris embed` with damaged tokenizers, configurations, weights and texts.

use anyhow::Result;
use serde_json::json;

use super::training::damaged_tensors;
use crate::damage::{damage, damage_text};
use crate::fixtures::Encoder;
use crate::formats;
use crate::json_damage::damage_json;
use crate::random::{Random, odd_string};
use crate::trial::Trial;

const LINES: &str = "the quick brown fox\njumps over\n\nthe lazy dog\na\n";

pub fn run(trial: &mut Trial<'_>) -> Result<()> {
    let mut encoder = Encoder::new();
    let mut lines = LINES.as_bytes().to_vec();
    let target = trial.random.below(10);
    match target {
        0..=3 => encoder.tokenizer = hostile_tokenizer(&encoder, &mut trial.random),
        4 | 5 => encoder.config = damage_json(&encoder.config, &mut trial.random),
        9 => lines = hostile_text(&mut trial.random),
        _ => {}
    }
    encoder.write(trial, "model")?;
    match target {
        6 => {
            let file = formats::safetensors_of(&encoder.weights);
            let file = damaged_tensors(&file, &mut trial.random);
            trial.write("model/model.safetensors", file)?;
        }
        7 => {
            let name = *trial.random.pick(&["config.json", "tokenizer.json"]);
            let file = polaris_files::read(&trial.path("model").join(name), 1 << 20)?;
            let damaged = damage(&file, &file, &mut trial.random);
            trial.write(format!("model/{name}"), damaged)?;
        }
        8 => write_surroundings(trial)?,
        _ => {}
    }
    trial.write("lines.txt", lines)?;
    let random = &mut trial.random;
    let output = *random.pick(&["-o out.npy", "-o out.jsonl", "-o out.npy --json", ""]);
    let pooling =
        *random.pick(&["", "--pooling cls", "--pooling max", "--max-tokens 3", "--batch 2"]);
    trial.polaris(&format!("embed model lines.txt --mode cpu {output} {pooling}"))?;
    Ok(())
}

/// A tokenizer that is well-formed, or nearly, and contradicts itself or its model.
fn hostile_tokenizer(encoder: &Encoder, random: &mut Random) -> serde_json::Value {
    let mut tokenizer = encoder.tokenizer.clone();
    match random.below(12) {
        0 => tokenizer["model"]["unk_token"] = json!("[NONE]"),
        1 => tokenizer["post_processor"]["special_tokens"] = json!({}),
        2 => {
            // Ids beyond the table of embeddings.
            let id = *random.pick(&[56u64, 1 << 31, u64::from(u32::MAX)]);
            tokenizer["model"]["vocab"]["a"] = json!(id);
        }
        3 => tokenizer["added_tokens"][0]["id"] = json!(u32::MAX),
        4 => {
            tokenizer["truncation"] = json!({ "direction": "Right", "max_length": random.below(4),
                "strategy": "LongestFirst", "stride": random.below(9) });
        }
        5 => {
            tokenizer["padding"] = json!({ "strategy": { "Fixed": 1u64 << random.below(40) },
                "direction": "Right", "pad_to_multiple_of": random.below(3), "pad_id": 0,
                "pad_type_id": 0, "pad_token": "[PAD]" });
        }
        6 => {
            let merges = json!([["a", "b"], ["zz", "q"]]);
            tokenizer["model"] = json!({ "type": "BPE", "vocab": { "a": 0, "b": 0 }, "merges": merges, "unk_token": "?" });
        }
        7 => {
            tokenizer["model"] = json!({ "type": "Unigram", "unk_id": random.below(9),
                "vocab": [["a", -1.0], ["", 1e308], ["b", f64::NAN]] });
        }
        8 => {
            let pattern = *random.pick(&["(a+)+$", "", "(", "[\\s\\S]*", "(?<=a{1,9})b"]);
            tokenizer["pre_tokenizer"] = json!({ "type": "Split", "pattern": { "Regex": pattern },
                "behavior": "Isolated", "invert": false });
        }
        9 => {
            tokenizer["normalizer"] = json!({ "type": "Replace",
                "pattern": { "String": odd_string(random) }, "content": "aaaaaaaaaaaaaaaa" });
        }
        10 => {
            tokenizer["normalizer"] =
                json!({ "type": "Precompiled", "precompiled_charsmap": "AAAAAA==" });
        }
        _ => tokenizer = damage_json(&tokenizer, random),
    }
    match random.once_in(3) {
        true => damage_json(&tokenizer, random),
        false => tokenizer,
    }
}

/// The files of sentence-transformers, damaged.
fn write_surroundings(trial: &mut Trial<'_>) -> Result<()> {
    let modules = json!([
        { "idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer" },
        { "idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling" },
        { "idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize" },
    ]);
    let pooling = json!({ "word_embedding_dimension": 12, "pooling_mode_cls_token": false,
        "pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": false });
    let bert = json!({ "max_seq_length": 16, "do_lower_case": false });
    let names = [
        "modules.json",
        "1_Pooling/config.json",
        "sentence_bert_config.json",
        "tokenizer_config.json",
    ];
    let target = trial.random.below(names.len());
    for (index, document) in [modules, pooling, bert.clone(), bert].iter().enumerate() {
        let file = match (index == target, trial.random.once_in(3)) {
            (false, _) => document.to_string().into_bytes(),
            (true, true) => damage(document.to_string().as_bytes(), b"[]{}", &mut trial.random),
            (true, false) => damage_json(document, &mut trial.random).to_string().into_bytes(),
        };
        trial.write(format!("model/{}", names[index]), file)?;
    }
    Ok(())
}

fn hostile_text(random: &mut Random) -> Vec<u8> {
    match random.below(6) {
        0 => Vec::new(),
        1 => "word ".repeat(50_000).into_bytes(),
        2 => vec![b'a'; 3 << 20],
        3 => {
            let file = formats::gzip(LINES.as_bytes());
            damage(&file, LINES.as_bytes(), random)
        }
        4 => damage_text(LINES, random),
        _ => damage(LINES.as_bytes(), b"\xff\xfe\0\r\n", random),
    }
}
