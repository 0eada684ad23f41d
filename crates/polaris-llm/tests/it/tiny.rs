//! Small models of random weights, as GGUF files in memory.

#[path = "folder.rs"]
#[allow(dead_code, reason = "not every binary of tests writes folders")]
pub mod folder;

use bytes::Bytes;
use polaris_core::random::SplitMix64;
use polaris_gguf::{Gguf, TensorType, Writer, quantize};
use polaris_llm::{LoadOptions, Model, Source};
use polaris_runtime::DeviceRef;

/// What a small model is like.
#[derive(Debug, Clone, Copy)]
pub struct Tiny {
    pub architecture: &'static str,
    /// The type of its matrices.
    pub ty: TensorType,
    pub experts: usize,
    /// The type of the matrices of values, if it is another one.
    pub values: Option<TensorType>,
}

pub const WIDTH: usize = 256;
pub const HEADS: usize = 4;
pub const KEY_HEADS: usize = 2;
pub const SIZE: usize = 64;
pub const HIDDEN: usize = 256;
pub const LAYERS: usize = 3;
pub const WORDS: usize = 300;
pub const CONTEXT: usize = 64;
pub const WINDOW: usize = 8;

/// The template of the small models: roles and ends of turns as special tokens.
pub const TEMPLATE: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}\
    {% if add_generation_prompt %}<assistant>{% endif %}";

impl Tiny {
    pub const LLAMA: Self =
        Self { architecture: "llama", ty: TensorType::F32, experts: 0, values: None };

    /// Names, shapes and whether they are stored in the type of matrices.
    fn tensors(&self) -> Vec<(String, Vec<usize>, bool)> {
        let mut all = vec![
            ("token_embd.weight".to_owned(), vec![WORDS, WIDTH], true),
            ("output_norm.weight".to_owned(), vec![WIDTH], false),
            ("output.weight".to_owned(), vec![WORDS, WIDTH], true),
        ];
        for layer in 0..LAYERS {
            let mut add = |name: &str, dims: &[usize]| {
                let is_matrix = dims.len() > 1 && !name.contains("gate_inp");
                all.push((format!("blk.{layer}.{name}"), dims.to_vec(), is_matrix));
            };
            add("attn_norm.weight", &[WIDTH]);
            add("attn_q.weight", &[HEADS * SIZE, WIDTH]);
            add("attn_k.weight", &[KEY_HEADS * SIZE, WIDTH]);
            add("attn_v.weight", &[KEY_HEADS * SIZE, WIDTH]);
            add("attn_output.weight", &[WIDTH, HEADS * SIZE]);
            add("ffn_norm.weight", &[WIDTH]);
            if self.architecture == "qwen3" {
                add("attn_q_norm.weight", &[SIZE]);
                add("attn_k_norm.weight", &[SIZE]);
            }
            if self.architecture == "gemma2" {
                add("post_attention_norm.weight", &[WIDTH]);
                add("post_ffw_norm.weight", &[WIDTH]);
            }
            if self.experts > 0 {
                add("ffn_gate_inp.weight", &[self.experts, WIDTH]);
                add("ffn_gate_exps.weight", &[self.experts, HIDDEN, WIDTH]);
                add("ffn_up_exps.weight", &[self.experts, HIDDEN, WIDTH]);
                add("ffn_down_exps.weight", &[self.experts, WIDTH, HIDDEN]);
            } else {
                add("ffn_gate.weight", &[HIDDEN, WIDTH]);
                add("ffn_up.weight", &[HIDDEN, WIDTH]);
                add("ffn_down.weight", &[WIDTH, HIDDEN]);
            }
        }
        all
    }

    /// The bytes of a file.
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes_with(&[], self.architecture, TEMPLATE)
    }

    /// The bytes of a file with other values for some keys, another name of its architecture, or another template.
    pub fn bytes_with(&self, other: &[(&str, u32)], named: &str, template: &str) -> Vec<u8> {
        let mut writer = Writer::new();
        let name = self.architecture;
        for (key, value) in other {
            writer.set(key, *value).unwrap();
        }
        let mut set = |key: &str, value: u32| {
            let key = format!("{name}.{key}");
            if other.iter().all(|(changed, _)| *changed != key) {
                writer.set(&key, value).unwrap();
            }
        };
        set("block_count", LAYERS as u32);
        set("embedding_length", WIDTH as u32);
        set("context_length", CONTEXT as u32);
        set("feed_forward_length", HIDDEN as u32);
        set("attention.head_count", HEADS as u32);
        set("attention.head_count_kv", KEY_HEADS as u32);
        set("attention.key_length", SIZE as u32);
        set("attention.value_length", SIZE as u32);
        if name == "gemma2" {
            set("attention.sliding_window", WINDOW as u32);
        }
        if self.experts > 0 {
            set("expert_count", self.experts as u32);
            set("expert_used_count", 2);
        }
        writer.set("general.architecture", named).unwrap();
        writer.set("general.name", "tiny").unwrap();
        writer.set(&format!("{name}.attention.layer_norm_rms_epsilon"), 1e-5f32).unwrap();
        let tokens: Vec<String> = tokens();
        let kinds: Vec<i32> = (0..WORDS).map(|id| if id < 256 { 1 } else { 3 }).collect();
        let names: Vec<&str> = tokens.iter().map(String::as_str).collect();
        writer.set("tokenizer.ggml.model", "gpt2").unwrap();
        writer.set("tokenizer.ggml.pre", "gpt-2").unwrap();
        writer.set("tokenizer.ggml.tokens", &names[..]).unwrap();
        writer.set("tokenizer.ggml.token_type", &kinds[..]).unwrap();
        writer.set("tokenizer.ggml.merges", &[][..] as &[&str]).unwrap();
        writer.set("tokenizer.ggml.eos_token_id", 256u32).unwrap();
        writer.set("tokenizer.chat_template", template).unwrap();
        for (number, (name, dims, is_matrix)) in self.tensors().into_iter().enumerate() {
            let of_values = self.values.filter(|_| name.contains("attn_v"));
            let ty = if is_matrix { of_values.unwrap_or(self.ty) } else { TensorType::F32 };
            let values = values(number as u64, &dims);
            writer.tensor(&name, &dims, ty, quantize(ty, &values).unwrap()).unwrap();
        }
        writer.into_bytes().unwrap()
    }

    pub fn source(&self) -> Source {
        source(self.bytes())
    }

    pub fn model(&self, device: &DeviceRef) -> Model {
        Model::load(&self.source(), device, &LoadOptions::default(), |_| Ok(())).unwrap()
    }
}

/// A model from the bytes of a file.
pub fn source(bytes: Vec<u8>) -> Source {
    Source::from_gguf(&Gguf::from_bytes(Bytes::from(bytes)).unwrap()).unwrap()
}

/// All bytes as GPT-2 writes them, then special tokens.
pub fn tokens() -> Vec<String> {
    let mut next = 0;
    let mut tokens: Vec<String> = (0..=255u8)
        .map(|byte| {
            let is_shown = matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..);
            let character = match is_shown {
                true => char::from(byte),
                false => {
                    next += 1;
                    char::from_u32(255 + next).unwrap()
                }
            };
            character.to_string()
        })
        .collect();
    tokens.extend(["<end>", "<user>", "<assistant>", "<system>"].map(str::to_owned));
    tokens.extend((tokens.len()..WORDS).map(|id| format!("<unused{id}>")));
    tokens
}

/// Weights: norms around 1, matrices such that activations keep their size.
pub fn values(seed: u64, dims: &[usize]) -> Vec<f32> {
    let mut random = SplitMix64::new(seed);
    let count = dims.iter().product();
    let mut uniform = || random.unit() as f32 * 2.0 - 1.0;
    let scale = match dims {
        [_] => 0.3,
        [.., columns] => (3.0 / *columns as f32).sqrt() * 1.5,
        [] => 1.0,
    };
    let offset = if dims.len() == 1 { 1.0 } else { 0.0 };
    (0..count).map(|_| offset + scale * uniform()).collect()
}
