//! Tiny language models as GGUF files: several architectures, types of weights and tokenizers.

use polaris_gguf::{TensorType, quantize};

use crate::gguf::{File, I32, Tensor, Value};

/// What a tiny model is like.
#[derive(Debug, Clone, Copy)]
pub struct Decoder {
    pub name: &'static str,
    architecture: &'static str,
    ty: TensorType,
    experts: usize,
    /// SentencePiece instead of byte-pair encoding.
    spm: bool,
}

pub const WIDTH: usize = 64;
const HEADS: usize = 4;
const KEY_HEADS: usize = 2;
const HIDDEN: usize = 96;
pub const LAYERS: usize = 2;
pub const WORDS: usize = 272;
const CONTEXT: u32 = 128;

/// All of them.
pub const ALL: [Decoder; 8] = [
    Decoder { name: "plain", architecture: "llama", ty: TensorType::F32, experts: 0, spm: false },
    Decoder { name: "spm", architecture: "llama", ty: TensorType::Q8_0, experts: 0, spm: true },
    Decoder { name: "mixture", architecture: "llama", ty: TensorType::F16, experts: 3, spm: false },
    Decoder { name: "biases", architecture: "qwen2", ty: TensorType::Q4_0, experts: 0, spm: false },
    Decoder { name: "norms", architecture: "qwen3", ty: TensorType::BF16, experts: 0, spm: false },
    Decoder {
        name: "windows",
        architecture: "gemma2",
        ty: TensorType::Q4_1,
        experts: 0,
        spm: true,
    },
    Decoder {
        name: "experts",
        architecture: "qwen3moe",
        ty: TensorType::MXFP4,
        experts: 4,
        spm: false,
    },
    Decoder {
        name: "positions",
        architecture: "gpt2",
        ty: TensorType::Q5_0,
        experts: 0,
        spm: false,
    },
];

/// The template of the tiny models: roles and ends of turns as special tokens.
pub const TEMPLATE: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}\
    {% if add_generation_prompt %}<assistant>{% endif %}";

/// Special tokens, behind those of the bytes.
const SPECIALS: [&str; 6] = ["<end>", "<user>", "<assistant>", "<system>", "<s>", "<unk>"];

impl Decoder {
    pub fn file(&self) -> File {
        let mut file = File::new();
        self.describe(&mut file);
        self.add_tokenizer(&mut file);
        for (number, (name, dims)) in self.tensors().into_iter().enumerate() {
            let is_matrix =
                dims.len() > 1 && !name.contains("gate_inp") && !name.contains("position");
            let ty = if is_matrix { self.ty } else { TensorType::F32 };
            let data = quantize(ty, &values(number, &dims)).expect("the weights should be finite");
            let dims = dims.iter().rev().map(|&dim| dim as u64).collect();
            let name = name.into_bytes();
            file.tensors.push(Tensor { name, dims, rank: None, ty: ty.id(), offset: None, data });
        }
        file
    }

    fn describe(&self, file: &mut File) {
        let name = self.architecture;
        file.set("general.architecture", Value::text(name));
        file.set("general.name", Value::text("tiny"));
        for (key, value) in [
            ("block_count", LAYERS as u32),
            ("embedding_length", WIDTH as u32),
            ("context_length", CONTEXT),
            ("feed_forward_length", HIDDEN as u32),
            ("attention.head_count", HEADS as u32),
            ("attention.head_count_kv", self.key_heads() as u32),
        ] {
            file.set(&format!("{name}.{key}"), Value::u32(value));
        }
        let norm = if name == "gpt2" { "layer_norm_epsilon" } else { "layer_norm_rms_epsilon" };
        file.set(&format!("{name}.attention.{norm}"), Value::f32(1e-5));
        if name == "gemma2" {
            file.set("gemma2.attention.sliding_window", Value::u32(8));
        }
        if self.experts > 0 {
            file.set(&format!("{name}.expert_count"), Value::u32(self.experts as u32));
            file.set(&format!("{name}.expert_used_count"), Value::u32(2));
        }
    }

    fn key_heads(&self) -> usize {
        if self.architecture == "gpt2" { HEADS } else { KEY_HEADS }
    }

    fn add_tokenizer(&self, file: &mut File) {
        let mut tokens: Vec<String> = (0..=255u8).map(|byte| self.spelled(byte)).collect();
        tokens.extend(SPECIALS.map(str::to_owned));
        tokens.extend((tokens.len()..WORDS).map(|id| format!("<unused{id}>")));
        let kind = |id: usize| match id {
            0..256 if self.spm => 6i32,
            0..256 => 1,
            261 => 2,
            _ => 3,
        };
        file.set("tokenizer.ggml.tokens", Value::texts(&tokens));
        let kinds = (0..WORDS).map(|id| kind(id).to_le_bytes());
        file.set("tokenizer.ggml.token_type", Value::numbers(I32, kinds));
        match self.spm {
            true => {
                file.set("tokenizer.ggml.model", Value::text("llama"));
                let scores = (0..WORDS).map(|id| (-(id as f32)).to_le_bytes());
                file.set("tokenizer.ggml.scores", Value::numbers(crate::gguf::F32, scores));
                file.set("tokenizer.ggml.bos_token_id", Value::u32(260));
                file.set("tokenizer.ggml.unknown_token_id", Value::u32(261));
            }
            false => {
                file.set("tokenizer.ggml.model", Value::text("gpt2"));
                file.set("tokenizer.ggml.pre", Value::text("gpt-2"));
                file.set("tokenizer.ggml.merges", Value::texts(&["a b", "ab c", "t h"]));
                // What the merges make has to be there.
                for (id, text) in [(262, "ab"), (263, "abc"), (264, "th")] {
                    tokens[id] = text.to_owned();
                }
                file.set("tokenizer.ggml.tokens", Value::texts(&tokens));
            }
        }
        file.set("tokenizer.ggml.eos_token_id", Value::u32(256));
        file.set("tokenizer.ggml.add_bos_token", Value::bool(self.spm));
        file.set("tokenizer.chat_template", Value::text(TEMPLATE));
    }

    /// A byte as a token: as GPT-2 writes it, or as SentencePiece does.
    fn spelled(&self, byte: u8) -> String {
        if self.spm {
            return format!("<0x{byte:02X}>");
        }
        let is_shown = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..);
        match is_shown(byte) {
            true => char::from(byte).to_string(),
            false => {
                let before = (0..byte).filter(|&other| !is_shown(other)).count() as u32;
                char::from_u32(256 + before).unwrap_or('?').to_string()
            }
        }
    }

    /// Names and shapes, outermost first.
    fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let is_gpt2 = self.architecture == "gpt2";
        let (heads, key_heads) = (HEADS, self.key_heads());
        let size = WIDTH / heads;
        let mut all = vec![
            ("token_embd.weight".to_owned(), vec![WORDS, WIDTH]),
            ("output_norm.weight".to_owned(), vec![WIDTH]),
            ("output.weight".to_owned(), vec![WORDS, WIDTH]),
        ];
        if is_gpt2 {
            all.push(("output_norm.bias".to_owned(), vec![WIDTH]));
            all.push(("position_embd.weight".to_owned(), vec![CONTEXT as usize, WIDTH]));
        }
        for layer in 0..LAYERS {
            let mut add = |name: &str, dims: &[usize]| {
                all.push((format!("blk.{layer}.{name}"), dims.to_vec()));
            };
            add("attn_norm.weight", &[WIDTH]);
            add("ffn_norm.weight", &[WIDTH]);
            add("attn_output.weight", &[WIDTH, WIDTH]);
            if is_gpt2 {
                add("attn_norm.bias", &[WIDTH]);
                add("ffn_norm.bias", &[WIDTH]);
                add("attn_qkv.weight", &[3 * WIDTH, WIDTH]);
                add("attn_qkv.bias", &[3 * WIDTH]);
                add("ffn_up.weight", &[HIDDEN, WIDTH]);
                add("ffn_down.weight", &[WIDTH, HIDDEN]);
                continue;
            }
            for (part, heads) in [("q", heads), ("k", key_heads), ("v", key_heads)] {
                add(&format!("attn_{part}.weight"), &[heads * size, WIDTH]);
                if self.architecture == "qwen2" {
                    add(&format!("attn_{part}.bias"), &[heads * size]);
                }
            }
            if self.architecture.starts_with("qwen3") {
                add("attn_q_norm.weight", &[size]);
                add("attn_k_norm.weight", &[size]);
            }
            if self.architecture == "gemma2" {
                add("post_attention_norm.weight", &[WIDTH]);
                add("post_ffw_norm.weight", &[WIDTH]);
            }
            match self.experts {
                0 => {
                    add("ffn_gate.weight", &[HIDDEN, WIDTH]);
                    add("ffn_up.weight", &[HIDDEN, WIDTH]);
                    add("ffn_down.weight", &[WIDTH, HIDDEN]);
                }
                experts => {
                    add("ffn_gate_inp.weight", &[experts, WIDTH]);
                    add("ffn_gate_exps.weight", &[experts, HIDDEN, WIDTH]);
                    add("ffn_up_exps.weight", &[experts, HIDDEN, WIDTH]);
                    add("ffn_down_exps.weight", &[experts, WIDTH, HIDDEN]);
                }
            }
        }
        all
    }
}

/// Weights: norms around 1, matrices such that activations keep about their size.
fn values(number: usize, dims: &[usize]) -> Vec<f32> {
    let middle = if dims.len() == 1 { 1.0 } else { 0.0 };
    let count: usize = dims.iter().product();
    (0..count)
        .map(|i| middle + ((i * 7919 + number * 131 + 13) % 101) as f32 / 500.0 - 0.1)
        .collect()
}

/// A file cut into two of the same model: everything but the second half of the tensors is in the first.
pub fn split(file: &File) -> [File; 2] {
    let tensors = file.tensors.len();
    let mut parts = [file.clone(), File::new()];
    parts[1].tensors = parts[0].tensors.split_off(tensors / 2);
    for (number, part) in parts.iter_mut().enumerate() {
        let u16 = |value: u16| Value { ty: 2, bytes: value.to_le_bytes().into() };
        part.set("split.no", u16(number as u16));
        part.set("split.count", u16(2));
        let count = (tensors as i32).to_le_bytes();
        part.set("split.tensors.count", Value { ty: I32, bytes: count.into() });
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn tiny_models_are_files_that_are_read() {
        for decoder in ALL {
            let gguf = polaris_gguf::Gguf::from_bytes(decoder.file().bytes().into())
                .unwrap_or_else(|error| panic!("{}: {error}", decoder.name));
            assert_eq!(gguf.tensor("token_embd.weight").unwrap().shape().dims(), [WORDS, WIDTH]);
            let parts = split(&decoder.file()).map(|part| part.bytes());
            let read = |path: &Path| -> std::io::Result<bytes::Bytes> {
                let second = path.to_string_lossy().contains("00002-of");
                Ok(parts[usize::from(second)].clone().into())
            };
            let whole = polaris_gguf::Gguf::open(Path::new("m-00001-of-00002.gguf"), read).unwrap();
            assert_eq!((whole.parts(), whole.tensor_count()), (2, gguf.tensor_count()));
        }
    }
}
