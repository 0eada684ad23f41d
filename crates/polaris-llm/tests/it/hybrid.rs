//! Small models with recurrent layers, of random weights, as GGUF files in memory.

use polaris_core::random::SplitMix64;
use polaris_gguf::{TensorType, Writer, quantize};
use polaris_llm::Source;

use crate::tiny::source;

pub const WIDTH: usize = 32;
pub const WORDS: usize = 50;
pub const CONTEXT: usize = 96;
pub const HEADS: usize = 2;
const KEY_HEADS: usize = 1;
pub const SIZE: usize = 16;
const HIDDEN: usize = 48;
pub const TAPS: usize = 4;
/// Heads, groups and sizes of states.
pub const STATES: usize = 4;
pub const GROUPS: usize = 2;
pub const STATE: usize = 8;
pub const VALUE: usize = 8;
pub const INNER: usize = STATES * VALUE;
pub const CHANNELS: usize = INNER + 2 * GROUPS * STATE;
/// Compressed keys, and how many of their elements are rotated.
pub const RANK: usize = 12;
pub const ROTATED: usize = 4;
/// Layers after which the residual stream of Kimi K3 begins anew.
pub const PERIOD: usize = 2;
/// The bound of its decays, and the caps of its gates.
pub const LOWEST: f32 = -4.0;
pub const CAPS: [f32; 2] = [2.0, 3.0];

/// Architectures that [`hybrid`] knows.
pub const ARCHITECTURES: [&str; 13] = [
    "qwen35",
    "qwen3next",
    "lfm2",
    "mamba",
    "mamba2",
    "jamba",
    "falcon-h1",
    "nemotron_h",
    "plamo2",
    "minimax-01",
    "kimi-linear",
    "kimi-k3",
    "bailingmoe3",
];

type Tensors = Vec<(String, Vec<usize>)>;

/// A part of a layer, by the names of its tensors.
fn part(kind: &str, architecture: &str) -> Vec<(&'static str, Vec<usize>)> {
    match kind {
        "attention" => {
            let gates = if architecture.starts_with("qwen") { 2 } else { 1 };
            let mut all = vec![
                ("attn_q.weight", vec![gates * HEADS * SIZE, WIDTH]),
                ("attn_k.weight", vec![KEY_HEADS * SIZE, WIDTH]),
                ("attn_v.weight", vec![KEY_HEADS * SIZE, WIDTH]),
                ("attn_output.weight", vec![WIDTH, HEADS * SIZE]),
            ];
            if gates == 2 || architecture == "lfm2" {
                all.push(("attn_q_norm.weight", vec![SIZE]));
                all.push(("attn_k_norm.weight", vec![SIZE]));
            }
            all
        }
        "network" => match architecture {
            "nemotron_h" => vec![
                ("ffn_up.weight", vec![HIDDEN, WIDTH]),
                ("ffn_down.weight", vec![WIDTH, HIDDEN]),
            ],
            _ => vec![
                ("ffn_gate.weight", vec![HIDDEN, WIDTH]),
                ("ffn_up.weight", vec![HIDDEN, WIDTH]),
                ("ffn_down.weight", vec![WIDTH, HIDDEN]),
            ],
        },
        "delta" => {
            let mut all = vec![
                ("attn_qkv.weight", vec![CHANNELS, WIDTH]),
                ("attn_gate.weight", vec![INNER, WIDTH]),
                ("ssm_conv1d.weight", vec![CHANNELS, TAPS]),
                ("ssm_dt.bias", vec![STATES]),
                ("ssm_a", vec![STATES]),
                ("ssm_norm.weight", vec![VALUE]),
                ("ssm_out.weight", vec![WIDTH, INNER]),
            ];
            match architecture {
                "qwen35" => {
                    all.push(("ssm_beta.weight", vec![STATES, WIDTH]));
                    all.push(("ssm_alpha.weight", vec![STATES, WIDTH]));
                }
                _ => all.push(("ssm_ba.weight", vec![2 * STATES, WIDTH])),
            }
            all
        }
        "mamba" => vec![
            ("ssm_in.weight", vec![2 * INNER, WIDTH]),
            ("ssm_conv1d.weight", vec![INNER, TAPS]),
            ("ssm_conv1d.bias", vec![INNER]),
            ("ssm_x.weight", vec![STATES + 2 * STATE, INNER]),
            ("ssm_dt.weight", vec![INNER, STATES]),
            ("ssm_dt.bias", vec![INNER]),
            ("ssm_a", vec![INNER, STATE]),
            ("ssm_d", vec![INNER]),
            ("ssm_out.weight", vec![WIDTH, INNER]),
        ],
        "plamo" => vec![
            ("ssm_in.weight", vec![2 * INNER, WIDTH]),
            ("ssm_conv1d.weight", vec![INNER, TAPS]),
            ("ssm_x.weight", vec![64 + 2 * STATE, INNER]),
            ("ssm_b_norm.weight", vec![STATE]),
            ("ssm_c_norm.weight", vec![STATE]),
            ("ssm_dt_norm.weight", vec![64]),
            ("ssm_dt.weight", vec![STATES, 64]),
            ("ssm_dt.bias", vec![STATES]),
            ("ssm_a", vec![STATES]),
            ("ssm_d", vec![STATES]),
            ("ssm_out.weight", vec![WIDTH, INNER]),
        ],
        "mamba2" => vec![
            ("ssm_in.weight", vec![INNER + CHANNELS + STATES, WIDTH]),
            ("ssm_conv1d.weight", vec![CHANNELS, TAPS]),
            ("ssm_conv1d.bias", vec![CHANNELS]),
            ("ssm_dt.bias", vec![STATES]),
            ("ssm_a", vec![STATES, 1]),
            ("ssm_d", vec![STATES, 1]),
            ("ssm_norm.weight", vec![GROUPS, INNER / GROUPS]),
            ("ssm_out.weight", vec![WIDTH, INNER]),
        ],
        "kimi" => {
            let inner = HEADS * SIZE;
            let mut all = vec![
                ("attn_q.weight", vec![inner, WIDTH]),
                ("attn_k.weight", vec![inner, WIDTH]),
                ("attn_v.weight", vec![inner, WIDTH]),
                ("ssm_conv1d_q.weight", vec![inner, TAPS]),
                ("ssm_conv1d_k.weight", vec![inner, TAPS]),
                ("ssm_conv1d_v.weight", vec![inner, TAPS]),
                ("ssm_beta.weight", vec![HEADS, WIDTH]),
                ("ssm_a", vec![HEADS, 1]),
                ("ssm_dt.bias", vec![inner]),
                ("ssm_norm.weight", vec![SIZE]),
                ("attn_output.weight", vec![WIDTH, inner]),
            ];
            all.extend(match architecture {
                "bailingmoe3" => {
                    vec![
                        ("ssm_f_a.weight", vec![inner, WIDTH]),
                        ("ssm_g_a.weight", vec![inner, WIDTH]),
                    ]
                }
                _ => vec![
                    ("ssm_f_a.weight", vec![SIZE, WIDTH]),
                    ("ssm_f_b.weight", vec![inner, SIZE]),
                ],
            });
            all.extend(match architecture {
                "kimi-k3" => vec![("ssm_g.weight", vec![inner, WIDTH])],
                "kimi-linear" => {
                    vec![
                        ("ssm_g_a.weight", vec![SIZE, WIDTH]),
                        ("ssm_g_b.weight", vec![inner, SIZE]),
                    ]
                }
                _ => Vec::new(),
            });
            all
        }
        "latent" => {
            let mut all = vec![
                ("attn_q.weight", vec![HEADS * SIZE, WIDTH]),
                ("attn_kv_a_mqa.weight", vec![RANK + ROTATED, WIDTH]),
                ("attn_kv_a_norm.weight", vec![RANK]),
                ("attn_k_b.weight", vec![HEADS, RANK, SIZE - ROTATED]),
                ("attn_v_b.weight", vec![HEADS, SIZE, RANK]),
                ("attn_output.weight", vec![WIDTH, HEADS * SIZE]),
            ];
            match architecture {
                "kimi-k3" => all.push(("attn_gate.weight", vec![HEADS * SIZE, WIDTH])),
                "bailingmoe3" => all.push(("attn_gate.weight", vec![HEADS, WIDTH])),
                _ => {}
            }
            all
        }
        "streams" => {
            vec![("attn_res_score.weight", vec![WIDTH]), ("ffn_res_score.weight", vec![WIDTH])]
        }
        "conv" => vec![
            ("shortconv.in_proj.weight", vec![3 * WIDTH, WIDTH]),
            ("shortconv.conv.weight", vec![WIDTH, TAPS]),
            ("shortconv.out_proj.weight", vec![WIDTH, WIDTH]),
        ],
        _ => vec![
            ("attn_qkv.weight", vec![3 * HEADS * SIZE, WIDTH]),
            ("attn_gate.weight", vec![HEADS * SIZE, WIDTH]),
            ("attn_norm_2.weight", vec![HEADS * SIZE]),
            ("attn_output.weight", vec![WIDTH, HEADS * SIZE]),
        ],
    }
}

/// The parts of each layer.
pub fn layers(architecture: &str) -> Vec<Vec<&'static str>> {
    match architecture {
        "qwen35" | "qwen3next" => vec![vec!["delta", "network"], vec!["attention", "network"]],
        "lfm2" => vec![vec!["conv", "network"], vec!["attention", "network"]],
        "mamba" => vec![vec!["mamba"], vec!["mamba"]],
        "mamba2" => vec![vec!["mamba2"], vec!["mamba2"]],
        "jamba" => vec![vec!["attention", "network"], vec!["mamba", "network"]],
        "falcon-h1" => vec![vec!["attention", "mamba2", "network"]; 2],
        "nemotron_h" => vec![vec!["mamba2"], vec!["attention"], vec!["network"]],
        "plamo2" => vec![vec!["plamo", "network"], vec!["attention", "network"]],
        "kimi-linear" | "bailingmoe3" => vec![vec!["kimi", "network"], vec!["latent", "network"]],
        "kimi-k3" => {
            let kimi = vec!["kimi", "network", "streams"];
            vec![kimi.clone(), vec!["latent", "network", "streams"], kimi]
        }
        _ => vec![vec!["lightning", "network"], vec!["attention", "network"]],
    }
}

fn tensors(architecture: &str) -> Tensors {
    let last = if architecture == "lfm2" { "token_embd_norm.weight" } else { "output_norm.weight" };
    let mut all = vec![
        ("token_embd.weight".to_owned(), vec![WORDS, WIDTH]),
        (last.to_owned(), vec![WIDTH]),
        ("output.weight".to_owned(), vec![WORDS, WIDTH]),
    ];
    if architecture == "kimi-k3" {
        all.push(("output_res_score.weight".to_owned(), vec![WIDTH]));
    }
    for (number, parts) in layers(architecture).into_iter().enumerate() {
        let mut add =
            |name: &str, dims: Vec<usize>| all.push((format!("blk.{number}.{name}"), dims));
        add("attn_norm.weight", vec![WIDTH]);
        if parts.contains(&"network") && parts.len() > 1 {
            let is_qwen = architecture.starts_with("qwen");
            let name = if is_qwen { "post_attention_norm" } else { "ffn_norm" };
            add(&format!("{name}.weight"), vec![WIDTH]);
        }
        for kind in parts {
            part(kind, architecture).into_iter().for_each(|(name, dims)| add(name, dims));
        }
    }
    all
}

fn is_kimi(architecture: &str) -> bool {
    layers(architecture)[0].contains(&"kimi")
}

/// The part that attends.
fn attention(architecture: &str) -> &'static str {
    if is_kimi(architecture) { "latent" } else { "attention" }
}

/// A model with other values for some keys.
pub fn hybrid_with(architecture: &str, other: &[(&str, u32)]) -> Vec<u8> {
    let mut writer = Writer::new();
    let parts = layers(architecture);
    writer.set("general.architecture", architecture).unwrap();
    let tokens: Vec<String> = crate::tiny::tokens().into_iter().take(WORDS).collect();
    let names: Vec<&str> = tokens.iter().map(String::as_str).collect();
    writer.set("tokenizer.ggml.model", "gpt2").unwrap();
    writer.set("tokenizer.ggml.pre", "gpt-2").unwrap();
    writer.set("tokenizer.ggml.tokens", &names[..]).unwrap();
    writer.set("tokenizer.ggml.token_type", &[1i32; WORDS][..]).unwrap();
    writer.set("tokenizer.ggml.merges", &[][..] as &[&str]).unwrap();
    writer.set("tokenizer.ggml.eos_token_id", 0u32).unwrap();
    let mut set = |key: &str, value: u32| {
        let value = other.iter().find(|(name, _)| *name == key).map_or(value, |(_, value)| *value);
        writer.set(&format!("{architecture}.{key}"), value).unwrap();
    };
    set("block_count", parts.len() as u32);
    set("embedding_length", WIDTH as u32);
    set("context_length", CONTEXT as u32);
    set("attention.key_length", SIZE as u32);
    set("attention.value_length", SIZE as u32);
    set("full_attention_interval", 2);
    set("shortconv.l_cache", TAPS as u32);
    set("ssm.conv_kernel", TAPS as u32);
    set("ssm.inner_size", INNER as u32);
    set("ssm.state_size", STATE as u32);
    set("ssm.time_step_rank", STATES as u32);
    set("ssm.group_count", GROUPS as u32);
    if is_kimi(architecture) {
        set("attention.key_length_mla", SIZE as u32);
        set("attention.value_length_mla", SIZE as u32);
        set("attention.kv_lora_rank", RANK as u32);
        set("rope.dimension_count", ROTATED as u32);
        set("kda.head_dim", SIZE as u32);
        set("attn_res.block_size", PERIOD as u32);
    }
    let by_part = |name: &str, value: usize| -> Vec<u32> {
        parts.iter().map(|parts| if parts.contains(&name) { value as u32 } else { 0 }).collect()
    };
    let all_have_heads = architecture == "minimax-01" || is_kimi(architecture);
    let heads = match all_have_heads {
        true => vec![HEADS as u32; parts.len()],
        false => by_part("attention", HEADS),
    };
    let counts = [
        ("attention.head_count", heads),
        ("attention.head_count_kv", by_part(attention(architecture), KEY_HEADS)),
        ("feed_forward_length", by_part("network", HIDDEN)),
    ];
    for (key, values) in counts {
        writer.set(&format!("{architecture}.{key}"), &values[..]).unwrap();
    }
    let floats = [
        ("attention.layer_norm_rms_epsilon", 1e-5f32),
        ("residual_scale", 1.2),
        ("kda.gate_lower_bound", LOWEST),
        ("activation.situ_beta", CAPS[0]),
        ("activation.situ_linear_beta", CAPS[1]),
    ];
    for (key, value) in floats {
        writer.set(&format!("{architecture}.{key}"), value).unwrap();
    }
    for (number, (name, dims)) in tensors(architecture).into_iter().enumerate() {
        let values = values(number as u64, &name, &dims);
        let bytes = quantize(TensorType::F32, &values).unwrap();
        writer.tensor(&name, &dims, TensorType::F32, bytes).unwrap();
    }
    writer.into_bytes().unwrap()
}

pub fn hybrid(architecture: &str) -> Source {
    source(hybrid_with(architecture, &[]))
}

/// Norms around 1, decays below 0, matrices such that activations keep their size.
fn values(seed: u64, name: &str, dims: &[usize]) -> Vec<f32> {
    let mut random = SplitMix64::new(seed);
    let count: usize = dims.iter().product();
    let columns = dims.last().copied().unwrap_or(1) as f32;
    let mut value = || {
        let uniform = random.unit() as f32 * 2.0 - 1.0;
        if name.ends_with("ssm_a") {
            -(uniform * 1.5).exp()
        } else if name.contains("norm") {
            1.0 + 0.3 * uniform
        } else if dims.len() == 1 || name.contains("conv1d") {
            uniform
        } else {
            uniform * (3.0 / columns).sqrt() * 1.2
        }
    };
    (0..count).map(|_| value()).collect()
}
