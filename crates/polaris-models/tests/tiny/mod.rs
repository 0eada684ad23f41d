//! A tiny encoder of random weights in every form that models come in, and its forward pass in plain loops.
#![allow(dead_code, reason = "each test uses some of it")]

use std::collections::BTreeMap;
use std::path::Path;

use polaris_data::Random;
use polaris_models::bert::{Config, Weights};
use serde_json::{Value, json};

pub const HIDDEN: usize = 12;
const HEADS: usize = 3;
const LAYERS: usize = 2;
const INNER: usize = 20;
const POSITIONS: usize = 40;
/// Four tokens of other meaning, every letter, and every letter that goes on with a word.
const VOCABULARY: usize = 4 + 26 + 26;

pub struct Tiny {
    family: &'static str,
    weights: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

impl Tiny {
    /// `bert`, or another family that is built like it.
    pub fn new(family: &'static str) -> Self {
        let mut tiny = Self { family, weights: BTreeMap::new() };
        let mut random = Random::new(&[1]);
        let mut add = |name: &str, shape: &[usize], middle: f32| {
            let count = shape.iter().product();
            let values = (0..count).map(|_| middle + random.within(0.5) as f32).collect();
            tiny.weights.insert(name.to_owned(), (shape.to_vec(), values));
        };
        add("embeddings.word_embeddings.weight", &[VOCABULARY, HIDDEN], 0.0);
        add("embeddings.position_embeddings.weight", &[POSITIONS, HIDDEN], 0.0);
        add("embeddings.token_type_embeddings.weight", &[2, HIDDEN], 0.0);
        let mut norms = vec!["embeddings.LayerNorm".to_owned()];
        for layer in 0..LAYERS {
            let name = format!("encoder.layer.{layer}");
            for (part, out, of) in [
                ("attention.self.query", HIDDEN, HIDDEN),
                ("attention.self.key", HIDDEN, HIDDEN),
                ("attention.self.value", HIDDEN, HIDDEN),
                ("attention.output.dense", HIDDEN, HIDDEN),
                ("intermediate.dense", INNER, HIDDEN),
                ("output.dense", HIDDEN, INNER),
            ] {
                add(&format!("{name}.{part}.weight"), &[out, of], 0.0);
                add(&format!("{name}.{part}.bias"), &[out], 0.0);
            }
            norms.push(format!("{name}.attention.output.LayerNorm"));
            norms.push(format!("{name}.output.LayerNorm"));
        }
        for norm in norms {
            add(&format!("{norm}.weight"), &[HIDDEN], 1.0);
            add(&format!("{norm}.bias"), &[HIDDEN], 0.0);
        }
        tiny
    }

    pub fn write_config(&self, folder: &Path) {
        let config = json!({
            "model_type": self.family, "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS, "intermediate_size": INNER, "hidden_act": "gelu",
            "max_position_embeddings": POSITIONS, "layer_norm_eps": 1e-5, "pad_token_id": 0,
            "vocab_size": VOCABULARY, "position_embedding_type": "absolute",
        });
        std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    }

    /// Writes `model.safetensors` and `config.json`, names with something in front.
    pub fn write_safetensors(&self, folder: &Path, prefix: &str) {
        let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = (self.weights.iter())
            .map(|(name, (shape, values))| {
                let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                (format!("{prefix}{name}"), shape.clone(), bytes)
            })
            .collect();
        let views = bytes.iter().map(|(name, shape, bytes)| {
            let view =
                safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.clone(), bytes);
            (name.as_str(), view.unwrap())
        });
        let file = safetensors::serialize(views.collect::<Vec<_>>(), None).unwrap();
        std::fs::write(folder.join("model.safetensors"), file).unwrap();
        self.write_config(folder);
    }

    /// Writes `model.onnx`.
    pub fn write_onnx(&self, folder: &Path) {
        let own = tempfile::tempdir().unwrap();
        self.write_safetensors(own.path(), "");
        let config = Config::read(&own.path().join("config.json")).unwrap();
        let weights = Weights::open(&own.path().join("model.safetensors")).unwrap();
        let model = polaris_models::bert::model(&config, &weights).unwrap();
        model.save(&folder.join("model.onnx")).unwrap();
    }

    /// Letters as tokens: `[CLS]`, the first letter of each word, the others, `[SEP]`.
    pub fn ids(text: &str) -> Vec<usize> {
        let letter = |letter: char| letter as usize - 'a' as usize;
        let word = |word: &str| -> Vec<usize> {
            let mut ids: Vec<usize> = word.chars().map(|c| 4 + 26 + letter(c)).collect();
            ids[0] -= 26;
            ids
        };
        let words = text.split(' ').flat_map(word);
        std::iter::once(2).chain(words).chain([3]).collect()
    }

    fn at(&self, name: &str, index: usize) -> f64 {
        f64::from(self.weights[name].1[index])
    }

    fn linear(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let weight = format!("{name}.weight");
        let out = self.weights[&weight].0[0];
        let row = |row: usize| -> f64 {
            let terms = x.iter().enumerate().map(|(i, y)| y * self.at(&weight, row * x.len() + i));
            terms.sum::<f64>() + self.at(&format!("{name}.bias"), row)
        };
        (0..out).map(row).collect()
    }

    fn norm(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
        let scale = 1.0 / (variance + 1e-5).sqrt();
        let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
        (x.iter().enumerate())
            .map(|(i, x)| (x - mean) * scale * self.at(&weight, i) + self.at(&bias, i))
            .collect()
    }

    /// The vectors of a text's tokens, in plain loops.
    pub fn forward(&self, ids: &[usize]) -> Vec<Vec<f64>> {
        let first = if self.family == "bert" { 0 } else { 1 };
        let mut x: Vec<Vec<f64>> = (ids.iter().enumerate())
            .map(|(place, id)| {
                let sum = |i: usize| {
                    self.at("embeddings.word_embeddings.weight", id * HIDDEN + i)
                        + self.at(
                            "embeddings.position_embeddings.weight",
                            (first + place) * HIDDEN + i,
                        )
                        + self.at("embeddings.token_type_embeddings.weight", i)
                };
                self.norm("embeddings.LayerNorm", &(0..HIDDEN).map(sum).collect::<Vec<f64>>())
            })
            .collect();
        for layer in 0..LAYERS {
            let name = format!("encoder.layer.{layer}");
            let part = |of: &str| -> Vec<Vec<f64>> {
                x.iter().map(|x| self.linear(&format!("{name}.attention.self.{of}"), x)).collect()
            };
            let (q, k, v) = (part("query"), part("key"), part("value"));
            let width = HIDDEN / HEADS;
            let mut next = Vec::new();
            for (place, x) in x.iter().enumerate() {
                let mut attended = vec![0.0; HIDDEN];
                for head in 0..HEADS {
                    let axes = head * width..(head + 1) * width;
                    let score = |k: &Vec<f64>| -> f64 {
                        axes.clone().map(|i| q[place][i] * k[i]).sum::<f64>()
                            / (width as f64).sqrt()
                    };
                    let scores: Vec<f64> = k.iter().map(|k| score(k).exp()).collect();
                    let sum: f64 = scores.iter().sum();
                    for i in axes {
                        attended[i] =
                            scores.iter().zip(&v).map(|(score, v)| score / sum * v[i]).sum();
                    }
                }
                let y = self.linear(&format!("{name}.attention.output.dense"), &attended);
                let y = self.norm(&format!("{name}.attention.output.LayerNorm"), &sum(&y, x));
                let inner = self.linear(&format!("{name}.intermediate.dense"), &y);
                let inner: Vec<f64> = inner.into_iter().map(gelu).collect();
                let z = self.linear(&format!("{name}.output.dense"), &inner);
                next.push(self.norm(&format!("{name}.output.LayerNorm"), &sum(&z, &y)));
            }
            x = next;
        }
        x
    }
}

fn sum(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// `x` times the normal distribution's share below it, by Simpson's rule.
fn gelu(x: f64) -> f64 {
    let steps = 2000;
    let density = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let width = x / f64::from(steps);
    let inner: f64 = (1..steps)
        .map(|i| if i % 2 == 1 { 4.0 } else { 2.0 } * density(width * f64::from(i)))
        .sum();
    x * (0.5 + (density(0.0) + inner + density(x)) * width / 3.0)
}

/// Writes a `tokenizer.json` whose pieces are letters.
pub fn write_tokenizer(folder: &Path) {
    let mut pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"].map(str::to_owned).to_vec();
    pieces.extend(('a'..='z').map(String::from));
    pieces.extend(('a'..='z').map(|letter| format!("##{letter}")));
    assert_eq!(pieces.len(), VOCABULARY);
    let vocabulary: serde_json::Map<String, Value> =
        pieces.iter().enumerate().map(|(id, piece)| (piece.clone(), json!(id))).collect();
    let special = |id: usize| json!({ "id": pieces[id], "ids": [id], "tokens": [pieces[id]] });
    let template = json!([{ "SpecialToken": { "id": "[CLS]", "type_id": 0 } },
                          { "Sequence": { "id": "A", "type_id": 0 } },
                          { "SpecialToken": { "id": "[SEP]", "type_id": 0 } }]);
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": { "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                        "strip_accents": null, "lowercase": true },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": { "type": "TemplateProcessing", "single": template, "pair": template,
                            "special_tokens": { "[CLS]": special(2), "[SEP]": special(3) } },
        "decoder": null,
        "model": { "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                   "max_input_chars_per_word": 100, "vocab": vocabulary },
    });
    std::fs::write(folder.join("tokenizer.json"), file.to_string()).unwrap();
}
