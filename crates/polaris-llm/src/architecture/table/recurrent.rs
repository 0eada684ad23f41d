//! Decoders with recurrent layers.

use polaris_ops::route::Gating;

use super::{
    ADJACENT, GRANITE, HALVES, SCALED, SCALES_AND_OUTPUT, SIGMOID, UNNORMALIZED, scales_and,
};
use crate::architecture::{
    Activation, Architecture, AttentionScale, BASE, Experts, KimiDecay, Mixer, Normalize, Quirk,
    Recurrent, RecurrentLayers, ResidualScale, Rotated, Window,
};

/// Biases that files of Qwen's hybrids may have and that do not count.
const QWEN_BIASES: &[&str] = &["attn_q.bias", "attn_k.bias", "attn_v.bias"];
/// Kimi Linear: the delta rule with a decay for each key, and compressed keys without positions.
const KIMI: Architecture = Architecture {
    rotary: None,
    experts: Experts { normalize: Normalize::Yes, ..SIGMOID },
    recurrent: Recurrent::without_keys(Mixer::KimiDelta(KimiDecay::Softplus)),
    ignored: scales_and!(
        "attn_q.bias",
        "attn_k.bias",
        "attn_v.bias",
        "attn_q.scale",
        "attn_k.scale",
        "attn_v.scale",
        "ssm_beta.scale"
    ),
    ..ADJACENT
};
/// The same without scales of attention.
const KIMI_UNSCALED: &[&str] = scales_and!(
    "attn_q.bias",
    "attn_k.bias",
    "attn_v.bias",
    "attn_q.scale",
    "attn_k.scale",
    "attn_v.scale",
    "attn_gate.scale",
    "attn_output.scale",
    "ssm_beta.scale"
);
/// Qwen 3.5: gated delta nets, and attention with gates in every fourth layer.
const QWEN_HYBRID: Architecture = Architecture {
    feed_forward_norm: "post_attention_norm",
    attention_scale: AttentionScale::Key,
    experts: SCALED,
    recurrent: Recurrent::in_layers(Mixer::GatedDelta { tiled: true }, RecurrentLayers::Except(4)),
    ignored: QWEN_BIASES,
    ..HALVES
};
/// Mamba, without attention and feed-forward networks.
const MAMBA: Architecture = Architecture {
    rotary: None,
    recurrent: Recurrent::in_layers(Mixer::Mamba, RecurrentLayers::All),
    ..ADJACENT
};
/// Nemotron-H: layers of Mamba, of attention without positions, and of feed-forward networks.
const NEMOTRON_HYBRID: Architecture = Architecture {
    rotary: None,
    attention_scale: AttentionScale::Key,
    activation: Activation::ReluSquared,
    experts: Experts { reads_gating: false, ..SIGMOID },
    recurrent: Recurrent::without_keys(Mixer::Mamba2),
    ignored: &[],
    quirk: Quirk::OnePart,
    ..ADJACENT
};
/// LFM2: short convolutions and attention.
const LFM: Architecture = Architecture {
    window: Window::period(usize::MAX),
    recurrent: Recurrent::without_keys(Mixer::ShortConv),
    quirk: Quirk::EmbeddingNormLast,
    ..HALVES
};

pub(super) const RECURRENT: &[Architecture] = &[
    Architecture { name: "qwen35", ..QWEN_HYBRID },
    Architecture { name: "qwen35moe", ..QWEN_HYBRID },
    Architecture {
        name: "qwen3next",
        recurrent: Recurrent::in_layers(
            Mixer::GatedDelta { tiled: false },
            RecurrentLayers::Except(4),
        ),
        ignored: &[
            "attn_q.bias",
            "attn_k.bias",
            "attn_v.bias",
            "attn_qkv.scale",
            "attn_gate.scale",
            "ssm_out.scale",
        ],
        ..QWEN_HYBRID
    },
    Architecture { name: "kimi-linear", ..KIMI },
    Architecture {
        name: "kimi-k3",
        activation: Activation::Situ,
        experts: SIGMOID,
        recurrent: Recurrent::without_keys(Mixer::KimiDelta(KimiDecay::BoundedByKey)),
        ignored: KIMI_UNSCALED,
        quirk: Quirk::ResidualAttention,
        ..KIMI
    },
    Architecture {
        name: "bailingmoe3",
        rotary: ADJACENT.rotary,
        limits: true,
        experts: SIGMOID,
        recurrent: Recurrent::without_keys(Mixer::KimiDelta(KimiDecay::Bounded)),
        ignored: KIMI_UNSCALED,
        ..KIMI
    },
    Architecture { name: "lfm2", ..LFM },
    Architecture {
        name: "lfm2moe",
        window: Window::NONE,
        experts: Experts { gating: Gating::Sigmoid, reads_gating: true, ..BASE.experts },
        ..LFM
    },
    Architecture { name: "mamba", ..MAMBA },
    Architecture {
        name: "mamba2",
        recurrent: Recurrent::in_layers(Mixer::Mamba2, RecurrentLayers::All),
        ..MAMBA
    },
    Architecture {
        name: "jamba",
        rotary: None,
        experts: UNNORMALIZED,
        recurrent: Recurrent::without_keys(Mixer::Mamba),
        ..ADJACENT
    },
    Architecture {
        name: "falcon-h1",
        recurrent: Recurrent::in_layers(Mixer::Mamba2, RecurrentLayers::Beside),
        ignored: SCALES_AND_OUTPUT,
        ..HALVES
    },
    Architecture {
        name: "granitehybrid",
        rotated: Rotated::Finetuned,
        recurrent: Recurrent::without_keys(Mixer::Mamba2),
        ..GRANITE
    },
    Architecture { name: "nemotron_h", ..NEMOTRON_HYBRID },
    Architecture { name: "nemotron_h_moe", ..NEMOTRON_HYBRID },
    Architecture {
        name: "plamo2",
        recurrent: Recurrent::without_keys(Mixer::PlamoMamba),
        ignored: &[
            "ffn_up.scale",
            "ffn_gate.scale",
            "ffn_down.scale",
            "attn_qkv.scale",
            "ssm_in.scale",
            "ssm_out.scale",
        ],
        ..HALVES
    },
    Architecture {
        name: "minimax-01",
        residual_scale: ResidualScale::Key,
        recurrent: Recurrent::in_layers(Mixer::Lightning, RecurrentLayers::Except(8)),
        ignored: &["attn_qkv.scale"],
        quirk: Quirk::NormedResidual,
        ..HALVES
    },
];
