//! The sizes and numbers of a model, from its metadata and its architecture.

mod parts;
mod rotary;

pub use parts::Latent;

use polaris_gguf::{FromValue, Metadata, PerLayer};
use polaris_ops::Pairing;
use polaris_ops::route::Gating;

use crate::angles::Rotary;
use crate::architecture::{
    self, Alibi, Architecture, AttentionScale, EmbeddingScale, LogitScale, Normalize, Quirk,
    ResidualScale, Rotated,
};
use crate::recurrence::{self, Recurrence};
use crate::{Error, Result, own};

/// Limits of what a file may say; beyond them it is damaged or hostile.
const MOST_LAYERS: usize = 4096;
pub(crate) const MOST_ELEMENTS: usize = 1 << 28;

/// What a model is, apart from its weights.
#[derive(Debug, Clone)]
pub struct Config {
    /// The architecture.
    pub architecture: &'static Architecture,
    /// The context that the model was trained for.
    pub context: usize,
    /// The width of the residual stream.
    pub width: usize,
    /// The layers.
    pub layers: Vec<Layer>,
    /// How rows are normalised.
    pub norm: architecture::Norm,
    /// Added to variances.
    pub epsilon: f64,
    /// Which elements of a head are rotated together.
    pub pairing: Option<Pairing>,
    /// By what the base of frequencies grows with the size of a head, as Hunyuan has it; 0 if it does not.
    pub base_growth: f64,
    /// The rotary embeddings: of layers that see everything, and of sliding ones.
    pub rotary: [Option<Rotary>; 2],
    /// The cap of scores.
    pub attention_softcap: Option<f64>,
    /// The limit of queries, keys and values.
    pub clamp: Option<f64>,
    /// The largest slope of ALiBi.
    pub alibi: Option<f64>,
    /// By what embeddings are multiplied.
    pub embedding_scale: f64,
    /// By what parts are multiplied before they are added to the residual stream.
    pub residual_scale: f64,
    /// By what the result of attention is multiplied.
    pub value_scale: f64,
    /// By what logits are multiplied.
    pub logit_scale: f64,
    /// The cap of logits.
    pub final_softcap: Option<f64>,
    /// Whether attention and feed-forward network read the same input.
    pub parallel: bool,
    /// The mixtures.
    pub experts: Option<Mixture>,
    /// How queries are scaled by position: scale, length, offset.
    pub temperature: Option<(f64, f64, f64)>,
    /// Whether the steps, keys and queries of Mamba are normalised, though there are no weights for it.
    pub norm_steps: bool,
    /// Whether a token sees only what is before it.
    pub causal: bool,
    /// Attention looks at so many chosen positions, or at all as long as there are no more.
    pub chosen_positions: Option<usize>,
    /// The width of what each layer takes from a second table of embeddings; 0 without one.
    pub layer_width: usize,
    /// The parameters of xIELU for each layer: alpha of negative and positive elements, beta, epsilon.
    pub xielu: Vec<[f64; 4]>,
}

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

/// How experts are chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    /// The experts.
    pub count: usize,
    /// Those that are used for a token.
    pub used: usize,
    /// Groups of experts, and how many of them are used.
    pub groups: Option<(usize, usize)>,
    /// From logits to probabilities.
    pub gating: Gating,
    /// Whether weights are divided by their sum.
    pub normalize: bool,
    /// By what weights are multiplied.
    pub scale: f64,
    /// Smaller experts that follow them.
    pub grove: Option<Grove>,
}

/// Smaller experts that are given the result of the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grove {
    /// Experts that share one of them.
    pub group: usize,
    /// By what their result is multiplied.
    pub scale: f64,
}

/// Metadata of an architecture.
pub(crate) struct Keys<'a> {
    pub metadata: &'a Metadata,
    pub architecture: &'static Architecture,
}

impl<'a> Keys<'a> {
    pub fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture.name)
    }

    pub fn get<T: FromValue<'a>>(&self, key: &str) -> Result<Option<T>> {
        Ok(self.metadata.get(&self.name(key))?)
    }

    pub fn number(&self, key: &str, default: f64) -> Result<f64> {
        let value = self.get::<f32>(key)?.map_or(default, f64::from);
        match value.is_finite() {
            true => Ok(value),
            false => Err(Error::model(format!("`{}` is {value}", self.name(key)))),
        }
    }

    pub fn count(&self, key: &str) -> Result<Option<usize>> {
        let Some(value) = self.get::<u64>(key)? else { return Ok(None) };
        match usize::try_from(value) {
            Ok(value) if value <= MOST_ELEMENTS => Ok(Some(value)),
            _ => Err(Error::model(format!("`{}` is {value}, which is too large", self.name(key)))),
        }
    }

    pub fn require(&self, key: &str) -> Result<usize> {
        let missing = || Error::model(format!("its metadata do not have `{}`", self.name(key)));
        match self.count(key)?.ok_or_else(missing)? {
            0 => Err(Error::model(format!("`{}` is 0", self.name(key)))),
            value => Ok(value),
        }
    }

    pub fn per_layer(&self, key: &str, layers: usize) -> Result<Option<Vec<usize>>> {
        let values: Option<PerLayer<u64>> = self.metadata.per_layer(&self.name(key), layers)?;
        let Some(values) = values else { return Ok(None) };
        let of = |layer| {
            let value = usize::try_from(values.of(layer)).unwrap_or(usize::MAX);
            match value <= MOST_ELEMENTS {
                true => Ok(value),
                false => Err(Error::model(format!("`{}` is too large", self.name(key)))),
            }
        };
        (0..layers).map(of).collect::<Result<_>>().map(Some)
    }
}

impl Config {
    /// Reads what a model's metadata say.
    ///
    /// # Errors
    /// If the architecture is not supported, or something is missing or makes no sense.
    pub fn read(metadata: &Metadata) -> Result<Self> {
        let name: &str = metadata.require("general.architecture")?;
        let architecture = architecture::find(name)?;
        let keys = Keys { metadata, architecture };
        let all = keys.require("block_count")?;
        let extra = keys.count("nextn_predict_layers")?.unwrap_or(0);
        if all > MOST_LAYERS || extra >= all {
            return Err(Error::model(format!(
                "{all} layers, of which {extra} predict further tokens, cannot be"
            )));
        }
        if keys.count("num_loops")?.is_some_and(|loops| loops > 1) {
            return Err(Error::model("its layers run several times, which is not supported"));
        }
        let count = all - extra;
        let width = keys.require("embedding_length")?;
        let context = keys.require("context_length")?;
        let rms = "attention.layer_norm_rms_epsilon";
        let norm = match architecture.norm {
            architecture::Norm::RmsOrLayer => match keys.number(rms, 0.0)? {
                0.0 => architecture::Norm::Layer,
                _ => architecture::Norm::Rms,
            },
            norm => norm,
        };
        let epsilon = match norm {
            architecture::Norm::Rms => rms,
            _ => "attention.layer_norm_epsilon",
        };
        let epsilon = keys.number(epsilon, 1e-5)?;
        let windows = windows(&keys, count)?;
        let rotary = [false, true].map(|sliding| rotary::rotary(&keys, context, sliding));
        let [whole, sliding] = rotary;
        let layers = layers(&keys, all, count, [width, context], &windows)?;
        let residual_scale = match architecture.residual_scale {
            ResidualScale::One => 1.0,
            ResidualScale::Key => or_one(keys.number("residual_scale", 0.0)?),
            ResidualScale::KeyOrRoot(number) => {
                keys.number("residual_scale", number / (count as f64).sqrt())?
            }
            ResidualScale::Root(number) => number / (count as f64).sqrt(),
        };
        let embedding_scale = match architecture.embedding_scale {
            EmbeddingScale::One => 1.0,
            EmbeddingScale::Root => (width as f64).sqrt(),
            EmbeddingScale::Fixed(number) => number,
            EmbeddingScale::Key(default) => or_one(keys.number("embedding_scale", default)?),
        };
        let key = || keys.number("logit_scale", 0.0).map(or_one);
        let logit_scale = match architecture.logit_scale {
            LogitScale::One => 1.0,
            LogitScale::Multiply => key()?,
            LogitScale::Divide => 1.0 / key()?,
            LogitScale::DivideOrWidth(base) => {
                1.0 / or_one(keys.number("logit_scale", width as f64 / base)?)
            }
            LogitScale::MultiplyOr(default) => or_one(keys.number("logit_scale", default)?),
            LogitScale::OverWidth(base) => base / width as f64,
        };
        let cap = |key: &str, default: f64| -> Result<Option<f64>> {
            Ok(Some(keys.number(key, default)?).filter(|cap| *cap != 0.0))
        };
        let attention_softcap = match architecture.attention_softcap {
            0.0 => None,
            default => cap("attn_logit_softcapping", default)?,
        };
        let clamp = match architecture.clamp {
            true => cap("attention.clamp_kqv", 0.0)?,
            false => None,
        };
        let alibi = match architecture.alibi {
            Alibi::None => None,
            Alibi::Fixed(slope) => Some(slope),
            Alibi::Key => cap("attention.max_alibi_bias", 0.0)?,
            Alibi::InModelsOf(layers, slope) => (layers == count).then_some(slope),
        };
        let parallel = match architecture.parallel {
            architecture::Parallel::Yes => true,
            architecture::Parallel::Key => keys.get("use_parallel_residual")?.unwrap_or(true),
            architecture::Parallel::No | architecture::Parallel::WithoutNorm => false,
        };
        Ok(Self {
            architecture,
            context,
            width,
            layers,
            norm,
            epsilon,
            pairing: rotary::pairing(&keys)?,
            base_growth: match architecture.quirk {
                Quirk::Hunyuan => keys.number("rope.scaling.alpha", 0.0)?,
                _ => 0.0,
            },
            rotary: [whole?, sliding?],
            attention_softcap,
            clamp,
            alibi,
            embedding_scale,
            residual_scale,
            value_scale: match architecture.quirk {
                Quirk::ValueScale => or_one(keys.number("attention.value_scale", 0.0)?),
                _ => 1.0,
            },
            logit_scale,
            final_softcap: match architecture.final_softcap {
                Some(default) => cap("final_logit_softcapping", default)?,
                None => None,
            },
            parallel,
            experts: mixture(&keys)?,
            temperature: temperature(&keys, context)?,
            norm_steps: keys.get("ssm.dt_b_c_rms")?.unwrap_or(false),
            causal: parts::causal(&keys, &windows, alibi)?,
            chosen_positions: parts::chosen_positions(&keys)?,
            layer_width: match architecture.quirk {
                Quirk::Gemma4 => keys.count("embedding_length_per_layer_input")?.unwrap_or(0),
                Quirk::Gemma3n => keys.count("embedding_length_per_layer_input")?.unwrap_or(256),
                _ => 0,
            },
            xielu: xielu(&keys, count)?,
        })
    }
}

impl Config {
    /// The tensor with the embeddings.
    pub(crate) fn embedding_name(&self, weights: &crate::weights::Weights) -> &'static str {
        let is_output = self.architecture.quirk == Quirk::EmbeddingOfOutput
            && !weights.has("token_embd.weight");
        if is_output { "output.weight" } else { "token_embd.weight" }
    }

    /// Bytes of cached keys and values for a token.
    pub fn cache_bytes(&self, ty: crate::CacheType) -> u64 {
        crate::cache::Cache::bytes_per_token(self, ty.dtype())
    }

    /// Bytes of the states of recurrent layers for a sequence, however long it is.
    pub fn state_bytes(&self) -> u64 {
        let of = |layer: &Layer| layer.recurrence.as_ref().map_or(0, Recurrence::elements);
        let elements = self.layers.iter().map(of).fold(0, u64::saturating_add);
        elements.saturating_mul(size_of::<f32>() as u64)
    }

    /// Whether layers carry states from token to token, which cannot be taken back to an earlier one.
    pub fn is_recurrent(&self) -> bool {
        self.layers.iter().any(|layer| layer.recurrence.is_some())
    }
}

/// What is not there counts as one.
fn or_one(value: f64) -> f64 {
    if value == 0.0 { 1.0 } else { value }
}

/// How far each layer sees, if not everything.
fn windows(keys: &Keys, count: usize) -> Result<Vec<Option<usize>>> {
    let rule = keys.architecture.window;
    let size = keys.count("attention.sliding_window")?.unwrap_or(rule.default);
    if let Some(slides) = own::layers(keys.metadata, own::SLIDING_LAYERS, count)? {
        if size == 0 && slides.contains(&true) {
            let name = keys.name("attention.sliding_window");
            return Err(Error::model(format!("its metadata do not have `{name}`")));
        }
        return Ok(slides.into_iter().map(|slides| slides.then_some(size)).collect());
    }
    let size = if size > 0 && rule.fixed > 0 { rule.fixed } else { size };
    if size == 0 && keys.architecture.rotated == Rotated::Sliding {
        let name = keys.name("attention.sliding_window");
        return Err(Error::model(format!("its metadata do not have `{name}`")));
    }
    let slides_at_all = rule.period > 0 && size > 0 && (rule.layers == 0 || rule.layers == count);
    if !slides_at_all {
        return Ok(vec![None; count]);
    }
    let key = "attention.sliding_window_pattern";
    let is_list =
        matches!(keys.metadata.value(&keys.name(key)), Some(polaris_gguf::Value::Array(_)));
    let list = if is_list && rule.list { Some(switches(keys, key, count)?) } else { None };
    if let Some(list) = list {
        if list.len() < count {
            return Err(Error::model(format!(
                "`{}` has {} entries for {count} layers",
                keys.name(key),
                list.len()
            )));
        }
        return Ok(list[..count].iter().map(|&slides| slides.then_some(size)).collect());
    }
    let period = if is_list { rule.period } else { keys.count(key)?.unwrap_or(rule.period) };
    let slides = |layer: usize| match (period, rule.first) {
        (0, _) => true,
        (period, true) => !layer.is_multiple_of(period),
        (period, false) => layer % period < period - 1,
    };
    Ok((0..count).map(|layer| slides(layer).then_some(size)).collect())
}

/// A list of switches, which files have as booleans or as integers.
pub(crate) fn switches(keys: &Keys, key: &str, layers: usize) -> Result<Vec<bool>> {
    let name = keys.name(key);
    if let Ok(Some(list)) = keys.metadata.list::<bool>(&name) {
        return Ok(list);
    }
    // A single one is for all layers.
    let single = match keys.metadata.get::<bool>(&name) {
        Ok(value) => value,
        Err(_) => keys.metadata.get::<u64>(&name).ok().flatten().map(|value| value != 0),
    };
    if let Some(value) = single {
        return Ok(vec![value; layers]);
    }
    let list = keys.metadata.list::<u64>(&name)?.unwrap_or_default();
    Ok(list.into_iter().map(|value| value != 0).collect())
}

fn layers(
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

fn mixture(keys: &Keys) -> Result<Option<Mixture>> {
    let rule = &keys.architecture.experts;
    let count = keys.count("expert_count")?.unwrap_or(0);
    if count == 0 || count == 1 && keys.architecture.quirk == Quirk::Hunyuan {
        return Ok(None);
    }
    let used = keys.require("expert_used_count")?;
    let groups = keys.count("expert_group_count")?.filter(|&groups| groups > 1);
    let groups = match groups {
        Some(groups) => Some((groups, keys.require("expert_group_used_count")?)),
        None => None,
    };
    let fits = |(groups, used): (usize, usize)| used <= groups && count.is_multiple_of(groups);
    if used > count || !groups.is_none_or(fits) {
        return Err(Error::model(format!(
            "{used} of {count} experts in groups of {groups:?} cannot be chosen"
        )));
    }
    let gating = match keys.count("expert_gating_func")? {
        Some(1) => Gating::Softmax,
        Some(2) => Gating::Sigmoid,
        Some(3) => Gating::SoftmaxOfChosen,
        Some(0) | None => rule.gating,
        Some(other) => {
            let key = keys.name("expert_gating_func");
            return Err(Error::model(format!("`{key}` is {other}; expected is 1 to 3")));
        }
    };
    let gating = if rule.reads_gating { gating } else { rule.gating };
    let normalize = match rule.normalize {
        Normalize::Yes => true,
        Normalize::No => false,
        Normalize::Key => keys.get("expert_weights_norm")?.unwrap_or(false),
    };
    let scale = match rule.scale {
        Some(default) => or_one(keys.number("expert_weights_scale", default)?),
        None => 1.0,
    };
    let grove = match keys.architecture.quirk {
        Quirk::Grove => {
            let group = keys.require("experts_per_group")?;
            if group > count || !count.is_multiple_of(group) {
                return Err(Error::model(format!(
                    "{count} experts in groups of {group} cannot be"
                )));
            }
            Some(Grove { group, scale: keys.number("expert_group_scale", 1.0)? })
        }
        _ => None,
    };
    Ok(Some(Mixture { count, used, groups, gating, normalize, scale, grove }))
}

fn temperature(keys: &Keys, context: usize) -> Result<Option<(f64, f64, f64)>> {
    Ok(match keys.architecture.temperature {
        architecture::Temperature::None => None,
        architecture::Temperature::Unrotated { scale, length, offset } => {
            Some((scale, length, offset))
        }
        architecture::Temperature::Key | architecture::Temperature::LengthKey => {
            let scale = keys.number("attention.temperature_scale", 0.0)?;
            let length = match keys.architecture.temperature {
                architecture::Temperature::LengthKey => {
                    keys.count("attention.temperature_length")?
                }
                _ => Some(keys.count("rope.scaling.original_context_length")?.unwrap_or(context)),
            };
            let length = length.unwrap_or(0).max(1);
            (scale != 0.0).then_some((scale, length as f64, 0.0))
        }
    })
}

fn xielu(keys: &Keys, count: usize) -> Result<Vec<[f64; 4]>> {
    if keys.architecture.activation != architecture::Activation::Xielu {
        return Ok(Vec::new());
    }
    let each = |key: &str| -> Result<PerLayer<f32>> {
        let missing = || Error::model(format!("its metadata do not have `{key}`"));
        keys.metadata.per_layer(key, count)?.ok_or_else(missing)
    };
    let all = ["xielu.alpha_n", "xielu.alpha_p", "xielu.beta", "xielu.eps"].map(each);
    let [alpha_n, alpha_p, beta, epsilon] = all;
    let (alpha_n, alpha_p, beta, epsilon) = (alpha_n?, alpha_p?, beta?, epsilon?);
    let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    let of = |layer| {
        let [alpha_n, alpha_p, beta, epsilon] =
            [&alpha_n, &alpha_p, &beta, &epsilon].map(|each| f64::from(each.of(layer)));
        [beta + softplus(alpha_n), softplus(alpha_p), beta, epsilon]
    };
    Ok((0..count).map(of).collect())
}
