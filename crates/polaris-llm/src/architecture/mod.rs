//! Architectures as data: in what each differs from the base, which is Llama's decoder.
//!
//! The base normalises by RMS before attention and before the feed-forward network, rotates queries and keys, shares
//! keys and values among heads, and gates by SiLU. Whatever a file shows by a tensor being there (biases, norms of
//! queries and keys, norms after a part, experts, sinks) needs no word here. What is left is in [`Architecture`]; a
//! further one is a few lines in `table/`.

mod recurrent;
mod table;

pub use recurrent::{KimiDecay, Mixer, Recurrent, RecurrentLayers};
pub use table::architectures;

use polaris_ops::Pairing;
use polaris_ops::route::Gating;

use crate::{Error, Result};

/// In what an architecture differs from the base.
#[derive(Debug, Clone, PartialEq)]
pub struct Architecture {
    /// Its name in `general.architecture`.
    pub name: &'static str,
    /// Which elements of a head are rotated together; `None` without rotary embedding.
    pub rotary: Option<Pairing>,
    /// Whether files with sections of positions rotate halves.
    pub sections: bool,
    /// The layers that rotate.
    pub rotated: Rotated,
    /// Whether frequencies are divided by the factors of a file that has them.
    pub frequency_factors: bool,
    /// The frequencies of sliding layers.
    pub sliding_rotary: SlidingRotary,
    /// What files say about YaRN.
    pub yarn: YarnKeys,
    /// Whether a token sees only what is before it.
    pub causal: bool,
    /// How rows are normalised.
    pub norm: Norm,
    /// Whether attention and the feed-forward network read normalised inputs.
    pub input_norms: bool,
    /// The name of the norm before the feed-forward network.
    pub feed_forward_norm: &'static str,
    /// Whether attention and feed-forward network read the same input and are added together.
    pub parallel: Parallel,
    /// The norms of queries and keys.
    pub head_norm: HeadNorm,
    /// The window of sliding layers, and which layers slide.
    pub window: Window,
    /// Whether queries, keys and values are limited by `attention.clamp_kqv`.
    pub clamp: bool,
    /// By what scores are multiplied.
    pub attention_scale: AttentionScale,
    /// The cap of scores where the file names none; 0 for none, whatever the file says.
    pub attention_softcap: f64,
    /// The slope of ALiBi.
    pub alibi: Alibi,
    /// By what embeddings are multiplied.
    pub embedding_scale: EmbeddingScale,
    /// By what logits are multiplied.
    pub logit_scale: LogitScale,
    /// The cap of logits where the file names none, 0 for none; `None` if the file is not asked.
    pub final_softcap: Option<f64>,
    /// By what the results of attention and feed-forward network are multiplied before they are added.
    pub residual_scale: ResidualScale,
    /// The function between the two products of the feed-forward network.
    pub activation: Activation,
    /// Whether files may limit the products of gates, by `swiglu_clamp_exp` and `swiglu_clamp_shexp`.
    pub limits: bool,
    /// How experts are chosen.
    pub experts: Experts,
    /// Whether queries are scaled by their position.
    pub temperature: Temperature,
    /// What takes the place of attention in some layers.
    pub recurrent: Option<Recurrent>,
    /// Names of tensors, without those of their layers, that files may have and that have no part in the result.
    pub ignored: &'static [&'static str],
    /// What differs in a way that no other architecture shares.
    pub quirk: Quirk,
}

/// Layers that rotate queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotated {
    /// All.
    All,
    /// Those with a sliding window.
    Sliding,
    /// All but every so-manieth.
    ExceptEvery(usize),
    /// Those that `attention.rope_pattern` names, or all.
    Pattern,
    /// Sliding ones; if no layer slides, all.
    SlidingIfAny,
    /// If any layer slides, all but the first of each so many; otherwise, and in models of so many layers, all.
    ExceptFirstIfSliding(usize),
    /// Sliding ones, and the first `leading_dense_block_count`.
    SlidingOrLeading,
    /// All, in models of so many layers; otherwise none.
    InModelsOf(usize),
    /// All, unless `rope.scaling.finetuned` is false.
    Finetuned,
}

/// The frequencies of sliding layers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SlidingRotary {
    /// Those of the other layers.
    Same,
    /// `rope.freq_base_swa`, or the base of the other layers without it; scaled alike.
    Base,
    /// `rope.freq_base_swa`, or 10,000 without it; not scaled.
    Unscaled,
    /// The base of the other layers, not scaled.
    SameUnscaled,
    /// `rope.freq_base_swa`, or the base of the other layers without it; not scaled.
    BaseUnscaled,
}

/// The keys of YaRN that count beside factor, original context and the ends of the ramp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YarnKeys {
    /// None; the ends of the ramp are 32 and 1 by default.
    Plain,
    /// The multiplier of the logarithm.
    Mistral,
    /// How much of the ramp counts, whose first end is 8 by default.
    Grok,
    /// The multiplier of the logarithm, in tenths.
    DeepSeek,
    /// The same; without an effect on cosines and sines.
    DeepSeek2,
}

/// The largest slope of ALiBi, where scores fall with distance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Alibi {
    /// None.
    None,
    /// This one.
    Fixed(f64),
    /// The key `attention.max_alibi_bias`.
    Key,
    /// This one in models of so many layers.
    InModelsOf(usize, f64),
}

/// By what a part is multiplied before it is added to the residual stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ResidualScale {
    /// Nothing.
    One,
    /// The key `residual_scale`.
    Key,
    /// The key; without it, this number over the root of the number of layers.
    KeyOrRoot(f64),
    /// This number over the root of the number of layers.
    Root(f64),
}

/// How rows are normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    /// By the root of their mean square.
    Rms,
    /// By mean and variance.
    Layer,
    /// By mean and variance, without any weight.
    LayerPlain,
    /// By the root of their mean square in files that have its epsilon, otherwise by mean and variance.
    RmsOrLayer,
}

/// Whether attention and feed-forward network work on the same input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parallel {
    /// The feed-forward network reads what attention was added to.
    No,
    /// Both read the input of the layer.
    Yes,
    /// As the key `use_parallel_residual` says.
    Key,
    /// In layers that have no norm before the feed-forward network.
    WithoutNorm,
}

/// The norms of queries and keys, in files that have them. Weights as long as a head are for heads, longer ones for
/// all heads together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadNorm {
    /// By RMS, before the rotation.
    Rms,
    /// By RMS, after the rotation.
    RmsAfterRotation,
    /// By mean and variance, before the rotation.
    Layer,
}

/// Which layers slide, and how far they see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The window where the file names none; 0 if no layer slides then.
    pub default: usize,
    /// Of each so many layers one sees everything; `attention.sliding_window_pattern` may say otherwise.
    /// 0 if no layer slides, whatever the file says.
    pub period: usize,
    /// Whether it is the first of them that sees everything, not the last.
    pub first: bool,
    /// Whether layers see the chunk that they are in, not what is near.
    pub chunks: bool,
    /// Whether the pattern may be a list with an entry for each layer.
    pub list: bool,
    /// Layers slide in models of so many layers only; 0 for any.
    pub layers: usize,
    /// The window, whichever the file names; 0 for that.
    pub fixed: usize,
}

impl Window {
    /// No layer slides.
    pub const NONE: Self = Self {
        default: 0,
        period: 0,
        first: false,
        chunks: false,
        list: false,
        layers: 0,
        fixed: 0,
    };

    /// The last of each so many layers sees everything, if the file names a window.
    pub const fn period(period: usize) -> Self {
        Self { period, ..Self::NONE }
    }
}

/// By what scores are multiplied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AttentionScale {
    /// `1 / sqrt(size of a head)`.
    Head,
    /// The key `attention.scale`; as [`AttentionScale::Head`] without it.
    Key,
    /// As [`AttentionScale::Head`], but for models of so many layers: `1 / sqrt(width / heads)`.
    WidthIn(usize),
    /// The key `attention.output_scale`, or this number without it.
    OutputKey(f64),
    /// `1 / size of a head`.
    Inverse,
    /// As [`AttentionScale::Head`], and twice the temperature of YaRN.
    Yarn,
    /// 1.
    One,
}

/// By what embeddings are multiplied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EmbeddingScale {
    /// Nothing.
    One,
    /// The root of the width.
    Root,
    /// The key `embedding_scale`, or this number without it.
    Key(f64),
    /// This number.
    Fixed(f64),
}

/// By what logits are multiplied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LogitScale {
    /// Nothing.
    One,
    /// The key `logit_scale`.
    Multiply,
    /// The inverse of the key `logit_scale`.
    Divide,
    /// The inverse of the key; without it, the width over this number.
    DivideOrWidth(f64),
    /// The key, or this number without it.
    MultiplyOr(f64),
    /// This number over the width.
    OverWidth(f64),
}

/// A function between two products.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// GELU by its approximation with tanh.
    Gelu,
    /// GELU by the error function.
    GeluErf,
    /// `x * sigmoid(1.702 x)`.
    GeluQuick,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)` squared.
    ReluSquared,
    /// `g sigmoid(1.702 g) (u + 1)` with g at most 7 and u between -7 and 7.
    ClampedSwiglu,
    /// xIELU, with parameters of each layer.
    Xielu,
    /// `b tanh(g / b) sigmoid(g) c tanh(u / c)`, with b and c from `activation.situ_beta` and `situ_linear_beta`.
    Situ,
}

/// How experts are chosen and weighted where the file does not say so.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Experts {
    /// From logits to probabilities.
    pub gating: Gating,
    /// Whether the weights of the chosen ones are divided by their sum.
    pub normalize: Normalize,
    /// The activation of experts, where it is not that of dense layers.
    pub activation: Option<Activation>,
    /// Whether weights are applied to the input of experts, not to their result.
    pub weigh_input: bool,
    /// The factor of their weights where the file names none; `None` if the file is not asked.
    pub scale: Option<f64>,
    /// Whether the file may name the gating.
    pub reads_gating: bool,
    /// Whether files may have a factor for each expert.
    pub scales: bool,
    /// Whether a layer is a mixture only if it is the last of each `interleave_moe_layer_step`.
    pub interleaved: bool,
    /// Whether layers are dense, though files may have experts.
    pub never: bool,
    /// By what the sum of a mixture and its shared experts is multiplied.
    pub shared_share: f64,
    /// By what the sum of a mixture and a dense network beside it is multiplied; 0 if both are not together.
    pub beside_dense: f64,
}

/// Whether the weights of chosen experts are divided by their sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalize {
    /// Yes.
    Yes,
    /// No.
    No,
    /// As the key `expert_weights_norm` says; without it, no.
    Key,
}

/// How queries are scaled by their position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Temperature {
    /// Not at all.
    None,
    /// `1 + scale log(1 + floor((position + offset) / length))`, in layers that do not rotate.
    Unrotated {
        /// The scale.
        scale: f64,
        /// The length.
        length: f64,
        /// What is added to positions.
        offset: f64,
    },
    /// The same in all layers with `attention.temperature_scale` and the original context, if the file has the key.
    Key,
    /// As [`Temperature::Key`] with `attention.temperature_length`.
    LengthKey,
}

/// Something that one architecture has alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quirk {
    /// Nothing.
    None,
    /// The output is the embedding, whether or not the file has another.
    TiedOutput,
    /// The first norm is for the feed-forward network, and `attn_norm_2`, if it is there, for attention.
    Falcon,
    /// The base of frequencies grows by `rope.scaling.alpha`.
    Hunyuan,
    /// `attn_output_norm` is for the result of attention, `layer_output_norm` for that of the network.
    Grok,
    /// Norms have no weights; the normalised embedding is added again in each layer.
    Talkie,
    /// In layers that rotate, queries and keys are normalised without weights, unless there are 128 experts.
    Llama4,
    /// Experts read the input of the layer by a norm of their own, beside a dense network.
    Arctic,
    /// The router reads the input of the layer.
    RouterFirst,
    /// The gate of attention is `log(1 + exp(x))`, not the sigmoid.
    SoftplusGate,
    /// A layer is attention, a recurrent part or a feed-forward network alone.
    OnePart,
    /// The norm after the last layer has the name of that of the embedding.
    EmbeddingNormLast,
    /// The residual stream is what parts read, normalised, times `residual_scale`.
    NormedResidual,
    /// Layers may lack attention (0 heads), have a matrix in its place (0 heads of keys), or lack the network (0 wide).
    Deci,
    /// The output is the embedding, if the file has no other.
    EmbeddingOfOutput,
    /// What attention adds is multiplied by `attention.value_scale`.
    ValueScale,
    /// Layers that see everything rotate half of what the file says.
    HalfRotated,
    /// The result of the experts goes through smaller ones, each for a group of them.
    Grove,
    /// Layers that share keys and values, values with a norm, inputs of each layer from a second table.
    Gemma4,
    /// The same, and four streams beside each other.
    Gemma3n,
    /// Layers read a mixture of the residual stream and of what it was before; see `plan/residual.rs`.
    ResidualAttention,
    /// The output has rows for the last tokens only; the others have logits of negative infinity.
    LastOutputs,
}

/// Llama's decoder.
pub const BASE: Architecture = Architecture {
    name: "llama",
    rotary: Some(Pairing::Adjacent),
    sections: false,
    rotated: Rotated::All,
    frequency_factors: true,
    sliding_rotary: SlidingRotary::Same,
    yarn: YarnKeys::Plain,
    causal: true,
    norm: Norm::Rms,
    input_norms: true,
    feed_forward_norm: "ffn_norm",
    parallel: Parallel::No,
    head_norm: HeadNorm::Rms,
    window: Window::NONE,
    clamp: false,
    attention_scale: AttentionScale::Head,
    attention_softcap: 0.0,
    alibi: Alibi::None,
    embedding_scale: EmbeddingScale::One,
    logit_scale: LogitScale::One,
    final_softcap: None,
    residual_scale: ResidualScale::One,
    activation: Activation::Silu,
    limits: false,
    experts: Experts {
        gating: Gating::Softmax,
        normalize: Normalize::Yes,
        activation: None,
        weigh_input: false,
        scale: None,
        reads_gating: false,
        scales: false,
        interleaved: false,
        never: false,
        shared_share: 1.0,
        beside_dense: 0.0,
    },
    temperature: Temperature::None,
    recurrent: None,
    ignored: &[],
    quirk: Quirk::None,
};

/// The architecture of a name.
///
/// # Errors
/// If it is not supported.
pub fn find(name: &str) -> Result<&'static Architecture> {
    architectures().find(|architecture| architecture.name == name).ok_or_else(|| {
        let mut known: Vec<&str> = architectures().map(|known| known.name).collect();
        known.sort_unstable();
        let name = polaris_core::printable(name).to_string();
        Error::UnknownArchitecture { name, known: known.join(", ") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (i, architecture) in architectures().enumerate() {
            assert_eq!(find(architecture.name).unwrap(), architecture);
            assert!(architectures().take(i).all(|other| other.name != architecture.name));
        }
        let error = find("nonsense\u{1b}[1m").unwrap_err().to_string();
        assert!(error.contains("llama") && !error.contains('\u{1b}'), "{error}");
    }
}
