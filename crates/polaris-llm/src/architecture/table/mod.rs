//! The architectures, and what several families of them share. Facts are those of the models' publications and of
//! files that llama.cpp writes and reads.

mod dense;
mod latent;
mod mixtures;
mod recurrent;
mod scaled;

use polaris_ops::Pairing::Halves;
use polaris_ops::route::Gating;

use super::{
    Activation, Architecture, AttentionScale, BASE, EmbeddingScale, Experts, HeadNorm, LogitScale,
    Norm, Normalize, Parallel, Quirk, ResidualScale,
};

/// Scales of the feed-forward network, which only files in NVFP4 have, and which most architectures do not use.
macro_rules! scales_and {
    ($($name:literal),*) => {
        &[
            "ffn_up.scale",
            "ffn_gate.scale",
            "ffn_down.scale",
            "ffn_up_shexp.scale",
            "ffn_gate_shexp.scale",
            "ffn_down_shexp.scale",
            $($name),*
        ]
    };
}
use scales_and;

/// These scales alone.
const SCALES: &[&str] = scales_and!();
/// The same, and the bias of the projection after attention.
const SCALES_AND_OUTPUT: &[&str] = scales_and!("attn_output.bias");
/// The same, and biases and scales of queries, keys and values.
const SCALES_AND_INPUTS: &[&str] = scales_and!(
    "attn_q.bias",
    "attn_k.bias",
    "attn_v.bias",
    "attn_q.scale",
    "attn_k.scale",
    "attn_v.scale"
);
/// The same, and biases of the feed-forward network.
const SCALES_AND_BIASES: &[&str] =
    scales_and!("attn_output.bias", "ffn_up.bias", "ffn_gate.bias", "ffn_down.bias");

/// The base with neighbours in rotation, and without factors of frequencies.
const ADJACENT: Architecture = Architecture { frequency_factors: false, ignored: SCALES, ..BASE };
/// The base but for scales.
const PLAIN: Architecture = Architecture { ignored: SCALES, ..BASE };
/// The base with halves in rotation, and without factors of frequencies.
const HALVES: Architecture = Architecture { rotary: Some(Halves), ..ADJACENT };
/// GPT-2: layer norms, GELU, positions in a table.
const GPT: Architecture = Architecture {
    rotary: None,
    norm: Norm::Layer,
    head_norm: HeadNorm::Layer,
    activation: Activation::Gelu,
    ..ADJACENT
};
/// Granite: four scalars.
const GRANITE: Architecture = Architecture {
    embedding_scale: EmbeddingScale::Key(1.0),
    residual_scale: ResidualScale::Key,
    attention_scale: AttentionScale::Key,
    logit_scale: LogitScale::Divide,
    ..PLAIN
};
/// Cohere: parallel, layer norms without bias, scaled logits.
const COHERE: Architecture = Architecture {
    norm: Norm::Layer,
    parallel: Parallel::Yes,
    head_norm: HeadNorm::Layer,
    logit_scale: LogitScale::Multiply,
    quirk: Quirk::TiedOutput,
    ..ADJACENT
};
/// Experts that may have scales.
const SCALED: Experts = Experts { scales: true, ..BASE.experts };
/// Experts whose weights are not normalised.
const UNNORMALIZED: Experts = Experts { normalize: Normalize::No, ..BASE.experts };
/// Experts of DeepSeek and those that followed it: sigmoid, and a key that says whether weights are normalised.
const SIGMOID: Experts = Experts {
    gating: Gating::Sigmoid,
    normalize: Normalize::Key,
    scale: Some(1.0),
    reads_gating: true,
    ..BASE.experts
};

/// Every architecture, by family.
const FAMILIES: [&[Architecture]; 5] =
    [dense::DENSE, scaled::SCALARS, mixtures::MIXTURES, recurrent::RECURRENT, latent::LATENT];

/// Every architecture.
pub fn architectures() -> impl Iterator<Item = &'static Architecture> {
    FAMILIES.into_iter().flatten()
}
