//! Dense decoders with scalars: Gemma, Granite and MiniCPM.

use super::{GRANITE, HALVES, PLAIN, SCALED};
use crate::architecture::{
    Activation, Architecture, AttentionScale, EmbeddingScale, LogitScale, Quirk, ResidualScale,
    Rotated, SlidingRotary, Window,
};

/// Gemma: scaled embeddings, GELU.
const GEMMA: Architecture = Architecture {
    embedding_scale: EmbeddingScale::Root,
    activation: Activation::Gelu,
    quirk: Quirk::TiedOutput,
    ..HALVES
};

pub(super) const SCALARS: &[Architecture] = &[
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
];
