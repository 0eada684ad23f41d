//! Dense decoders that are the base, or GPT-2, but for a few parts.

use polaris_ops::Pairing::{Adjacent, Halves};

use super::{
    ADJACENT, COHERE, GPT, HALVES, PLAIN, SCALED, SCALES_AND_BIASES, SCALES_AND_OUTPUT, scales_and,
};
use crate::architecture::{
    Activation, Alibi, Architecture, AttentionScale, BASE, Experts, HeadNorm, LogitScale, Norm,
    Parallel, Quirk, Rotated, SlidingRotary, Temperature, Window, YarnKeys,
};

/// The same, and the weights for pictures.
const VISION: &[&str] = scales_and!(
    "attn_qkv.scale",
    "vis_attn_qkv.weight",
    "vis_attn_output.weight",
    "vis_gate.weight",
    "vis_up.weight",
    "vis_down.weight"
);

pub(super) const DENSE: &[Architecture] = &[
    Architecture { experts: SCALED, ..BASE },
    Architecture { name: "xverse", ..ADJACENT },
    Architecture { name: "internlm2", ..ADJACENT },
    Architecture { name: "ernie4_5", ignored: SCALES_AND_OUTPUT, ..ADJACENT },
    Architecture { name: "chatglm", ..ADJACENT },
    Architecture { name: "glm4", sections: true, ..ADJACENT },
    Architecture { name: "smollm3", rotated: Rotated::ExceptEvery(4), ..ADJACENT },
    Architecture { name: "maincoder", head_norm: HeadNorm::RmsAfterRotation, ..ADJACENT },
    Architecture { name: "nanbeige", ..BASE },
    Architecture {
        name: "deci",
        attention_scale: AttentionScale::Key,
        quirk: Quirk::Deci,
        ..PLAIN
    },
    Architecture { name: "pangu-embedded", ..HALVES },
    Architecture { name: "plamo", parallel: Parallel::Yes, ..HALVES },
    Architecture { name: "arcee", activation: Activation::ReluSquared, ..PLAIN },
    Architecture { name: "qwen", ..HALVES },
    Architecture { name: "qwen2", ..HALVES },
    Architecture { name: "qwen2vl", ..HALVES },
    Architecture { name: "qwen3", ignored: &[], ..HALVES },
    Architecture { name: "qwen3vl", ..HALVES },
    Architecture { name: "qwen3tts", quirk: Quirk::LastOutputs, ..HALVES },
    Architecture { name: "paddleocr", ..HALVES },
    Architecture { name: "exaone", frequency_factors: true, ..HALVES },
    Architecture { name: "phi3", frequency_factors: true, ..HALVES },
    Architecture { name: "seed_oss", feed_forward_norm: "post_attention_norm", ..HALVES },
    Architecture { name: "olmo", norm: Norm::LayerPlain, clamp: true, ..ADJACENT },
    Architecture {
        name: "olmo2",
        input_norms: false,
        window: Window::period(4),
        sliding_rotary: SlidingRotary::SameUnscaled,
        ..HALVES
    },
    Architecture {
        name: "exaone4",
        input_norms: false,
        frequency_factors: true,
        rotated: Rotated::SlidingIfAny,
        window: Window { default: 4096, layers: 64, ..Window::period(4) },
        ..HALVES
    },
    Architecture { name: "bitnet", ignored: &[], quirk: Quirk::TiedOutput, ..HALVES },
    Architecture {
        name: "openelm",
        quirk: Quirk::TiedOutput,
        ignored: scales_and!("attn_qkv.scale"),
        ..HALVES
    },
    Architecture {
        name: "plamo3",
        window: Window::period(8),
        sliding_rotary: SlidingRotary::Unscaled,
        ..HALVES
    },
    Architecture {
        name: "apertus",
        activation: Activation::Xielu,
        frequency_factors: true,
        ..HALVES
    },
    Architecture {
        name: "hunyuan_vl",
        head_norm: HeadNorm::RmsAfterRotation,
        quirk: Quirk::Hunyuan,
        ..HALVES
    },
    Architecture { name: "hunyuan-moe", head_norm: HeadNorm::RmsAfterRotation, ..HALVES },
    Architecture {
        name: "hunyuan-dense",
        head_norm: HeadNorm::RmsAfterRotation,
        quirk: Quirk::Hunyuan,
        ..HALVES
    },
    Architecture {
        name: "mistral3",
        temperature: Temperature::Key,
        yarn: YarnKeys::Mistral,
        experts: SCALED,
        ..BASE
    },
    Architecture {
        name: "baichuan",
        rotated: Rotated::InModelsOf(32),
        alibi: Alibi::InModelsOf(40, 8.0),
        ..ADJACENT
    },
    Architecture {
        name: "refact",
        rotary: None,
        alibi: Alibi::Fixed(8.0),
        experts: Experts { never: true, ..BASE.experts },
        ignored: SCALES_AND_BIASES,
        ..ADJACENT
    },
    Architecture {
        name: "talkie",
        head_norm: HeadNorm::RmsAfterRotation,
        logit_scale: LogitScale::Multiply,
        ignored: &["ffn_up.scale", "ffn_gate.scale"],
        quirk: Quirk::Talkie,
        ..HALVES
    },
    Architecture { name: "cogvlm", ignored: VISION, ..HALVES },
    Architecture { name: "gpt2", ..GPT },
    Architecture { name: "starcoder", ..GPT },
    Architecture { name: "bloom", alibi: Alibi::Fixed(8.0), ..GPT },
    Architecture { name: "mpt", alibi: Alibi::Key, clamp: true, ..GPT },
    Architecture {
        name: "jais",
        alibi: Alibi::Key,
        activation: Activation::Silu,
        attention_scale: AttentionScale::Inverse,
        ..GPT
    },
    Architecture { name: "pockettts", rotary: Some(Adjacent), ..GPT },
    Architecture { name: "gptneox", rotary: Some(Halves), parallel: Parallel::Key, ..GPT },
    Architecture { name: "starcoder2", rotary: Some(Halves), ..GPT },
    Architecture {
        name: "codeshell",
        rotary: Some(Halves),
        frequency_factors: true,
        quirk: Quirk::EmbeddingOfOutput,
        ..GPT
    },
    Architecture { name: "phi2", rotary: Some(Halves), parallel: Parallel::Yes, ..GPT },
    Architecture {
        name: "falcon",
        rotary: Some(Halves),
        parallel: Parallel::Yes,
        quirk: Quirk::Falcon,
        ..GPT
    },
    Architecture {
        name: "jais2",
        rotary: Some(Halves),
        activation: Activation::ReluSquared,
        ..GPT
    },
    Architecture {
        name: "nemotron",
        rotary: Some(Halves),
        activation: Activation::ReluSquared,
        ..GPT
    },
    Architecture { name: "orion", rotary: Some(Halves), activation: Activation::Silu, ..GPT },
    Architecture {
        name: "stablelm",
        rotary: Some(Halves),
        activation: Activation::Silu,
        parallel: Parallel::WithoutNorm,
        ..GPT
    },
    Architecture { name: "command-r", ..COHERE },
    Architecture {
        name: "cohere2",
        ignored: &[],
        rotated: Rotated::Sliding,
        window: Window::period(4),
        ..COHERE
    },
];
