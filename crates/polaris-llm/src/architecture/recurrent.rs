//! Recurrent parts of architectures: what takes the place of attention, and in which layers.

/// What an architecture has in the place of attention, or beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recurrent {
    /// What it is.
    pub mixer: Mixer,
    /// The layers that have it.
    pub layers: RecurrentLayers,
}

/// A part of a layer that carries a state of fixed size from token to token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mixer {
    /// A short convolution between two gates: LFM2.
    ShortConv,
    /// A gated delta net: Qwen 3.5 with heads that share keys in tiles, Qwen3-Next with neighbours that do.
    GatedDelta {
        /// Whether every so-manieth head shares keys, not neighbours.
        tiled: bool,
    },
    /// The delta rule with a decay for each key: Kimi Linear and those that follow it.
    KimiDelta(KimiDecay),
    /// Mamba 1: a step of time for each channel.
    Mamba,
    /// Mamba 2: heads with a step of time each.
    Mamba2,
    /// Mamba 2 with steps, keys and queries from the values, as PLaMo 2 has it.
    PlamoMamba,
    /// Linear attention whose decay each head has fixed: MiniMax-01.
    Lightning,
}

/// The logarithm of the decay of Kimi delta attention, from a step of time for each key and a rate for each head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KimiDecay {
    /// `rate * log(1 + exp(step))`, with rates below 0: Kimi Linear.
    Softplus,
    /// `lowest * sigmoid(-rate * step)` with `kda.gate_lower_bound`, as [`KimiDecay::Softplus`] without it: Kimi K3.
    BoundedByKey,
    /// `lowest * sigmoid(rate * step)` with `kda.gate_lower_bound`: Ling 3.
    Bounded,
}

/// The layers that are recurrent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecurrentLayers {
    /// All, and none attends.
    All,
    /// All, beside attention.
    Beside,
    /// Those without heads of keys.
    WithoutKeys,
    /// Those that `attention.recurrent_layers` names; without it, all but the last of each `full_attention_interval`,
    /// or of each so many.
    Except(usize),
}

impl Recurrent {
    /// A mixer in layers without heads of keys.
    pub const fn without_keys(mixer: Mixer) -> Option<Self> {
        Some(Self { mixer, layers: RecurrentLayers::WithoutKeys })
    }

    /// A mixer in some layers.
    pub const fn in_layers(mixer: Mixer, layers: RecurrentLayers) -> Option<Self> {
        Some(Self { mixer, layers })
    }
}
