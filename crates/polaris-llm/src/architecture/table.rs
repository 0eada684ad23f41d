//! The architectures. Facts are those of the models' publications and of files that llama.cpp writes and reads.

use polaris_ops::Pairing::{Adjacent, Halves};
use polaris_ops::route::Gating;

use super::{
    Activation, Alibi, Architecture, AttentionScale, BASE, EmbeddingScale, Experts, HeadNorm,
    LogitScale, Mixer, Norm, Normalize, Parallel, Quirk, Recurrent, RecurrentLayers, ResidualScale,
    Rotated, SlidingRotary, Temperature, Window, YarnKeys,
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

const SCALES: &[&str] = scales_and!();
/// The same, and the bias of the projection after attention.
const SCALES_AND_OUTPUT: &[&str] = scales_and!("attn_output.bias");
/// The same, and all biases of queries, keys and values.
const SCALES_AND_INPUTS: &[&str] = scales_and!("attn_q.bias", "attn_k.bias", "attn_v.bias");
/// The same, and biases of the feed-forward network.
const SCALES_AND_BIASES: &[&str] =
    scales_and!("attn_output.bias", "ffn_up.bias", "ffn_gate.bias", "ffn_down.bias");
/// The same, and the bias of logits.
const SCALES_AND_LOGITS: &[&str] = scales_and!("output.bias");
/// The same, and the weights for pictures.
const VISION: &[&str] = scales_and!(
    "attn_qkv.scale",
    "vis_attn_qkv.weight",
    "vis_attn_output.weight",
    "vis_gate.weight",
    "vis_up.weight",
    "vis_down.weight"
);

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
/// Gemma: scaled embeddings, GELU.
const GEMMA: Architecture = Architecture {
    embedding_scale: EmbeddingScale::Root,
    activation: Activation::Gelu,
    quirk: Quirk::TiedOutput,
    ..HALVES
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

/// Biases that files of Qwen's hybrids may have and that do not count.
const QWEN_BIASES: &[&str] = &["attn_q.bias", "attn_k.bias", "attn_v.bias"];
/// Qwen 3.5: gated delta nets, and attention with gates in every fourth layer.
const QWEN_HYBRID: Architecture = Architecture {
    feed_forward_norm: "post_attention_norm",
    attention_scale: AttentionScale::Key,
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
/// DeepSeek: compressed keys and values, experts of its kind.
const DEEPSEEK: Architecture = Architecture {
    attention_scale: AttentionScale::Yarn,
    yarn: YarnKeys::DeepSeek,
    experts: Experts { gating: Gating::Softmax, ..SIGMOID },
    ..ADJACENT
};
/// Diffusion: all tokens see each other.
const DIFFUSION: Architecture = Architecture { causal: false, ..HALVES };

/// Every architecture.
pub const ARCHITECTURES: &[Architecture] = &[
    Architecture { experts: SCALED, ..BASE },
    // Dense decoders that are the base but for the pairing.
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
    Architecture { name: "openelm", quirk: Quirk::TiedOutput, ..HALVES },
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
    // With layer norms.
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
    // With scalars.
    Architecture { name: "gemma", ..GEMMA },
    Architecture {
        name: "gemma2",
        attention_scale: AttentionScale::WidthIn(46),
        attention_softcap: 50.0,
        final_softcap: Some(30.0),
        window: Window { default: 4096, ..Window::period(2) },
        sliding_rotary: SlidingRotary::Base,
        ..GEMMA
    },
    Architecture {
        name: "gemma3",
        attention_scale: AttentionScale::WidthIn(62),
        final_softcap: Some(0.0),
        window: Window::period(6),
        sliding_rotary: SlidingRotary::Unscaled,
        quirk: Quirk::None,
        ..GEMMA
    },
    Architecture {
        name: "gemma3n",
        attention_scale: AttentionScale::One,
        final_softcap: Some(30.0),
        window: Window::period(5),
        sliding_rotary: SlidingRotary::Unscaled,
        quirk: Quirk::Gemma3n,
        ..GEMMA
    },
    Architecture {
        name: "gemma4",
        attention_scale: AttentionScale::One,
        final_softcap: Some(30.0),
        frequency_factors: true,
        window: Window { list: true, ..Window::period(1) },
        sliding_rotary: SlidingRotary::Unscaled,
        experts: SCALED,
        ignored: &[],
        quirk: Quirk::Gemma4,
        ..GEMMA
    },
    Architecture { name: "granite", rotated: Rotated::Finetuned, ..GRANITE },
    Architecture { name: "granitemoe", ..GRANITE },
    Architecture {
        name: "granite_swa",
        rotated: Rotated::Pattern,
        window: Window { list: true, ..Window::period(1) },
        ..GRANITE
    },
    Architecture {
        name: "minicpm",
        embedding_scale: EmbeddingScale::Key(12.0),
        residual_scale: ResidualScale::KeyOrRoot(1.4),
        logit_scale: LogitScale::DivideOrWidth(256.0),
        ..PLAIN
    },
    // Mixtures.
    Architecture { name: "qwen2moe", experts: UNNORMALIZED, ..HALVES },
    Architecture { name: "qwen3moe", experts: SCALED, ..HALVES },
    Architecture {
        name: "mellum",
        experts: SCALED,
        window: Window { list: true, ..Window::period(1) },
        sliding_rotary: SlidingRotary::SameUnscaled,
        ..HALVES
    },
    Architecture { name: "olmoe", experts: UNNORMALIZED, ignored: SCALES_AND_INPUTS, ..HALVES },
    Architecture { name: "qwen3vlmoe", ..HALVES },
    Architecture {
        name: "bailingmoe",
        experts: Experts { normalize: Normalize::Key, scale: Some(1.0), ..BASE.experts },
        ..ADJACENT
    },
    Architecture { name: "bailingmoe2", experts: SIGMOID, ..HALVES },
    Architecture {
        name: "deepseek",
        experts: Experts { scale: Some(1.0), ..UNNORMALIZED },
        ..ADJACENT
    },
    Architecture { name: "dots1", experts: SIGMOID, ..HALVES },
    Architecture {
        name: "minimax-m2",
        experts: Experts { normalize: Normalize::Yes, scale: None, ..SIGMOID },
        ignored: SCALES_AND_INPUTS,
        ..HALVES
    },
    Architecture { name: "arctic", quirk: Quirk::Arctic, ..ADJACENT },
    Architecture {
        name: "smallthinker",
        rotated: Rotated::ExceptFirstIfSliding(4),
        window: Window { first: true, fixed: 4096, ..Window::period(4) },
        sliding_rotary: SlidingRotary::Base,
        experts: Experts {
            gating: Gating::Softmax,
            reads_gating: true,
            activation: Some(Activation::Relu),
            ..BASE.experts
        },
        quirk: Quirk::RouterFirst,
        ..HALVES
    },
    Architecture {
        name: "afmoe",
        rotated: Rotated::ExceptEvery(4),
        window: Window::period(4),
        sliding_rotary: SlidingRotary::Base,
        embedding_scale: EmbeddingScale::Root,
        experts: SIGMOID,
        ..HALVES
    },
    Architecture {
        name: "exaone-moe",
        frequency_factors: true,
        rotated: Rotated::Sliding,
        window: Window::period(4),
        experts: SIGMOID,
        ..HALVES
    },
    Architecture {
        name: "laguna",
        window: Window { first: true, ..Window::period(4) },
        sliding_rotary: SlidingRotary::BaseUnscaled,
        experts: SIGMOID,
        quirk: Quirk::SoftplusGate,
        ..HALVES
    },
    Architecture { name: "phimoe", frequency_factors: true, ..HALVES },
    Architecture {
        name: "dbrx",
        norm: Norm::Layer,
        feed_forward_norm: "attn_output_norm",
        clamp: true,
        ..HALVES
    },
    Architecture {
        name: "ernie4_5-moe",
        experts: Experts { interleaved: true, ..BASE.experts },
        ignored: SCALES_AND_OUTPUT,
        ..ADJACENT
    },
    Architecture {
        name: "glm4moe",
        feed_forward_norm: "post_attention_norm",
        experts: SIGMOID,
        ..HALVES
    },
    Architecture {
        name: "hy_v3",
        experts: Experts { scales: true, ..SIGMOID },
        ignored: &[],
        ..HALVES
    },
    Architecture {
        name: "gpt-oss",
        feed_forward_norm: "post_attention_norm",
        window: Window::period(2),
        sliding_rotary: SlidingRotary::Base,
        activation: Activation::ClampedSwiglu,
        experts: Experts {
            gating: Gating::SoftmaxOfChosen,
            normalize: Normalize::No,
            ..BASE.experts
        },
        ..HALVES
    },
    Architecture {
        name: "llama4",
        rotated: Rotated::ExceptEvery(4),
        window: Window { default: 8192, fixed: 8192, chunks: true, ..Window::period(4) },
        sliding_rotary: SlidingRotary::Base,
        temperature: Temperature::Unrotated { scale: 0.1, length: 8192.0, offset: 1.0 },
        experts: Experts {
            gating: Gating::Sigmoid,
            normalize: Normalize::No,
            weigh_input: true,
            interleaved: true,
            ..BASE.experts
        },
        quirk: Quirk::Llama4,
        ..PLAIN
    },
    Architecture {
        name: "grok",
        yarn: YarnKeys::Grok,
        attention_scale: AttentionScale::OutputKey(0.088_388_347_648_318_45),
        attention_softcap: 30.0,
        final_softcap: Some(0.0),
        embedding_scale: EmbeddingScale::Key(78.383_671_769_061_69),
        logit_scale: LogitScale::MultiplyOr(0.577_350_269_189_625_7),
        activation: Activation::Gelu,
        experts: Experts { beside_dense: std::f64::consts::FRAC_1_SQRT_2, ..BASE.experts },
        quirk: Quirk::Grok,
        ..HALVES
    },
    // With recurrent layers.
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
    Architecture {
        name: "cohere2moe",
        norm: Norm::RmsOrLayer,
        rotated: Rotated::SlidingOrLeading,
        window: Window { first: true, list: true, ..Window::period(4) },
        experts: Experts { shared_share: 0.5, scales: true, ..SIGMOID },
        ignored: &[],
        quirk: Quirk::None,
        ..COHERE
    },
    Architecture {
        name: "mimo2",
        window: Window { list: true, ..Window::period(1) },
        sliding_rotary: SlidingRotary::Unscaled,
        experts: Experts { gating: Gating::Sigmoid, ..BASE.experts },
        quirk: Quirk::ValueScale,
        ..HALVES
    },
    Architecture {
        name: "step35",
        frequency_factors: true,
        window: Window { list: true, ..Window::period(1) },
        sliding_rotary: SlidingRotary::Unscaled,
        limits: true,
        experts: SIGMOID,
        quirk: Quirk::HalfRotated,
        ..HALVES
    },
    Architecture { name: "grovemoe", quirk: Quirk::Grove, ..HALVES },
    Architecture {
        name: "minimax-m3",
        activation: Activation::ClampedSwiglu,
        experts: SIGMOID,
        ..HALVES
    },
    // With compressed keys and values.
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
