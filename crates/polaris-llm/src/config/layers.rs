//! The sizes of layers.

use super::{Keys, Latent, parts, rotary, switches};
use crate::architecture::{self, AttentionScale, Quirk, Rotated};
use crate::recurrence::{self, Recurrence};
use crate::{Error, Result, own};

/// The sizes of a layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub key_heads: usize,
    /// Elements of a query and of a key.
    pub key_size: usize,
    /// Elements of a value.
    pub value_size: usize,
    /// By what scores are multiplied.
    pub attention_scale: f64,
    /// How far it sees, if not everything.
    pub window: Option<usize>,
    /// Whether the window is a chunk of the context.
    pub chunks: bool,
    /// Which of the rotary embeddings it has.
    pub rotary: Option<usize>,
    /// Whether queries are scaled by position.
    pub temperature: bool,
    /// Whether it may be a mixture; the tensors say whether it is.
    pub may_mix: bool,
    /// Whether it attends; the sizes above are 0 if it does not.
    pub attends: bool,
    /// Its recurrent part, in the place of attention or beside it.
    pub recurrence: Option<Recurrence>,
    /// Keys and values that are cached in a compressed form.
    pub latent: Option<Latent>,
    /// The layer whose keys and values it reads, having none.
    pub shares: Option<usize>,
    /// Whether it has a feed-forward network.
    pub has_network: bool,
    /// The limits of the gated products of experts, and of dense networks; 0 for none.
    pub limits: [f64; 2],
}

impl Layer {
    /// What is cached of a position: heads, elements of a key, and of a value where values are not a part of keys.
    pub(crate) fn cached(&self) -> Option<(usize, usize, Option<usize>)> {
        match self.latent {
            _ if self.heads == 0 || self.key_heads == 0 || self.shares.is_some() => None,
            Some(latent) => Some((1, latent.rank + latent.rotated, None)),
            None => Some((self.key_heads, self.key_size, Some(self.value_size))),
        }
    }
}

pub(super) fn layers(
    keys: &Keys,
    all: usize,
    count: usize,
    [width, context]: [usize; 2],
    windows: &[Option<usize>],
) -> Result<Vec<Layer>> {
    let architecture = keys.architecture;
    let missing = || {
        Error::model(format!("its metadata do not have `{}`", keys.name("attention.head_count")))
    };
    let is_whole =
        |recurrent: architecture::Recurrent| recurrent.layers == architecture::RecurrentLayers::All;
    let heads = match keys.per_layer("attention.head_count", all)? {
        None if architecture.recurrent.is_some_and(is_whole) => vec![0; all],
        heads => heads.ok_or_else(missing)?,
    };
    let key_heads = keys.per_layer("attention.head_count_kv", all)?.unwrap_or(heads.clone());
    let parts = recurrence::read(keys, all, width, &heads, &key_heads)?;
    let sizes = |key: &str| -> Result<[Option<usize>; 2]> {
        let whole = keys.count(&format!("attention.{key}"))?;
        let sliding = keys.count(&format!("attention.{key}_swa"))?.or(whole);
        Ok([whole, sliding])
    };
    let (key_sizes, value_sizes) = (sizes("key_length")?, sizes("value_length")?);
    let slides_at_all = windows.iter().any(Option::is_some);
    let is_whole =
        architecture.quirk == Quirk::Llama4 && keys.count("attention.sliding_window")? == Some(0);
    let step = keys.count("interleave_moe_layer_step")?.unwrap_or(1);
    let leading = keys.count("leading_dense_block_count")?.unwrap_or(0);
    let pattern = match keys.metadata.value(&keys.name("attention.rope_pattern")) {
        Some(_) if architecture.rotated == Rotated::Pattern => {
            Some(switches(keys, "attention.rope_pattern", count)?)
        }
        _ => None,
    };
    let finetuned = keys.get("rope.scaling.finetuned")?.unwrap_or(true);
    let stated_rotated = own::layers(keys.metadata, own::ROTATED_LAYERS, count)?;
    let stated_scale = own::attention_scale(keys.metadata)?;
    let interleaved = architecture.experts.interleaved;
    let may_mix = |number: usize| {
        !architecture.experts.never
            && (!interleaved || number >= leading && step > 0 && (number + 1).is_multiple_of(step))
    };
    let yarn_scale = rotary::yarn_scale(keys, context)?;
    let latent = parts::latent(keys)?;
    // The true sizes of heads; the other keys then describe what is cached.
    let (key_sizes, value_sizes) = match latent {
        Some(_) => (
            parts::mla_sizes(keys, "key_length", key_sizes)?,
            parts::mla_sizes(keys, "value_length", value_sizes)?,
        ),
        None => (key_sizes, value_sizes),
    };
    let networks = match architecture.quirk {
        Quirk::Deci => keys.per_layer("feed_forward_length", all)?,
        _ => None,
    };
    let shared = match architecture.quirk {
        Quirk::Gemma4 => keys.count("attention.shared_kv_layers")?.unwrap_or(0),
        Quirk::Gemma3n => all.saturating_sub(20),
        _ => 0,
    };
    if shared > 0 && shared + 2 > all {
        return Err(Error::model(format!("{shared} of {all} layers cannot share keys and values")));
    }
    let first_shared = all - shared;
    let limits = parts::limits(keys, all)?;
    let may_lack = architecture.quirk == Quirk::Deci;
    let default = width / heads[0].max(1);
    let layer = |number: usize| -> Result<Layer> {
        let (recurrence, attends) = parts[number].clone();
        if !attends {
            return Ok(Layer {
                heads: 0,
                key_heads: 0,
                key_size: 0,
                value_size: 0,
                attention_scale: 1.0,
                window: None,
                chunks: false,
                rotary: None,
                temperature: false,
                may_mix: may_mix(number),
                attends,
                recurrence,
                latent: None,
                shares: None,
                has_network: true,
                limits: limits[number],
            });
        }
        let (heads, key_heads) = (heads[number], key_heads[number]);
        let lacks = may_lack && (heads == 0 || key_heads == 0);
        if !lacks && (heads == 0 || key_heads == 0 || !heads.is_multiple_of(key_heads)) {
            return Err(Error::model(format!(
                "layer {number} has {heads} heads that share {key_heads} of keys"
            )));
        }
        let slides = windows[number].is_some();
        let key_size = key_sizes[usize::from(slides)].unwrap_or(default);
        let value_size = value_sizes[usize::from(slides)].unwrap_or(default);
        if key_size == 0 || value_size == 0 {
            return Err(Error::model(format!("layer {number} has heads without elements")));
        }
        if let Some(latent) = latent.filter(|latent| latent.rotated > key_size) {
            let rotated = latent.rotated;
            return Err(Error::model(format!(
                "{rotated} elements of heads of {key_size} are rotated"
            )));
        }
        let head_scale = 1.0 / (key_size as f64).sqrt();
        let ruled_scale = match architecture.attention_scale {
            AttentionScale::Head => head_scale,
            AttentionScale::Key => match keys.number("attention.scale", 0.0)? {
                0.0 => head_scale,
                scale => scale,
            },
            AttentionScale::WidthIn(layers) if layers == count => {
                1.0 / ((width / heads) as f64).sqrt()
            }
            AttentionScale::WidthIn(_) => head_scale,
            AttentionScale::OutputKey(default) => keys.number("attention.output_scale", default)?,
            AttentionScale::Inverse => 1.0 / key_size as f64,
            AttentionScale::Yarn => head_scale * yarn_scale,
            AttentionScale::One => 1.0,
        };
        let rotates_by_rule = match architecture.rotated {
            Rotated::All => true,
            Rotated::Sliding => slides,
            Rotated::SlidingIfAny => slides || !slides_at_all,
            Rotated::ExceptFirstIfSliding(period) => {
                !slides_at_all || count == period || !number.is_multiple_of(period)
            }
            Rotated::SlidingOrLeading => slides || number < leading,
            // Without windows it is the last one alone.
            Rotated::ExceptEvery(_) if is_whole => number + 1 < count,
            Rotated::ExceptEvery(period) => !(number + 1).is_multiple_of(period),
            Rotated::InModelsOf(layers) => layers == count,
            Rotated::Finetuned => finetuned,
            Rotated::Pattern => {
                pattern.as_ref().is_none_or(|pattern| pattern.get(number).copied().unwrap_or(true))
            }
        };
        let rotates = architecture.rotary.is_some()
            && stated_rotated.as_ref().map_or(rotates_by_rule, |rotated| rotated[number]);
        let temperature = match architecture.temperature {
            architecture::Temperature::None => false,
            architecture::Temperature::Unrotated { .. } => !rotates && !is_whole,
            architecture::Temperature::Key | architecture::Temperature::LengthKey => true,
        };
        Ok(Layer {
            heads,
            key_heads,
            key_size,
            value_size,
            attention_scale: stated_scale.unwrap_or(ruled_scale),
            window: windows[number],
            chunks: architecture.window.chunks,
            rotary: rotates.then_some(usize::from(slides)),
            temperature,
            may_mix: may_mix(number),
            attends,
            recurrence,
            latent,
            // The last layer of its kind that has keys.
            shares: (number >= first_shared).then(|| first_shared - if slides { 2 } else { 1 }),
            limits: limits[number],
            has_network: networks.as_ref().is_none_or(|widths| widths[number] > 0),
        })
    };
    let layers: Vec<Layer> = (0..count).map(layer).collect::<Result<_>>()?;
    for (number, layer) in layers.iter().enumerate() {
        let of = |layer: &Layer| (layer.key_heads, layer.key_size, layer.value_size, layer.window);
        if let Some(shared) = layer.shares.filter(|&shared| of(&layers[shared]) != of(layer)) {
            return Err(Error::model(format!(
                "layer {number} cannot share the keys and values of layer {shared}, which differs"
            )));
        }
    }
    Ok(layers)
}
