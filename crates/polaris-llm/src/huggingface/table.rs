//! The models whose folders are read: how names and numbers of Hugging Face become those of GGUF, as data.

use polaris_ops::Pairing;

/// What is known about a `model_type`.
#[derive(Debug)]
pub(super) struct Translation {
    /// Its name in `config.json`.
    pub model_type: &'static str,
    /// What GGUF calls it.
    pub architecture: &'static str,
    /// Modules of a layer.
    pub layer: &'static [&'static [Name]],
    /// Modules beside the layers.
    pub whole: &'static [Name],
    /// Numbers where `config.json` has none.
    pub defaults: &'static [(&'static str, f64)],
    /// Whether the output is the embedding where `config.json` does not say.
    pub tied: bool,
    /// The layers that slide where `config.json` does not list them.
    pub sliding: Sliding,
    /// Whether layers slide only if `use_sliding_window` is true.
    pub slides_if_asked: bool,
    /// Which elements of a head are rotated together.
    pub pairing: Pairing,
    /// What `config.json` may say without a difference to what Polaris computes.
    pub checks: &'static [Check],
}

/// A module (whose tensors end in `.weight` and `.bias`) or one tensor, its name in GGUF, and how it is stored. A `*` in
/// the name stands for a number: the tensors of all numbers are one after another in GGUF.
#[derive(Debug)]
pub(super) struct Name(pub &'static str, pub &'static str, pub Stored);

/// How a tensor is stored, compared with GGUF. Biases of modules are always as they are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    /// The same.
    Same,
    /// To be read as `f32`, whatever its shape.
    Float,
    /// One less, as Gemma has its norms.
    OneLess,
    /// With rows and columns exchanged.
    Transposed,
    /// With rows and columns exchanged, and gate and up in turns: the gate.
    Gate,
    /// The same for up.
    Up,
    /// Elements of gate and up in turns: those of the gate, as `f32`.
    GateBias,
    /// The same for up.
    UpBias,
    /// MXFP4 in two tensors that end in `_blocks` and `_scales`.
    Packed,
    /// The same with rows of gate and up in turns: the gate.
    PackedGate,
    /// The same for up.
    PackedUp,
}

/// The layers that slide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sliding {
    /// None.
    Never,
    /// All.
    All,
    /// Those from `max_window_layers` on.
    Above,
    /// All but the last of each so many; `sliding_window_pattern` may name another number.
    Every(usize),
}

/// Something that must be as Polaris computes it.
#[derive(Debug)]
pub(super) enum Check {
    /// One of these texts, if it is there.
    Text(&'static str, &'static [&'static str]),
    /// This value; the last is what it is where it is absent.
    Flag(&'static str, bool, bool),
    /// This number, if it is there.
    Number(&'static str, f64),
    /// Nothing, or null.
    None(&'static str),
}

const fn same(from: &'static str, to: &'static str) -> Name {
    Name(from, to, Stored::Same)
}

const fn float(from: &'static str, to: &'static str) -> Name {
    Name(from, to, Stored::Float)
}

const fn less(from: &'static str, to: &'static str) -> Name {
    Name(from, to, Stored::OneLess)
}

const fn transposed(from: &'static str, to: &'static str) -> Name {
    Name(from, to, Stored::Transposed)
}

const WHOLE: &[Name] =
    &[same("embed_tokens", "token_embd"), same("norm", "output_norm"), same("lm_head", "output")];
const ATTENTION: &[Name] = &[
    same("self_attn.q_proj", "attn_q"),
    same("self_attn.k_proj", "attn_k"),
    same("self_attn.v_proj", "attn_v"),
    same("self_attn.o_proj", "attn_output"),
];
const HEAD_NORMS: &[Name] =
    &[float("self_attn.q_norm", "attn_q_norm"), float("self_attn.k_norm", "attn_k_norm")];
const NORMS: &[Name] =
    &[same("input_layernorm", "attn_norm"), same("post_attention_layernorm", "ffn_norm")];
const NORMS_AFTER: &[Name] = &[
    same("post_attention_layernorm", "post_attention_norm"),
    same("post_feedforward_layernorm", "post_ffw_norm"),
];
const NETWORK: &[Name] = &[
    same("mlp.gate_proj", "ffn_gate"),
    same("mlp.up_proj", "ffn_up"),
    same("mlp.down_proj", "ffn_down"),
];
/// Gate and up in one matrix, the gate first.
const FUSED_NETWORK: &[Name] =
    &[same("mlp.gate_up_proj", "ffn_up"), same("mlp.down_proj", "ffn_down")];
const MIXTRAL: &[Name] = &[
    same("block_sparse_moe.gate", "ffn_gate_inp"),
    same("block_sparse_moe.experts.*.w1", "ffn_gate_exps"),
    same("block_sparse_moe.experts.*.w3", "ffn_up_exps"),
    same("block_sparse_moe.experts.*.w2", "ffn_down_exps"),
    same("mlp.gate", "ffn_gate_inp"),
    same("mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight"),
    same("mlp.experts.down_proj", "ffn_down_exps.weight"),
];
const QWEN_EXPERTS: &[Name] = &[
    same("mlp.gate", "ffn_gate_inp"),
    same("mlp.experts.*.gate_proj", "ffn_gate_exps"),
    same("mlp.experts.*.up_proj", "ffn_up_exps"),
    same("mlp.experts.*.down_proj", "ffn_down_exps"),
    same("mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight"),
    same("mlp.experts.down_proj", "ffn_down_exps.weight"),
    same("mlp.shared_expert.gate_proj", "ffn_gate_shexp"),
    same("mlp.shared_expert.up_proj", "ffn_up_shexp"),
    same("mlp.shared_expert.down_proj", "ffn_down_shexp"),
    same("mlp.shared_expert_gate", "ffn_gate_inp_shexp"),
];
const GRANITE_EXPERTS: &[Name] = &[
    same("block_sparse_moe.router.layer", "ffn_gate_inp"),
    same("block_sparse_moe.input_linear", "ffn_gate_up_exps"),
    same("block_sparse_moe.output_linear", "ffn_down_exps"),
];
const GEMMA_WHOLE: &[Name] =
    &[same("embed_tokens", "token_embd"), less("norm", "output_norm"), same("lm_head", "output")];
const GEMMA_NORMS: &[Name] =
    &[less("input_layernorm", "attn_norm"), less("post_attention_layernorm", "ffn_norm")];
const GEMMA2_NORMS: &[Name] = &[
    less("input_layernorm", "attn_norm"),
    less("post_attention_layernorm", "post_attention_norm"),
    less("pre_feedforward_layernorm", "ffn_norm"),
    less("post_feedforward_layernorm", "post_ffw_norm"),
    less("self_attn.q_norm", "attn_q_norm"),
    less("self_attn.k_norm", "attn_k_norm"),
];
const PHI3: &[Name] =
    &[same("self_attn.qkv_proj", "attn_qkv"), same("self_attn.o_proj", "attn_output")];
const GPT2_WHOLE: &[Name] = &[
    same("wte", "token_embd"),
    same("wpe", "position_embd"),
    same("ln_f", "output_norm"),
    same("lm_head", "output"),
];
const GPT2: &[Name] = &[
    same("ln_1", "attn_norm"),
    transposed("attn.c_attn", "attn_qkv"),
    transposed("attn.c_proj", "attn_output"),
    same("ln_2", "ffn_norm"),
    transposed("mlp.c_fc", "ffn_up"),
    transposed("mlp.c_proj", "ffn_down"),
];
const STARCODER2: &[Name] = &[same("mlp.c_fc", "ffn_up"), same("mlp.c_proj", "ffn_down")];
const STABLELM: &[Name] = &[
    float("self_attn.q_layernorm.norms.*", "attn_q_norm"),
    float("self_attn.k_layernorm.norms.*", "attn_k_norm"),
];
const GLM4_NORMS: &[Name] = &[
    same("post_self_attn_layernorm", "post_attention_norm"),
    same("post_mlp_layernorm", "post_ffw_norm"),
];
const GPT_OSS: &[Name] = &[
    same("input_layernorm", "attn_norm"),
    same("post_attention_layernorm", "post_attention_norm"),
    float("self_attn.sinks", "attn_sinks.weight"),
    same("mlp.router", "ffn_gate_inp"),
    Name("mlp.experts.gate_up_proj", "ffn_gate_exps.weight", Stored::Gate),
    Name("mlp.experts.gate_up_proj", "ffn_up_exps.weight", Stored::Up),
    Name("mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias", Stored::GateBias),
    Name("mlp.experts.gate_up_proj_bias", "ffn_up_exps.bias", Stored::UpBias),
    transposed("mlp.experts.down_proj", "ffn_down_exps.weight"),
    float("mlp.experts.down_proj_bias", "ffn_down_exps.bias"),
    Name("mlp.experts.gate_up_proj", "ffn_gate_exps.weight", Stored::PackedGate),
    Name("mlp.experts.gate_up_proj", "ffn_up_exps.weight", Stored::PackedUp),
    Name("mlp.experts.down_proj", "ffn_down_exps.weight", Stored::Packed),
];

const SILU: Check = Check::Text("hidden_act", &["silu", "swish"]);
const GELU_TANH: &[&str] = &["gelu_pytorch_tanh", "gelu_new"];
const CAUSAL: Check = Check::Flag("use_bidirectional_attention", false, false);

const LLAMA: Translation = Translation {
    model_type: "llama",
    architecture: "llama",
    layer: &[ATTENTION, NORMS, NETWORK],
    whole: WHOLE,
    defaults: &[("rms_norm_eps", 1e-6)],
    tied: false,
    sliding: Sliding::Never,
    slides_if_asked: false,
    pairing: Pairing::Halves,
    checks: &[SILU],
};
const QWEN2: Translation = Translation {
    model_type: "qwen2",
    architecture: "qwen2",
    defaults: &[("rms_norm_eps", 1e-6), ("sliding_window", 4096.0), ("max_window_layers", 28.0)],
    sliding: Sliding::Above,
    slides_if_asked: true,
    ..LLAMA
};
const GEMMA: Translation = Translation {
    model_type: "gemma",
    architecture: "gemma",
    layer: &[ATTENTION, GEMMA_NORMS, NETWORK],
    whole: GEMMA_WHOLE,
    defaults: &[
        ("rms_norm_eps", 1e-6),
        ("num_attention_heads", 16.0),
        ("num_key_value_heads", 16.0),
        ("head_dim", 256.0),
        ("max_position_embeddings", 8192.0),
    ],
    tied: true,
    checks: &[Check::Text("hidden_activation", GELU_TANH), CAUSAL],
    ..LLAMA
};
/// Cohere and GLM rotate neighbours.
const COHERE: Translation = Translation {
    model_type: "cohere",
    architecture: "command-r",
    layer: &[ATTENTION, HEAD_NORMS, NORMS, NETWORK],
    defaults: &[("layer_norm_eps", 1e-5), ("logit_scale", 0.0625), ("rope_theta", 5e5)],
    tied: true,
    pairing: Pairing::Adjacent,
    ..LLAMA
};
const GLM: Translation = Translation {
    model_type: "glm",
    architecture: "chatglm",
    layer: &[ATTENTION, NORMS, FUSED_NETWORK],
    defaults: &[
        ("rms_norm_eps", 1.5625e-7),
        ("head_dim", 128.0),
        ("num_key_value_heads", 2.0),
        ("partial_rotary_factor", 0.5),
    ],
    pairing: Pairing::Adjacent,
    ..LLAMA
};
const GRANITE: Translation = Translation {
    model_type: "granite",
    architecture: "granite",
    defaults: &[("rms_norm_eps", 1e-6), ("attention_multiplier", 1.0)],
    ..LLAMA
};

/// Every model.
pub(super) const TRANSLATIONS: &[Translation] = &[
    LLAMA,
    Translation {
        model_type: "mistral",
        defaults: &[
            ("rms_norm_eps", 1e-6),
            ("num_key_value_heads", 8.0),
            ("sliding_window", 4096.0),
            ("max_position_embeddings", 131_072.0),
        ],
        sliding: Sliding::All,
        ..LLAMA
    },
    Translation {
        model_type: "mixtral",
        layer: &[ATTENTION, NORMS, MIXTRAL],
        defaults: &[
            ("rms_norm_eps", 1e-5),
            ("num_key_value_heads", 8.0),
            ("rope_theta", 1e6),
            ("num_local_experts", 8.0),
            ("num_experts_per_tok", 2.0),
        ],
        sliding: Sliding::All,
        ..LLAMA
    },
    QWEN2,
    Translation {
        model_type: "qwen3",
        architecture: "qwen3",
        layer: &[ATTENTION, HEAD_NORMS, NORMS, NETWORK],
        defaults: &[
            ("rms_norm_eps", 1e-6),
            ("head_dim", 128.0),
            ("sliding_window", 4096.0),
            ("max_window_layers", 28.0),
        ],
        ..QWEN2
    },
    Translation {
        model_type: "qwen2_moe",
        architecture: "qwen2moe",
        layer: &[ATTENTION, NORMS, NETWORK, QWEN_EXPERTS],
        sliding: Sliding::Never,
        checks: &[SILU, Check::Flag("norm_topk_prob", false, false)],
        ..QWEN2
    },
    Translation {
        model_type: "qwen3_moe",
        architecture: "qwen3moe",
        layer: &[ATTENTION, HEAD_NORMS, NORMS, NETWORK, QWEN_EXPERTS],
        sliding: Sliding::All,
        checks: &[SILU, Check::Flag("norm_topk_prob", true, false)],
        ..QWEN2
    },
    Translation {
        model_type: "olmoe",
        architecture: "olmoe",
        layer: &[ATTENTION, HEAD_NORMS, NORMS, QWEN_EXPERTS],
        defaults: &[("rms_norm_eps", 1e-5)],
        checks: &[SILU, Check::Flag("norm_topk_prob", false, false), Check::None("clip_qkv")],
        ..LLAMA
    },
    GEMMA,
    Translation {
        model_type: "gemma2",
        architecture: "gemma2",
        layer: &[ATTENTION, GEMMA2_NORMS, NETWORK],
        defaults: &[
            ("rms_norm_eps", 1e-6),
            ("num_attention_heads", 8.0),
            ("num_key_value_heads", 4.0),
            ("head_dim", 256.0),
            ("max_position_embeddings", 8192.0),
            ("query_pre_attn_scalar", 256.0),
            ("sliding_window", 4096.0),
        ],
        sliding: Sliding::Every(2),
        ..GEMMA
    },
    Translation {
        model_type: "gemma3_text",
        architecture: "gemma3",
        layer: &[ATTENTION, GEMMA2_NORMS, NETWORK],
        defaults: &[
            ("rms_norm_eps", 1e-6),
            ("num_attention_heads", 8.0),
            ("num_key_value_heads", 4.0),
            ("head_dim", 256.0),
            ("max_position_embeddings", 131_072.0),
            ("query_pre_attn_scalar", 256.0),
            ("sliding_window", 4096.0),
            ("rope_theta", 1e6),
        ],
        sliding: Sliding::Every(6),
        ..GEMMA
    },
    Translation {
        model_type: "phi3",
        architecture: "phi3",
        layer: &[PHI3, NORMS, FUSED_NETWORK],
        defaults: &[("rms_norm_eps", 1e-5)],
        sliding: Sliding::All,
        ..LLAMA
    },
    Translation {
        model_type: "gpt2",
        architecture: "gpt2",
        layer: &[GPT2],
        whole: GPT2_WHOLE,
        defaults: &[("layer_norm_epsilon", 1e-5)],
        tied: true,
        checks: &[
            Check::Text("activation_function", GELU_TANH),
            Check::Flag("scale_attn_weights", true, true),
            Check::Flag("scale_attn_by_inverse_layer_idx", false, false),
            Check::Flag("add_cross_attention", false, false),
        ],
        ..LLAMA
    },
    Translation {
        model_type: "smollm3",
        architecture: "smollm3",
        defaults: &[
            ("rms_norm_eps", 1e-6),
            ("num_key_value_heads", 4.0),
            ("rope_theta", 2e6),
            ("no_rope_layer_interval", 4.0),
        ],
        tied: true,
        slides_if_asked: true,
        ..LLAMA
    },
    Translation {
        model_type: "olmo2",
        architecture: "olmo2",
        layer: &[ATTENTION, HEAD_NORMS, NORMS_AFTER, NETWORK],
        defaults: &[("rms_norm_eps", 1e-5)],
        ..LLAMA
    },
    Translation {
        model_type: "olmo3",
        architecture: "olmo2",
        layer: &[ATTENTION, HEAD_NORMS, NORMS_AFTER, NETWORK],
        defaults: &[("rms_norm_eps", 1e-5), ("rope_theta", 5e5), ("sliding_window", 4096.0)],
        sliding: Sliding::Every(4),
        ..LLAMA
    },
    GRANITE,
    Translation {
        model_type: "granitemoe",
        architecture: "granitemoe",
        layer: &[ATTENTION, NORMS, GRANITE_EXPERTS],
        ..GRANITE
    },
    Translation {
        model_type: "gpt_oss",
        architecture: "gpt-oss",
        layer: &[ATTENTION, GPT_OSS],
        defaults: &[
            ("rms_norm_eps", 1e-5),
            ("head_dim", 64.0),
            ("rope_theta", 1.5e5),
            ("sliding_window", 128.0),
            ("num_experts_per_tok", 4.0),
        ],
        sliding: Sliding::Every(2),
        checks: &[SILU, Check::Number("swiglu_limit", 7.0), Check::Number("swiglu_alpha", 1.702)],
        ..LLAMA
    },
    Translation {
        model_type: "starcoder2",
        architecture: "starcoder2",
        layer: &[ATTENTION, NORMS, STARCODER2],
        defaults: &[("norm_epsilon", 1e-5), ("num_key_value_heads", 2.0)],
        tied: true,
        sliding: Sliding::All,
        checks: &[Check::Text("hidden_act", GELU_TANH)],
        ..LLAMA
    },
    Translation {
        model_type: "stablelm",
        architecture: "stablelm",
        layer: &[ATTENTION, STABLELM, NORMS, NETWORK],
        defaults: &[("layer_norm_eps", 1e-5), ("partial_rotary_factor", 0.25)],
        ..LLAMA
    },
    COHERE,
    Translation {
        model_type: "cohere2",
        architecture: "cohere2",
        defaults: &[("layer_norm_eps", 1e-5), ("logit_scale", 0.0625), ("sliding_window", 4096.0)],
        sliding: Sliding::Every(4),
        ..COHERE
    },
    GLM,
    Translation {
        model_type: "glm4",
        architecture: "glm4",
        layer: &[ATTENTION, NORMS, GLM4_NORMS, FUSED_NETWORK],
        ..GLM
    },
];
