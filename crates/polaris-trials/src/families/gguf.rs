//! Language models whose bytes, numbers, metadata, tokenizers or tensors are damaged, through every command that takes
//! one.

use anyhow::Result;

use crate::damage::damage;
use crate::decoders::{self, ALL, Decoder};
use crate::gguf::{ARRAY, BOOL, F32, File, STRING, U32, Value};
use crate::judge::Kind;
use crate::process::Call;
use crate::random::{ODD_FLOATS, ODD_INTEGERS, Random, odd_string};
use crate::trial::Trial;

const MODEL: &str = "model.gguf";

pub fn run(trial: &mut Trial<'_>) -> Result<()> {
    trial.may_be_long = true;
    let decoder = *trial.random.pick(&ALL);
    trial.about = decoder.name.to_owned();
    if trial.random.once_in(40) {
        return good(trial, decoder);
    }
    let mut file = decoder.file();
    let mut name = MODEL;
    if trial.random.once_in(8) {
        name = split(trial, &file)?;
    } else {
        let bytes = match trial.random.below(3) {
            0 => {
                let other = trial.random.pick(&ALL).file().bytes();
                // Weights may be any bits; what is before them matters.
                let bytes = file.bytes();
                let header = bytes.len() - file.tensors.iter().map(|t| t.data.len()).sum::<usize>();
                let mut damaged = damage(&bytes[..header], &other, &mut trial.random);
                damaged.extend(&bytes[header..]);
                damaged
            }
            _ => {
                for _ in 0..trial.random.between(1, 3) {
                    damage_field(&mut file, &mut trial.random);
                }
                file.bytes()
            }
        };
        trial.write(MODEL, bytes)?;
    }
    let call = command(trial, name)?;
    trial.run(call)?;
    Ok(())
}

/// A model without damage must work, or the damaged ones would show nothing.
fn good(trial: &mut Trial<'_>, decoder: Decoder) -> Result<()> {
    trial.may_be_long = false;
    trial.write(MODEL, decoder.file().bytes())?;
    let call = command(trial, MODEL)?;
    let ended = trial.run(call)?;
    if !ended.succeeded() && !ended.hung {
        let cause = format!("{}: fails with a good model", decoder.name);
        trial.fault(Kind::Broken, cause, ended.stderr_text());
    }
    Ok(())
}

/// One of the commands that take a model.
fn command(trial: &mut Trial<'_>, name: &str) -> Result<Call> {
    let random = &mut trial.random;
    let json = if random.once_in(3) { " --json" } else { "" };
    let arguments = match random.below(10) {
        0 | 1 => "info model.gguf --mode cpu",
        2 => "info model.gguf --mode cpu -c 100000",
        3 | 4 => "generate model.gguf --mode cpu -n 2 -p abc",
        5 => "generate model.gguf --mode cpu -n 4 -c 16 -p <end>ab --special --truncate --batch 3",
        6 => "tokenize model.gguf the<end>abc --special",
        7 => "perplexity model.gguf text.txt --mode cpu --window 8 --windows 2",
        8 => "plan model.gguf --mode cpu",
        _ => "chat model.gguf --mode cpu -n 2",
    };
    let arguments = arguments.replacen(MODEL, name, 1);
    let mut call = Call::new(format!("{arguments}{json}").split_whitespace());
    if arguments.starts_with("perplexity") {
        trial.write("text.txt", "the quick brown fox jumps over the lazy dog")?;
    }
    if arguments.starts_with("chat") {
        let lines = "/system be brief\nhello\n<end>\n/reset\nand?\n";
        call.input = Some(trial.write("stdin", lines)?);
    }
    if arguments.starts_with("info") || arguments.starts_with("tokenize") {
        // These read metadata only: the largest file here is small.
        call.limits.address_kib = 512 << 10;
    }
    Ok(call)
}

/// Parts of a model that are missing, of another one, or count wrongly. Returns the name of one.
fn split(trial: &mut Trial<'_>, file: &File) -> Result<&'static str> {
    let [mut first, mut second] = decoders::split(file);
    let random = &mut trial.random;
    let wrong = |random: &mut Random| {
        let value = *random.pick(&[0u16, 1, 2, 3, 255, u16::MAX]);
        Value { ty: 2, bytes: value.to_le_bytes().into() }
    };
    let mut second_name = "model-00002-of-00002.gguf";
    match random.below(8) {
        0 => second_name = "other.gguf",
        1 => second.set("split.no", wrong(random)),
        2 => second.set("split.count", wrong(random)),
        3 => first.set("split.count", wrong(random)),
        4 => {
            let count = *random.pick(&ODD_INTEGERS) as i32;
            let value = Value { ty: 5, bytes: count.to_le_bytes().into() };
            second.set("split.tensors.count", value);
        }
        5 => second.tensors = first.tensors.clone(),
        6 => second.set("general.architecture", Value::text("llama")),
        _ => damage_field(&mut second, random),
    }
    // Every part leads to all of them.
    let named = *random.pick(&["model-00001-of-00002.gguf", "model-00002-of-00002.gguf"]);
    let mut second = second.bytes();
    if random.once_in(4) {
        second.truncate(random.below(second.len()));
    }
    trial.write("model-00001-of-00002.gguf", first.bytes())?;
    trial.write(second_name, second)?;
    Ok(named)
}

/// Changes one field, so that all others still fit.
pub fn damage_field(file: &mut File, random: &mut Random) {
    let odd = |random: &mut Random| *random.pick(&ODD_INTEGERS) as u64;
    let Some(tensor) = (0..file.tensors.len()).nth(random.below(file.tensors.len())) else {
        return;
    };
    match random.below(24) {
        0 => file.version = odd(random) as u32,
        1 => file.counts[random.below(2)] = Some(odd(random)),
        2 => {
            file.set(
                "general.alignment",
                Value::u32(*random.pick(&[0, 1, 8, 31, 64, 1 << 30, 1 << 31])),
            );
        }
        3 => file.set("general.architecture", Value::text(architecture(random))),
        4..=8 => damage_value(file, random),
        9..=12 => damage_tokenizer(file, random),
        13 => {
            let pair = random.below(file.pairs.len());
            file.pairs.remove(pair);
        }
        14 => {
            let (from, to) = (random.below(file.pairs.len()), random.below(file.pairs.len()));
            file.pairs[to].key = file.pairs[from].key.clone();
        }
        15 => file.tensors[tensor].name = odd_string(random).into_bytes(),
        16 => {
            let other = random.below(file.tensors.len());
            file.tensors[tensor].name = file.tensors[other].name.clone();
        }
        17 => drop(file.tensors.remove(tensor)),
        18 => {
            let dims = &mut file.tensors[tensor].dims;
            match random.below(4) {
                0 => dims.reverse(),
                1 => dims.push(1),
                2 => {
                    let first = dims.pop().unwrap_or(1);
                    dims.extend([first / 2, 2]);
                }
                _ => {
                    let place = random.below(dims.len());
                    dims[place] = odd(random);
                }
            }
        }
        19 => file.tensors[tensor].rank = Some(odd(random) as u32),
        20 => {
            let known = [0, 1, 2, 3, 6, 7, 8, 10, 12, 14, 16, 20, 23, 30, 35, 39, 40];
            let ty = if random.once_in(4) { odd(random) as u32 } else { *random.pick(&known) };
            file.tensors[tensor].ty = ty;
        }
        21 => {
            file.tensors[tensor].offset =
                Some(odd(random) & if random.once_in(2) { !31 } else { !0 })
        }
        22 => {
            let data = &mut file.tensors[tensor].data;
            match random.once_in(2) {
                true => data.truncate(random.below(data.len())),
                false => data.fill(*random.pick(&[0, 0x7f, 0x80, 0xff])),
            }
        }
        _ => {
            // Another model's tensor of a name that may mean something here.
            let mut extra = trial_tensor(random);
            extra.data = file.tensors[tensor].data.clone();
            extra.dims = file.tensors[tensor].dims.clone();
            extra.ty = file.tensors[tensor].ty;
            file.tensors.push(extra);
        }
    }
}

fn trial_tensor(random: &mut Random) -> crate::gguf::Tensor {
    let names = [
        "rope_freqs.weight",
        "rope_factors_long.weight",
        "rope_factors_short.weight",
        "blk.0.attn_sinks.weight",
        "blk.0.attn_qkv.weight",
        "blk.1.attn_q.bias",
        "blk.1.ffn_gate_inp.weight",
        "blk.0.ffn_gate_exps.weight",
        "blk.0.ffn_gate_shexp.weight",
        "blk.0.post_attention_norm.weight",
        "blk.0.attn_k_norm.weight",
        "blk.1.exp_probs_b.bias",
        "position_embd.weight",
        "token_embd_norm.weight",
        "output.bias",
        "blk.4294967297.attn_q.weight",
    ];
    let name = random.pick(&names).as_bytes().to_vec();
    crate::gguf::Tensor { name, dims: vec![], rank: None, ty: 0, offset: None, data: vec![] }
}

fn architecture(random: &mut Random) -> String {
    let known = [
        "llama",
        "llama4",
        "qwen2",
        "qwen2moe",
        "qwen3",
        "qwen3moe",
        "gemma",
        "gemma2",
        "gemma3",
        "phi2",
        "phi3",
        "gpt2",
        "gptneox",
        "falcon",
        "mpt",
        "bloom",
        "starcoder2",
        "stablelm",
        "command-r",
        "cohere2",
        "olmo2",
        "gpt-oss",
        "deepseek2",
        "mamba",
        "rwkv7",
        "qwen35",
        "bert",
        "granite",
        "minicpm",
        "chatglm",
        "glm4",
        "dbrx",
        "grok",
        "jais",
        "refact",
        "openelm",
        "apertus",
        "exaone4",
        "smollm3",
        "plamo",
    ];
    match random.once_in(6) {
        true => odd_string(random),
        false => (*random.pick(&known)).to_owned(),
    }
}

/// Another value for a key, of its type or another one.
fn damage_value(file: &mut File, random: &mut Random) {
    let known = [
        "block_count",
        "embedding_length",
        "context_length",
        "feed_forward_length",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.value_length",
        "attention.scale",
        "attention.sliding_window",
        "attention.sliding_window_pattern",
        "attention.clamp_kqv",
        "attention.max_alibi_bias",
        "attention.layer_norm_rms_epsilon",
        "attention.layer_norm_epsilon",
        "rope.dimension_count",
        "rope.freq_base",
        "rope.scaling.type",
        "rope.scaling.factor",
        "rope.scaling.original_context_length",
        "rope.scaling.attn_factor",
        "rope.scaling.yarn_beta_fast",
        "expert_count",
        "expert_used_count",
        "expert_feed_forward_length",
        "expert_shared_count",
        "expert_weights_scale",
        "expert_gating_func",
        "expert_group_count",
        "leading_dense_block_count",
        "nextn_predict_layers",
        "interleave_moe_layer_step",
        "logit_scale",
        "residual_scale",
        "embedding_scale",
        "final_logit_softcapping",
        "attn_logit_softcapping",
        "attention.temperature_length",
        "vocab_size",
    ];
    let architecture = file.pairs.iter().find(|pair| pair.key == b"general.architecture");
    let architecture = architecture.and_then(|pair| pair.value.bytes.get(8..)).unwrap_or_default();
    let name = String::from_utf8_lossy(architecture).into_owned();
    let key = match random.once_in(4) {
        true => {
            let pair = random.below(file.pairs.len());
            String::from_utf8_lossy(&file.pairs[pair].key).into_owned()
        }
        false => format!("{name}.{}", random.pick(&known)),
    };
    let small = [0u32, 1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 64, 65, 100, 128, 255, 256, 1000, 4096];
    let value = match random.below(10) {
        0 => Value::u32(*random.pick(&ODD_INTEGERS) as u32),
        1 => Value { ty: 11, bytes: random.pick(&ODD_INTEGERS).to_le_bytes().into() },
        2 => Value::f32(*random.pick(&ODD_FLOATS)),
        3 => Value::bool(random.once_in(2)),
        4 => Value::text(odd_string(random)),
        5 => {
            let count = random.below(5);
            Value::numbers(
                U32,
                (0..count)
                    .map(|_| random.pick(&small).to_le_bytes())
                    .collect::<Vec<_>>()
                    .into_iter(),
            )
        }
        6 => Value {
            ty: random.below(15) as u32,
            bytes: vec![random.next() as u8; random.below(24)],
        },
        _ => Value::u32(*random.pick(&small)),
    };
    file.set(&key, value);
}

/// Arrays and ids of the tokenizer that contradict each other.
fn damage_tokenizer(file: &mut File, random: &mut Random) {
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let count = decoders::WORDS;
    match random.below(14) {
        0 => {
            let shorter = random.below(count);
            let tokens: Vec<String> = (0..shorter).map(|id| format!("t{id}")).collect();
            file.set(&key("tokens"), Value::texts(&tokens));
        }
        1 => {
            let longer = count + random.between(1, 4000);
            let tokens: Vec<String> = (0..longer).map(|id| format!("t{id}")).collect();
            file.set(&key("tokens"), Value::texts(&tokens));
        }
        2 => {
            let text = odd_string(random);
            file.set(&key("tokens"), Value::texts(&vec![text; count]));
        }
        3 => file.set(&key("tokens"), Value::texts(&vec![[0xff, 0xfe, 0x80]; count])),
        4 => {
            let mut array = string_items(random);
            array.truncate(random.below(array.len()));
            let told = *random.pick(&ODD_INTEGERS) as u64;
            file.set(&key("tokens"), Value::array(STRING, told, &array));
        }
        5 => {
            let merges = ["", " ", "a", "a  b", "a b c", " b", "a ", "\u{120} \u{120}", "x y"];
            let merges: Vec<&str> = (0..random.below(50)).map(|_| *random.pick(&merges)).collect();
            file.set(&key("merges"), Value::texts(&merges));
        }
        6 => {
            let kinds: Vec<i32> = (0..count).map(|_| random.below(9) as i32 - 1).collect();
            let kinds = kinds.into_iter().map(i32::to_le_bytes);
            file.set(&key("token_type"), Value::numbers(crate::gguf::I32, kinds));
        }
        7 => {
            let scores: Vec<f32> = (0..count).map(|_| *random.pick(&ODD_FLOATS)).collect();
            file.set(&key("scores"), Value::numbers(F32, scores.into_iter().map(f32::to_le_bytes)));
        }
        8 | 9 => {
            let names =
                ["bos", "eos", "eot", "eom", "unknown", "padding", "seperator", "mask", "fim_pre"];
            let name = format!("{}_token_id", random.pick(&names));
            let id =
                if random.once_in(2) { *random.pick(&ODD_INTEGERS) as u32 } else { count as u32 };
            file.set(&key(&name), Value::u32(id));
        }
        10 => {
            let model = *random.pick(&[
                "gpt2", "llama", "bert", "t5", "rwkv", "gemma4", "none", "no_vocab", "", "?",
            ]);
            file.set(&key("model"), Value::text(model));
        }
        11 => {
            let pre = *random.pick(&[
                "llama-bpe",
                "qwen2",
                "gpt-4o",
                "tekken",
                "deepseek-v3",
                "default",
                "",
                "\u{1b}",
            ]);
            file.set(&key("pre"), Value::text(pre));
        }
        12 => {
            let ty = *random.pick(&[U32, F32, BOOL, ARRAY, 99]);
            let items = vec![0; random.below(64)];
            file.set(&key("tokens"), Value::array(ty, random.below(16) as u64, &items));
        }
        _ => {
            for name in ["add_bos_token", "add_eos_token", "add_space_prefix"] {
                file.set(&key(name), Value::bool(random.once_in(2)));
            }
        }
    }
}

fn string_items(random: &mut Random) -> Vec<u8> {
    (0..random.below(50)).flat_map(|_| crate::gguf::string(odd_string(random).as_bytes())).collect()
}
