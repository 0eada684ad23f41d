//! Decoders with compressed keys and values, and diffusion models.

use polaris_ops::Pairing::Adjacent;
use polaris_ops::route::Gating;

use super::{ADJACENT, HALVES, SCALES_AND_BIASES, SIGMOID, UNNORMALIZED, scales_and};
use crate::architecture::{
    Activation, Architecture, AttentionScale, EmbeddingScale, Experts, LogitScale, Quirk,
    ResidualScale, Temperature, YarnKeys,
};

/// The same, and the bias of logits.
const SCALES_AND_LOGITS: &[&str] = scales_and!("output.bias");
/// DeepSeek: compressed keys and values, experts of its kind.
const DEEPSEEK: Architecture = Architecture {
    attention_scale: AttentionScale::Yarn,
    yarn: YarnKeys::DeepSeek,
    experts: Experts { gating: Gating::Softmax, ..SIGMOID },
    ..ADJACENT
};
/// Diffusion: all tokens see each other.
const DIFFUSION: Architecture = Architecture { causal: false, ..HALVES };

pub(super) const LATENT: &[Architecture] = &[
    Architecture {
        name: "deepseek2",
        yarn: YarnKeys::DeepSeek2,
        temperature: Temperature::LengthKey,
        ..DEEPSEEK
    },
    Architecture { name: "mistral4", temperature: Temperature::LengthKey, ..DEEPSEEK },
    Architecture {
        name: "deepseek32",
        experts: Experts { gating: Gating::Softmax, scales: true, ..SIGMOID },
        ignored: &[],
        ..DEEPSEEK
    },
    Architecture {
        name: "glm-dsa",
        yarn: YarnKeys::Plain,
        experts: Experts { scales: true, ..SIGMOID },
        ignored: &[],
        ..DEEPSEEK
    },
    Architecture { name: "deepseek2-ocr", experts: DEEPSEEK.experts, ..HALVES },
    Architecture {
        name: "minicpm3",
        frequency_factors: true,
        embedding_scale: EmbeddingScale::Fixed(12.0),
        residual_scale: ResidualScale::Root(1.4),
        logit_scale: LogitScale::OverWidth(256.0),
        ..HALVES
    },
    Architecture {
        name: "plm",
        activation: Activation::ReluSquared,
        quirk: Quirk::TiedOutput,
        ..ADJACENT
    },
    // Diffusion.
    Architecture { name: "dream", ignored: SCALES_AND_LOGITS, ..DIFFUSION },
    Architecture { name: "llada", rotary: Some(Adjacent), ignored: SCALES_AND_BIASES, ..DIFFUSION },
    Architecture { name: "llada-moe", experts: UNNORMALIZED, ..DIFFUSION },
    Architecture { name: "rnd1", ..DIFFUSION },
];
