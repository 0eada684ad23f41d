//! The sizes of recurrent layers, from a model's metadata.

use polaris_ops::causal_conv::MOST_TAPS;

use crate::architecture::{KimiDecay, Mixer, Quirk, Recurrent, RecurrentLayers};
use crate::config::{Config, Keys, MOST_ELEMENTS, switches};
use crate::weights::Weights;
use crate::{Error, Result};

/// The sizes of the recurrent part of a layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Recurrence {
    /// What it is.
    pub mixer: Mixer,
    /// Taps of the convolution along tokens; 0 without one.
    pub taps: usize,
    /// Channels of the convolution.
    pub channels: usize,
    /// Groups of heads that share keys and queries.
    pub groups: usize,
    /// Heads, each with a state.
    pub heads: usize,
    /// Rows of a head's state, one for each element of a key; 0 if there is a convolution alone.
    pub keys: usize,
    /// Columns of a head's state, one for each element of a value.
    pub values: usize,
    /// The lowest logarithm of a decay, of architectures that bound it.
    pub lowest_decay: Option<f64>,
}

impl Recurrence {
    /// Elements of what a sequence keeps: inputs of the convolution, and states.
    pub fn elements(&self) -> u64 {
        let tail = self.taps.saturating_sub(1) as u64 * self.channels as u64;
        tail + self.keys as u64 * self.heads as u64 * self.values as u64
    }

    /// Values of all heads together.
    pub fn inner(&self) -> usize {
        self.heads * self.values
    }

    /// Refuses sizes that do not fit together, or whose products are beyond what a file may ask for.
    fn checked(self, what: &str) -> Result<Self> {
        let has_conv = self.mixer != Mixer::Lightning;
        let product = |numbers: &[usize]| {
            numbers.iter().try_fold(1usize, |product, &number| product.checked_mul(number))
        };
        let fits = |numbers: &[usize]| product(numbers).is_some_and(|n| n <= MOST_ELEMENTS);
        let are_sizes = self.heads > 0 && self.groups > 0 && self.values > 0;
        if !are_sizes
            || !self.heads.is_multiple_of(self.groups)
            || has_conv && !(2..=MOST_TAPS).contains(&self.taps)
            || !fits(&[self.keys, self.heads, self.values])
            || !fits(&[self.taps, self.channels])
        {
            return Err(Error::model(format!("its recurrent layers have {what}, which cannot be")));
        }
        Ok(self)
    }
}

/// Compares the sizes of states, which are allocated before plans are made, with tensors.
pub(crate) fn check(config: &Config, weights: &Weights) -> Result<()> {
    for (number, layer) in config.layers.iter().enumerate() {
        let Some(recurrence) = &layer.recurrence else { continue };
        let Recurrence { taps, channels, heads, keys, values, .. } = *recurrence;
        let (name, expected) = match recurrence.mixer {
            Mixer::ShortConv => ("shortconv.conv.weight", taps * channels),
            Mixer::Mamba => ("ssm_a", keys.saturating_mul(values)),
            Mixer::KimiDelta(_) => ("ssm_conv1d_q.weight", taps * channels / 3),
            Mixer::Lightning => {
                ("attn_qkv.weight", (3 * heads).saturating_mul(keys).saturating_mul(config.width))
            }
            _ => ("ssm_conv1d.weight", taps * channels),
        };
        let of = |name: &str| format!("blk.{number}.{name}");
        let found = weights.require(&of(name))?.elements();
        if found != expected {
            return Err(Error::TensorShape {
                name: of(name),
                found: format!("{found} elements"),
                expected: format!("{expected}"),
            });
        }
        if recurrence.mixer == Mixer::PlamoMamba {
            let rows = weights.require(&of("ssm_x.weight"))?.shape().first().copied();
            if rows.is_none_or(|rows| rows <= 2 * keys) {
                return Err(Error::TensorShape {
                    name: of("ssm_x.weight"),
                    found: format!("[{}, ..]", rows.unwrap_or(0)),
                    expected: format!("more than [{}, ..]", 2 * keys),
                });
            }
        }
    }
    Ok(())
}

/// The sizes that all recurrent layers of a model share.
fn sizes(keys: &Keys, mixer: Mixer, width: usize, heads: usize) -> Result<Recurrence> {
    let taps = match mixer {
        Mixer::ShortConv => keys.require("shortconv.l_cache")?,
        Mixer::Lightning => 0,
        _ => keys.require("ssm.conv_kernel")?,
    };
    let simple = Recurrence {
        mixer,
        taps,
        channels: width,
        groups: 1,
        heads: 1,
        keys: 0,
        values: width,
        lowest_decay: None,
    };
    let all = match mixer {
        Mixer::ShortConv => simple,
        Mixer::Lightning => {
            let size = match keys.count("attention.key_length")? {
                Some(size) => size,
                None => width / heads.max(1),
            };
            Recurrence { channels: 0, groups: heads, heads, keys: size, values: size, ..simple }
        }
        Mixer::KimiDelta(decay) => {
            let size = keys.require("kda.head_dim")?;
            let channels = size.saturating_mul(3 * heads);
            let lowest_decay = lowest_decay(keys, decay)?;
            let kimi = Recurrence { channels, groups: heads, heads, lowest_decay, ..simple };
            Recurrence { keys: size, values: size, ..kimi }
        }
        Mixer::Mamba => {
            let inner = keys.require("ssm.inner_size")?;
            let state = keys.require("ssm.state_size")?;
            Recurrence { channels: inner, keys: state, values: inner, ..simple }
        }
        Mixer::Mamba2 | Mixer::PlamoMamba | Mixer::GatedDelta { .. } => {
            let inner = keys.require("ssm.inner_size")?;
            let state = keys.require("ssm.state_size")?;
            let heads = keys.require("ssm.time_step_rank")?;
            if !inner.is_multiple_of(heads) {
                return Err(Error::model(format!("{heads} heads cannot share {inner} elements")));
            }
            let groups = match mixer {
                Mixer::PlamoMamba => 1,
                _ => keys.require("ssm.group_count")?,
            };
            let channels = match mixer {
                Mixer::PlamoMamba => Some(inner),
                _ => (2 * groups).checked_mul(state).and_then(|both| both.checked_add(inner)),
            };
            let channels = channels.unwrap_or(usize::MAX);
            Recurrence { channels, groups, heads, keys: state, values: inner / heads, ..simple }
        }
    };
    let what = format!(
        "{} heads in {} groups of {} keys and {} values, and {} taps of {} channels",
        all.heads, all.groups, all.keys, all.values, all.taps, all.channels
    );
    all.checked(&what)
}

/// The bound of decays of Kimi delta attention. Negative infinity stands for none.
fn lowest_decay(keys: &Keys, decay: KimiDecay) -> Result<Option<f64>> {
    let key = "kda.gate_lower_bound";
    if decay == KimiDecay::Softplus {
        return Ok(None);
    }
    let bound = keys.get::<f32>(key)?.map(f64::from).filter(|&bound| bound != f64::NEG_INFINITY);
    let is_safe = keys.get::<bool>("kda.safe_gate")?.unwrap_or(true);
    match bound {
        None if decay == KimiDecay::BoundedByKey => Ok(None),
        Some(bound) if bound < 0.0 && (is_safe || decay == KimiDecay::BoundedByKey) => {
            Ok(Some(bound))
        }
        _ => Err(Error::model(format!(
            "`{}` is {}; expected is a number below 0, and `{}` not false",
            keys.name(key),
            bound.map_or("missing".to_owned(), |bound| bound.to_string()),
            keys.name("kda.safe_gate"),
        ))),
    }
}

/// What each layer has, and whether it attends.
pub(crate) fn read(
    keys: &Keys,
    all: usize,
    width: usize,
    heads: &[usize],
    key_heads: &[usize],
) -> Result<Vec<(Option<Recurrence>, bool)>> {
    let Some(Recurrent { mixer, layers }) = keys.architecture.recurrent else {
        return Ok(vec![(None, true); all]);
    };
    // Of some models each layer is one part alone: what has a feed-forward network has nothing else.
    let networks = match keys.architecture.quirk {
        Quirk::OnePart => keys.per_layer("feed_forward_length", all)?.unwrap_or(vec![0; all]),
        _ => vec![0; all],
    };
    let is_recurrent: Vec<bool> = match layers {
        RecurrentLayers::All | RecurrentLayers::Beside => vec![true; all],
        RecurrentLayers::WithoutKeys => {
            (0..all).map(|layer| key_heads[layer] == 0 && networks[layer] == 0).collect()
        }
        RecurrentLayers::Except(period) => named(keys, all, period)?,
    };
    if !is_recurrent.contains(&true) {
        return Ok((0..all).map(|layer| (None, networks[layer] == 0)).collect());
    }
    let most = heads.iter().copied().max().unwrap_or(0);
    let sizes = sizes(keys, mixer, width, most)?;
    let layer = |layer: usize| match is_recurrent[layer] {
        true => (Some(sizes.clone()), layers == RecurrentLayers::Beside),
        false => (None, networks[layer] == 0),
    };
    Ok((0..all).map(layer).collect())
}

/// The layers that a key names, or all but the last of each so many.
fn named(keys: &Keys, all: usize, period: usize) -> Result<Vec<bool>> {
    let key = "attention.recurrent_layers";
    if keys.metadata.value(&keys.name(key)).is_some() {
        let list = switches(keys, key, all)?;
        return match list.len() < all {
            true => Err(Error::model(format!(
                "`{}` has {} entries for {all} layers",
                keys.name(key),
                list.len()
            ))),
            false => Ok(list),
        };
    }
    match keys.count("full_attention_interval")?.unwrap_or(period) {
        0 => Err(Error::model(format!("`{}` is 0", keys.name("full_attention_interval")))),
        period => Ok((0..all).map(|layer| !(layer + 1).is_multiple_of(period)).collect()),
    }
}
