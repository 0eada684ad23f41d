//! What observers are shown: every matrix that a plan reads, with the rows that it is multiplied with.

use std::collections::BTreeMap;

use polaris_gguf::TensorType;
use polaris_llm::{
    Engine, EngineOptions, Error, LoadOptions, Model, Observation, Observe, Precision, Source,
    Wanted,
};

use crate::common::devices;
use crate::hybrid::{ARCHITECTURES, hybrid};
use crate::latent::{self, Form};
use crate::peers::files;
use crate::tiny::{HIDDEN, LAYERS, Tiny, WIDTH, WORDS, source};

/// What was seen of a tensor.
#[derive(Debug, Default, Clone)]
struct Seen {
    columns: usize,
    matrices: usize,
    rows: Vec<(Vec<f32>, Vec<u32>)>,
}

#[derive(Debug, Default)]
struct All(BTreeMap<String, Seen>);

impl Observe for All {
    fn observe(&mut self, seen: &Observation<'_>) {
        assert!(seen.rows.len().is_multiple_of(seen.columns) && !seen.rows.is_empty());
        let entry = self.0.entry(seen.name.to_owned()).or_default();
        (entry.columns, entry.matrices) = (seen.columns, seen.matrices);
        let rows = seen.pairs().map(|(row, chosen)| (row.to_vec(), chosen.to_vec()));
        entry.rows.extend(rows);
        let rows = seen.rows.len() / seen.columns;
        assert!(seen.chosen.is_empty() == (seen.matrices == 1));
        assert!(seen.chosen.len().is_multiple_of(rows));
    }
}

fn tokens(count: usize, words: usize) -> Vec<u32> {
    (0..count as u32).map(|i| (i * 37 + 11 + i * i * 13) % words as u32).collect()
}

/// What is seen of some tokens, and their logits.
fn observe(source: &Source, tokens: &[u32]) -> (BTreeMap<String, Seen>, Vec<f32>) {
    let device = devices()[0].clone();
    let model = Model::load(source, &device, &LoadOptions::default(), |_| Ok(())).unwrap();
    let options = EngineOptions {
        context: tokens.len(),
        batch: 7,
        precision: Precision::Full,
        ..EngineOptions::default()
    };
    let mut engine = Engine::new(&model, &options).unwrap();
    let mut all = All::default();
    let logits =
        engine.feed_observed(0, tokens, Wanted::All, &mut all, &|| false).unwrap().to_vec();
    (all.0, logits)
}

/// Whether a tensor is a matrix that activations are multiplied with: no embedding, no vector, no norm of heads, no filter
/// along tokens.
fn is_multiplied(name: &str, dims: &[usize], is_tied: bool) -> bool {
    let is_looked_up = name == "token_embd.weight" && !is_tied
        || ["position_embd", "token_types", "per_layer_token_embd"]
            .iter()
            .any(|table| name.starts_with(table));
    let is_matrix = dims.iter().filter(|&&dim| dim > 1).count() > 1 && name.ends_with(".weight");
    is_matrix
        && !is_looked_up
        && !["_norm.", "conv1d", "shortconv.conv."].iter().any(|part| name.contains(part))
}

fn check(what: &str, source: &Source, tokens: &[u32]) {
    let (seen, _) = observe(source, tokens);
    let is_tied = !source.tensors.contains_key("output.weight");
    for (name, tensor) in &source.tensors {
        let Some(seen) = seen.get(name) else {
            assert!(!is_multiplied(name, &tensor.dims, is_tied), "{what}: {name} is not seen");
            continue;
        };
        let (columns, before) = tensor.dims.split_last().unwrap();
        let matrices: usize = before[..before.len().saturating_sub(1)].iter().product();
        assert_eq!((seen.columns, seen.matrices), (*columns, matrices), "{what}: {name}");
        assert!(seen.rows.len() >= tokens.len(), "{what}: {name}");
        for (row, chosen) in &seen.rows {
            assert_eq!(row.len(), *columns, "{what}: {name}");
            assert!(!chosen.is_empty() && chosen.iter().all(|&at| (at as usize) < matrices));
        }
    }
    let unknown = seen.keys().find(|name| !source.tensors.contains_key(*name));
    assert_eq!(unknown, None, "{what}");
}

#[test]
fn every_matrix_is_seen() {
    for architecture in ["llama", "qwen3", "gemma2", "llada"] {
        let mut source = Tiny { architecture, ..Tiny::LLAMA }.source();
        // What no plan reads is not seen.
        if architecture == "gemma2" {
            source.tensors.remove("output.weight");
        }
        check(architecture, &source, &tokens(16, WORDS));
    }
    for ty in [TensorType::F16, TensorType::Q8_0] {
        let tiny = Tiny { ty, experts: 4, ..Tiny::LLAMA };
        check("experts", &tiny.source(), &tokens(16, WORDS));
    }
    for architecture in ARCHITECTURES {
        check(architecture, &hybrid(architecture), &tokens(16, crate::hybrid::WORDS));
    }
    for form in [Form::Apart, Form::Together] {
        for compresses_queries in [true, false] {
            let tensors = latent::tensors(TensorType::F32, compresses_queries);
            let file = source(latent::file(&tensors, TensorType::F32, form));
            check(&format!("{form:?}"), &file, &tokens(16, 50));
        }
    }
}

/// Those of all architectures that llama.cpp's tool writes.
#[test]
fn every_matrix_of_peers_models_is_seen() {
    for path in files("POLARIS_LLAMA_MODELS", "POLARIS_LLAMA_FILTER", "gguf") {
        let device = devices()[0].clone();
        let Ok(source) = Source::open(&path) else { continue };
        let Ok(model) = Model::load(&source, &device, &LoadOptions::default(), |_| Ok(())) else {
            continue;
        };
        check(&path.display().to_string(), &source, &tokens(16, model.vocabulary()));
    }
}

fn matrix(source: &Source, name: &str, number: usize) -> Vec<f32> {
    let tensor = &source.tensors[name];
    let all = polaris_gguf::dequantize(tensor.ty, &tensor.parts.concat()).unwrap();
    let [.., rows, columns] = tensor.dims[..] else { panic!("{name} is no matrix") };
    all[number * rows * columns..][..rows * columns].to_vec()
}

fn product(matrix: &[f32], x: &[f32]) -> Vec<f64> {
    let rows = matrix.chunks(x.len());
    rows.map(|row| row.iter().zip(x).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()).collect()
}

fn assert_near(found: &[f32], expected: &[f64], what: &str) {
    let largest = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    assert_eq!(found.len(), expected.len(), "{what}");
    for (&found, expected) in found.iter().zip(expected) {
        assert!((f64::from(found) - expected).abs() < 2e-5 * largest, "{what}");
    }
}

/// Rows of one matrix follow from those of others, by the definition.
#[test]
fn rows_are_what_matrices_are_multiplied_with() {
    let tokens = tokens(16, WORDS);
    let dense = Tiny::LLAMA.source();
    let (seen, logits) = observe(&dense, &tokens);
    let embedding = matrix(&dense, "token_embd.weight", 0);
    let norm = &dense.tensors["blk.0.attn_norm.weight"];
    let norm = polaris_gguf::dequantize(norm.ty, &norm.parts.concat()).unwrap();
    for (at, &token) in tokens.iter().enumerate() {
        let x = &embedding[token as usize * WIDTH..][..WIDTH];
        let mean = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / WIDTH as f64;
        let root = (mean + f64::from(1e-5f32)).sqrt();
        let normed: Vec<f64> =
            x.iter().zip(&norm).map(|(&x, &w)| f64::from(x) / root * f64::from(w)).collect();
        for name in ["attn_q", "attn_k", "attn_v"] {
            assert_near(&seen[&format!("blk.0.{name}.weight")].rows[at].0, &normed, name);
        }
    }
    let output = matrix(&dense, "output.weight", 0);
    for (logits, (row, chosen)) in logits.chunks(WORDS).zip(&seen["output.weight"].rows) {
        assert_near(logits, &product(&output, row), "logits");
        assert_eq!(chosen, &[0]);
    }
    let sparse = Tiny { experts: 4, ..Tiny::LLAMA }.source();
    let (seen, _) = observe(&sparse, &tokens);
    for layer in 0..LAYERS {
        let name = |part: &str| format!("blk.{layer}.ffn_{part}.weight");
        let of = |part: &str| &seen[&name(part)];
        assert_eq!(of("gate_inp").rows.len(), tokens.len());
        let router = matrix(&sparse, &name("gate_inp"), 0);
        let mut down = of("down_exps").rows.iter();
        for (at, (x, _)) in of("gate_inp").rows.iter().enumerate() {
            let scores = product(&router, x);
            let mut best: Vec<u32> = (0..4).collect();
            best.sort_by(|&a, &b| scores[b as usize].total_cmp(&scores[a as usize]));
            for part in ["gate_exps", "up_exps"] {
                assert_eq!(&of(part).rows[at], &(x.clone(), best[..2].to_vec()));
            }
            for &expert in &best[..2] {
                let times = |part: &str| product(&matrix(&sparse, &name(part), expert as usize), x);
                let pairs = times("gate_exps").into_iter().zip(times("up_exps"));
                let hidden: Vec<f64> = pairs.map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
                let (row, chosen) = down.next().unwrap();
                assert_eq!((row.len(), &chosen[..]), (HIDDEN, &[expert][..]));
                assert_near(row, &hidden, "hidden");
            }
        }
        assert!(down.next().is_none());
    }
}

/// The last layer computes what is wanted alone, and devices that compute several steps at once show nothing.
#[test]
fn only_what_is_computed_is_seen() {
    let tokens = tokens(16, WORDS);
    for device in devices() {
        let model = Tiny::LLAMA.model(&device);
        let options = EngineOptions { batch: 16, ..EngineOptions::default() };
        let mut engine = Engine::new(&model, &options).unwrap();
        let mut all = All::default();
        let result = engine.feed_observed(0, &tokens, Wanted::Last, &mut all, &|| false);
        if device.as_cpu().is_none() {
            assert!(matches!(result, Err(Error::Argument { .. })));
            continue;
        }
        result.unwrap();
        let rows = |name: &str| all.0[name].rows.len();
        assert_eq!(rows("blk.0.ffn_down.weight"), tokens.len());
        assert_eq!(rows(&format!("blk.{}.attn_k.weight", LAYERS - 1)), tokens.len());
        assert_eq!(rows(&format!("blk.{}.ffn_down.weight", LAYERS - 1)), 1);
        assert_eq!(rows("output.weight"), 1);
    }
}
