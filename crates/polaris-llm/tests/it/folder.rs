//! Small models as folders of Hugging Face: the weights of [`Tiny`] under other names.

use std::collections::BTreeMap;
use std::path::Path;

use polaris_gguf::{TensorType, quantize};
use polaris_llm::Source;
use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use serde_json::{Value, json};

use super::{
    CONTEXT, HEADS, HIDDEN, KEY_HEADS, LAYERS, SIZE, TEMPLATE, Tiny, WIDTH, WINDOW, WORDS, tokens,
};

/// A tensor of a file.
pub type Stored = (Dtype, Vec<usize>, Vec<u8>);

/// GGUF's names and those of Hugging Face.
const NAMES: &[(&str, &str)] = &[
    ("token_embd", "model.embed_tokens"),
    ("output_norm", "model.norm"),
    ("output", "lm_head"),
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
    ("ffn_gate_inp", "block_sparse_moe.gate"),
    ("ffn_gate_exps", "block_sparse_moe.experts.*.w1"),
    ("ffn_up_exps", "block_sparse_moe.experts.*.w3"),
    ("ffn_down_exps", "block_sparse_moe.experts.*.w2"),
];
/// What Gemma 2 calls them.
const GEMMA2: &[(&str, &str)] = &[
    ("ffn_norm", "pre_feedforward_layernorm"),
    ("post_attention_norm", "post_attention_layernorm"),
    ("post_ffw_norm", "post_feedforward_layernorm"),
];

fn name_of(tiny: &Tiny, name: &str) -> String {
    let (layer, part) = match name.strip_prefix("blk.") {
        Some(rest) => {
            let (number, part) = rest.split_once('.').unwrap();
            (format!("model.layers.{number}."), part)
        }
        None => (String::new(), name),
    };
    let module = part.strip_suffix(".weight").unwrap();
    let gemma = GEMMA2.iter().filter(|_| tiny.architecture == "gemma2");
    let (_, theirs) = gemma.chain(NAMES).find(|(ours, _)| *ours == module).unwrap();
    format!("{layer}{theirs}.weight")
}

/// Rows of queries and keys of Llama, whose pairs GGUF has beside one another, as halves.
fn halves(dims: &[usize], bytes: &[u8]) -> Vec<u8> {
    let rows: Vec<&[u8]> = bytes.chunks_exact(bytes.len() / dims[0]).collect();
    let head = |rows: &[&[u8]]| -> Vec<u8> {
        let order = (0..SIZE).step_by(2).chain((1..SIZE).step_by(2));
        order.flat_map(|row| rows[row].to_vec()).collect()
    };
    rows.chunks_exact(SIZE).flat_map(head).collect()
}

/// The tensors of a small model as Hugging Face has them.
pub fn tensors(tiny: &Tiny) -> BTreeMap<String, Stored> {
    let dtype = |ty| match ty {
        TensorType::F32 => Dtype::F32,
        TensorType::F16 => Dtype::F16,
        TensorType::BF16 => Dtype::BF16,
        ty => panic!("{ty}"),
    };
    let mut all = BTreeMap::new();
    for (name, tensor) in tiny.source().tensors {
        let mut bytes = tensor.parts.concat();
        let (dtype, theirs) = (dtype(tensor.ty), name_of(tiny, &name));
        if tiny.architecture == "llama" && (name.contains("attn_q") || name.contains("attn_k")) {
            bytes = halves(&tensor.dims, &bytes);
        }
        if tiny.architecture == "gemma2" && name.contains("norm") {
            let mut values = polaris_gguf::dequantize(tensor.ty, &bytes).unwrap();
            values.iter_mut().for_each(|value| *value -= 1.0);
            bytes = quantize(tensor.ty, &values).unwrap();
        }
        if tiny.architecture == "gemma2" && name == "output.weight" {
            continue;
        }
        match theirs.contains('*') {
            false => drop(all.insert(theirs, (dtype, tensor.dims, bytes))),
            true => {
                let each = bytes.chunks_exact(bytes.len() / tensor.dims[0]);
                for (number, bytes) in each.enumerate() {
                    let name = theirs.replace('*', &number.to_string());
                    all.insert(name, (dtype, tensor.dims[1..].to_vec(), bytes.to_vec()));
                }
            }
        }
    }
    all
}

/// The `config.json` of a small model.
pub fn config(tiny: &Tiny) -> Value {
    let mut config = json!({
        "model_type": if tiny.experts > 0 { "mixtral" } else { tiny.architecture },
        "num_hidden_layers": LAYERS, "hidden_size": WIDTH, "max_position_embeddings": CONTEXT,
        "intermediate_size": HIDDEN, "num_attention_heads": HEADS, "num_key_value_heads": KEY_HEADS,
        "head_dim": SIZE, "rms_norm_eps": 1e-5, "rope_theta": 1e4, "vocab_size": WORDS,
        "eos_token_id": 256, "tie_word_embeddings": tiny.architecture == "gemma2",
    });
    if tiny.experts > 0 {
        config["num_local_experts"] = tiny.experts.into();
        config["num_experts_per_tok"] = 2.into();
    }
    if tiny.architecture == "gemma2" {
        config["sliding_window"] = WINDOW.into();
        config["query_pre_attn_scalar"] = SIZE.into();
    }
    config
}

/// Writes a file of tensors.
pub fn write_tensors(path: &Path, tensors: &BTreeMap<String, Stored>) {
    let view = |(dtype, dims, bytes): &'_ Stored| {
        TensorView::new(*dtype, dims.clone(), Vec::leak(bytes.clone())).unwrap()
    };
    let views = tensors.iter().map(|(name, tensor)| (name.clone(), view(tensor)));
    serialize_to_file(views, None, path).unwrap();
}

/// Writes a model in so many files.
pub fn write(folder: &Path, tiny: &Tiny, files: usize) {
    std::fs::write(folder.join("config.json"), config(tiny).to_string()).unwrap();
    let tensors = tensors(tiny);
    if files == 1 {
        return write_tensors(&folder.join("model.safetensors"), &tensors);
    }
    let mut shards = vec![BTreeMap::new(); files];
    let mut map = BTreeMap::new();
    for (place, (name, tensor)) in tensors.into_iter().enumerate() {
        map.insert(name.clone(), shard_name(place % files, files));
        shards[place % files].insert(name, tensor);
    }
    for (number, shard) in shards.iter().enumerate() {
        write_tensors(&folder.join(shard_name(number, files)), shard);
    }
    let index = json!({ "metadata": { "total_size": 1 }, "weight_map": map });
    std::fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
}

pub fn shard_name(number: usize, of: usize) -> String {
    format!("model-{:05}-of-{of:05}.safetensors", number + 1)
}

/// Writes the tokenizer of the small models, with its template in a list.
pub fn write_tokenizer(folder: &Path) {
    let tokens = tokens();
    let vocabulary: serde_json::Map<String, Value> =
        tokens.iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
    let added = |(id, token): (usize, &String)| {
        json!({ "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true })
    };
    let added: Vec<Value> = tokens.iter().enumerate().skip(256).map(added).collect();
    let byte_level = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true });
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": byte_level, "post_processor": null, "decoder": byte_level,
        "model": { "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                   "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                   "ignore_merges": false, "vocab": vocabulary, "merges": [] },
    });
    std::fs::write(folder.join("tokenizer.json"), json.to_string()).unwrap();
    let templates = json!([{ "name": "tool_use", "template": "x" }, { "name": "default", "template": TEMPLATE }]);
    let settings = json!({ "chat_template": templates, "eos_token": "<end>" });
    std::fs::write(folder.join("tokenizer_config.json"), settings.to_string()).unwrap();
}

/// Opens a small model from a folder that is written for it.
pub fn open(tiny: &Tiny, files: usize) -> (tempfile::TempDir, Source) {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), tiny, files);
    let source = Source::open(folder.path()).unwrap();
    (folder, source)
}
