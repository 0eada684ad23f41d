//! Latent attention against its definition, in which keys and values of all heads are expanded; with matrices apart, as
//! files of today have them, and together.

use std::collections::BTreeMap;

use polaris_gguf::{TensorType, Writer, dequantize, quantize};
use polaris_llm::{CacheType, Engine, EngineOptions, LoadOptions, Model, Precision, Wanted};

use crate::common::devices;
use crate::reference::distance;
use crate::tiny::{source, values};

const WIDTH: usize = 64;
const HEADS: usize = 3;
const PLAIN: usize = 64;
const ROTATED: usize = 32;
const KEY: usize = PLAIN + ROTATED;
const VALUE: usize = 32;
const RANK: usize = 32;
const QUERY_RANK: usize = 64;
const HIDDEN: usize = 96;
const LAYERS: usize = 2;
const WORDS: usize = 50;

pub type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// How a file has its matrices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Form {
    Apart,
    Together,
}

/// Random tensors, of which matrices are what their type can hold.
pub fn tensors(ty: TensorType, compresses_queries: bool) -> Tensors {
    let mut shapes = vec![
        ("token_embd.weight".to_owned(), vec![WORDS, WIDTH]),
        ("output_norm.weight".to_owned(), vec![WIDTH]),
    ];
    for layer in 0..LAYERS {
        let mut add = |name: &str, dims: &[usize]| {
            shapes.push((format!("blk.{layer}.{name}.weight"), dims.to_vec()));
        };
        add("attn_norm", &[WIDTH]);
        add("ffn_norm", &[WIDTH]);
        match compresses_queries {
            true => {
                add("attn_q_a", &[QUERY_RANK, WIDTH]);
                add("attn_q_a_norm", &[QUERY_RANK]);
                add("attn_q_b", &[HEADS * KEY, QUERY_RANK]);
            }
            false => add("attn_q", &[HEADS * KEY, WIDTH]),
        }
        add("attn_kv_a_mqa", &[RANK + ROTATED, WIDTH]);
        add("attn_kv_a_norm", &[RANK]);
        add("attn_kv_b", &[HEADS * (PLAIN + VALUE), RANK]);
        add("attn_output", &[WIDTH, HEADS * VALUE]);
        add("ffn_gate", &[HIDDEN, WIDTH]);
        add("ffn_up", &[HIDDEN, WIDTH]);
        add("ffn_down", &[WIDTH, HIDDEN]);
    }
    let tensor = |(seed, (name, dims)): (usize, (String, Vec<usize>))| {
        let mut elements = values(seed as u64, &dims);
        if dims.len() == 2 {
            elements = dequantize(ty, &quantize(ty, &elements).unwrap()).unwrap();
        }
        (name, (dims, elements))
    };
    shapes.into_iter().enumerate().map(tensor).collect()
}

/// The bytes of a file with these tensors.
pub fn file(tensors: &Tensors, ty: TensorType, form: Form) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.set("general.architecture", "deepseek2").unwrap();
    for (key, value) in [
        ("block_count", LAYERS),
        ("embedding_length", WIDTH),
        ("context_length", 64),
        ("feed_forward_length", HIDDEN),
        ("attention.head_count", HEADS),
        ("attention.head_count_kv", 1),
        ("attention.kv_lora_rank", RANK),
        ("rope.dimension_count", ROTATED),
        ("leading_dense_block_count", LAYERS),
    ] {
        writer.set(&format!("deepseek2.{key}"), value as u32).unwrap();
    }
    let sizes: [(&str, usize); 4] = match form {
        Form::Together => {
            [("key_length", KEY), ("value_length", VALUE), ("q_lora_rank", 0), ("unused", 0)]
        }
        Form::Apart => [
            ("key_length", RANK + ROTATED),
            ("value_length", RANK),
            ("key_length_mla", KEY),
            ("value_length_mla", VALUE),
        ],
    };
    for (key, value) in sizes {
        writer.set(&format!("deepseek2.attention.{key}"), value as u32).unwrap();
    }
    writer.set("deepseek2.attention.layer_norm_rms_epsilon", 1e-5f32).unwrap();
    let mut add = |name: &str, dims: &[usize], ty: TensorType, elements: &[f32]| {
        writer.tensor(name, dims, ty, quantize(ty, elements).unwrap()).unwrap();
    };
    for (name, (dims, elements)) in tensors {
        if form == Form::Apart && name.contains("attn_kv_b") {
            let heads = elements.chunks(RANK * (PLAIN + VALUE));
            let transposed = |head: &[f32]| -> Vec<f32> {
                (0..RANK * PLAIN).map(|at| head[at % PLAIN * RANK + at / PLAIN]).collect()
            };
            let keys: Vec<f32> = heads.clone().flat_map(transposed).collect();
            let values: Vec<f32> = heads.flat_map(|head| head[RANK * PLAIN..].to_vec()).collect();
            // Transposed, what a type of blocks holds is no longer exact.
            let plain = TensorType::F32;
            add(&name.replace("attn_kv_b", "attn_k_b"), &[HEADS, RANK, PLAIN], plain, &keys);
            add(&name.replace("attn_kv_b", "attn_v_b"), &[HEADS, VALUE, RANK], ty, &values);
        } else {
            let ty = if dims.len() == 2 { ty } else { TensorType::F32 };
            add(name, dims, ty, elements);
        }
    }
    writer.into_bytes().unwrap()
}

struct Reference<'a>(&'a Tensors);

impl Reference<'_> {
    fn times(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let rows = self.0[name].1.chunks(x.len());
        rows.map(|row| row.iter().zip(x).map(|(&a, b)| f64::from(a) * b).sum()).collect()
    }

    fn norm(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let root = (mean + f64::from(1e-5f32)).sqrt();
        x.iter().zip(&self.0[name].1).map(|(x, &w)| x / root * f64::from(w)).collect()
    }

    fn logits(&self, tokens: &[u32]) -> Vec<f64> {
        let row = |&token: &u32| {
            self.0["token_embd.weight"].1[token as usize * WIDTH..][..WIDTH].to_vec()
        };
        let mut stream: Vec<Vec<f64>> =
            tokens.iter().map(row).map(|row| row.into_iter().map(f64::from).collect()).collect();
        for layer in 0..LAYERS {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            let mut cached: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
            for (position, x) in stream.iter_mut().enumerate() {
                let normed = self.norm(&name("attn_norm"), x);
                let q = match self.0.contains_key(&name("attn_q")) {
                    true => self.times(&name("attn_q"), &normed),
                    false => {
                        let low = self.times(&name("attn_q_a"), &normed);
                        self.times(&name("attn_q_b"), &self.norm(&name("attn_q_a_norm"), &low))
                    }
                };
                let both = self.times(&name("attn_kv_a_mqa"), &normed);
                let vector = self.norm(&name("attn_kv_a_norm"), &both[..RANK]);
                let mut shared = both[RANK..].to_vec();
                rotate(&mut shared, position);
                cached.push((self.times(&name("attn_kv_b"), &vector), shared));
                let mut joined = Vec::new();
                for head in 0..HEADS {
                    let mut query = q[head * KEY..][..KEY].to_vec();
                    rotate(&mut query[PLAIN..], position);
                    let of =
                        |keys: &[f64]| keys[head * (PLAIN + VALUE)..][..PLAIN + VALUE].to_vec();
                    let score = |(expanded, shared): &(Vec<f64>, Vec<f64>)| {
                        let key = [&of(expanded)[..PLAIN], shared].concat();
                        let dot: f64 = query.iter().zip(&key).map(|(a, b)| a * b).sum();
                        (dot / (KEY as f64).sqrt()).exp()
                    };
                    let weights: Vec<f64> = cached.iter().map(score).collect();
                    let total: f64 = weights.iter().sum();
                    let mut sum = vec![0.0; VALUE];
                    for (weight, (expanded, _)) in weights.iter().zip(&cached) {
                        let value = of(expanded);
                        sum.iter_mut()
                            .zip(&value[PLAIN..])
                            .for_each(|(s, v)| *s += weight / total * v);
                    }
                    joined.extend(sum);
                }
                let attended = self.times(&name("attn_output"), &joined);
                x.iter_mut().zip(&attended).for_each(|(x, a)| *x += a);
                let input = self.norm(&name("ffn_norm"), x);
                let gate = self.times(&name("ffn_gate"), &input);
                let up = self.times(&name("ffn_up"), &input);
                let hidden: Vec<f64> =
                    gate.iter().zip(&up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
                let down = self.times(&name("ffn_down"), &hidden);
                x.iter_mut().zip(&down).for_each(|(x, d)| *x += d);
            }
        }
        let logits =
            |x: &Vec<f64>| self.times("token_embd.weight", &self.norm("output_norm.weight", x));
        stream.iter().flat_map(logits).collect()
    }
}

fn rotate(x: &mut [f64], position: usize) {
    for pair in 0..ROTATED / 2 {
        let angle = position as f64 * 1e4f64.powf(-2.0 * pair as f64 / ROTATED as f64);
        let (a, b) = (x[2 * pair], x[2 * pair + 1]);
        x[2 * pair] = a * angle.cos() - b * angle.sin();
        x[2 * pair + 1] = b * angle.cos() + a * angle.sin();
    }
}

#[test]
fn latent_attention_is_its_definition() {
    let tokens: Vec<u32> = (0..23).map(|i| (i * 17 + i * i * 5) % WORDS as u32).collect();
    for (ty, compresses_queries) in
        [(TensorType::F32, true), (TensorType::F32, false), (TensorType::Q8_0, true)]
    {
        let tensors = tensors(ty, compresses_queries);
        let expected = Reference(&tensors).logits(&tokens);
        for form in [Form::Apart, Form::Together] {
            let source = source(file(&tensors, ty, form));
            for device in devices() {
                let model =
                    Model::load(&source, &device, &LoadOptions::default(), |_| Ok(())).unwrap();
                // One vector for all heads, and the part that is rotated.
                let bytes = (LAYERS * (RANK + ROTATED) * 2) as u64;
                assert_eq!(model.config().cache_bytes(CacheType::F16), bytes);
                let options = EngineOptions {
                    context: 64,
                    batch: 7,
                    cache: CacheType::F32,
                    precision: Precision::Full,
                    ..EngineOptions::default()
                };
                let mut engine = Engine::new(&model, &options).unwrap();
                let mut found =
                    engine.feed(0, &tokens[..18], Wanted::All, &|| false).unwrap().to_vec();
                for &token in &tokens[18..] {
                    found.extend(engine.feed(0, &[token], Wanted::Last, &|| false).unwrap());
                }
                let largest = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
                let worst = found.iter().zip(&expected).map(|(&a, b)| (f64::from(a) - b).abs());
                let error = worst.fold(0.0, f64::max) / largest;
                // Keys of blocks are transposed in half precision.
                let limit = if ty == TensorType::F32 { 2e-5 } else { 1e-3 };
                assert!(error < limit, "{ty} {form:?} on {}: {error:e}", device.id());
            }
        }
    }
}

#[test]
fn wrong_shapes_of_latent_attention_are_named() {
    let tensors = tensors(TensorType::F32, true);
    let device = devices()[0].clone();
    for name in tensors.keys().filter(|name| name.starts_with("blk.1.")) {
        for removed in [true, false] {
            let mut changed = source(file(&tensors, TensorType::F32, Form::Together));
            match removed {
                true => drop(changed.tensors.remove(name)),
                false => changed.tensors.get_mut(name).unwrap().dims.push(1),
            }
            let result = Model::load(&changed, &device, &LoadOptions::default(), |_| Ok(()))
                .and_then(|model| Engine::new(&model, &EngineOptions::default()))
                .and_then(|mut engine| {
                    engine.feed(0, &[1, 2, 3], Wanted::Last, &|| false).map(drop)
                });
            match result {
                Ok(()) => assert!(!removed, "{name}"),
                Err(error) => {
                    let error = error.to_string();
                    // Without the matrices together, those apart are asked for.
                    let part = name.replace("attn_kv_b", "attn_").replace("attn_q_a.", "attn_q.");
                    let short = part.trim_end_matches(".weight");
                    assert!(error.contains(name) || error.contains(short), "{name}: {error}");
                }
            }
        }
    }
}

/// Values are the first elements of keys, in the same blocks. Limits are those of [`distance`].
#[test]
fn latent_vectors_are_cached_in_blocks() {
    let tokens: Vec<u32> = (0..23).map(|i| (i * 17 + i * i * 5) % WORDS as u32).collect();
    let tensors = tensors(TensorType::F32, true);
    let expected = Reference(&tensors).logits(&tokens);
    let source = source(file(&tensors, TensorType::F32, Form::Apart));
    for device in devices() {
        let model = Model::load(&source, &device, &LoadOptions::default(), |_| Ok(())).unwrap();
        for (cache, limit) in [(CacheType::Q8_0, 0.03), (CacheType::Q4_0, 0.4)] {
            let blocks = LAYERS * (RANK + ROTATED) / 32;
            let bytes = blocks * if cache == CacheType::Q8_0 { 34 } else { 18 };
            assert_eq!(model.config().cache_bytes(cache), bytes as u64);
            let (batch, precision) = (7, Precision::Full);
            let options =
                EngineOptions { context: 64, batch, cache, precision, ..EngineOptions::default() };
            let mut engine = Engine::new(&model, &options).unwrap();
            let mut found = engine.feed(0, &tokens[..18], Wanted::All, &|| false).unwrap().to_vec();
            for &token in &tokens[18..] {
                found.extend(engine.feed(0, &[token], Wanted::Last, &|| false).unwrap());
            }
            let error = distance(&found, &expected);
            assert!(error < limit, "{cache} on {}: {error:e}", device.id());
        }
    }
}
