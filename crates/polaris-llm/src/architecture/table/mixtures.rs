//! Mixtures of experts.

use polaris_ops::route::Gating;

use super::{
    ADJACENT, COHERE, HALVES, PLAIN, SCALED, SCALES_AND_INPUTS, SCALES_AND_OUTPUT, SIGMOID,
    UNNORMALIZED,
};
use crate::architecture::{
    Activation, Architecture, AttentionScale, BASE, EmbeddingScale, Experts, LogitScale, Norm,
    Normalize, Quirk, Rotated, SlidingRotary, Temperature, Window, YarnKeys,
};

pub(super) const MIXTURES: &[Architecture] = &[
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
];
