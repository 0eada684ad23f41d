//! The sizes and numbers of a model, from its metadata and its architecture.

use polaris_gguf::{FromValue, Metadata, PerLayer};
use polaris_ops::Pairing;
use polaris_ops::route::Gating;

use crate::angles::{Rotary, Scaling, Yarn};
use crate::architecture::{
    self, Alibi, Architecture, AttentionScale, EmbeddingScale, LogitScale, Normalize, Quirk,
    ResidualScale, Rotated, SlidingRotary,
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
        let epsilon = match architecture.norm {
            architecture::Norm::Rms => "attention.layer_norm_rms_epsilon",
            _ => "attention.layer_norm_epsilon",
        };
        let epsilon = keys.number(epsilon, 1e-5)?;
        let windows = windows(&keys, count)?;
        let rotary = [rotary(&keys, context, false)?, rotary(&keys, context, true)?];
        let layers = layers(&keys, all, count, width, &windows)?;
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
            epsilon,
            pairing: pairing(&keys)?,
            base_growth: match architecture.quirk {
                Quirk::Hunyuan => keys.number("rope.scaling.alpha", 0.0)?,
                _ => 0.0,
            },
            rotary,
            attention_softcap,
            clamp,
            alibi,
            embedding_scale,
            residual_scale,
            logit_scale,
            final_softcap: cap("final_logit_softcapping", architecture.final_softcap)?,
            parallel,
            experts: mixture(&keys)?,
            temperature: temperature(&keys, context)?,
            norm_steps: keys.get("ssm.dt_b_c_rms")?.unwrap_or(false),
            xielu: xielu(&keys, count)?,
        })
    }
}

impl Config {
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
    let list = if is_list && rule.list { Some(switches(keys, key)?) } else { None };
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

/// Files with sections of several positions (text, height, width) rotate halves, whatever their architecture does else.
fn pairing(keys: &Keys) -> Result<Option<Pairing>> {
    let stated = own::pairing(keys.metadata)?;
    let sections = keys.metadata.list::<u64>(&keys.name("rope.dimension_sections"));
    let has_sections =
        matches!(sections, Ok(Some(list)) if list.len() > 1 && list[0] > 0 && list[1] > 0);
    Ok(match keys.architecture.rotary {
        Some(_) if stated.is_some() => stated,
        Some(_) if has_sections && keys.architecture.sections => Some(Pairing::Halves),
        pairing => pairing,
    })
}

/// A list of switches, which files have as booleans or as integers.
pub(crate) fn switches(keys: &Keys, key: &str) -> Result<Vec<bool>> {
    let name = keys.name(key);
    if let Ok(Some(list)) = keys.metadata.list::<bool>(&name) {
        return Ok(list);
    }
    let list = keys.metadata.list::<u64>(&name)?.unwrap_or_default();
    Ok(list.into_iter().map(|value| value != 0).collect())
}

/// The rotary embedding of layers that see everything, or of sliding ones.
fn rotary(keys: &Keys, context: usize, sliding: bool) -> Result<Option<Rotary>> {
    let architecture = keys.architecture;
    if architecture.rotary.is_none() {
        return Ok(None);
    }
    let size = match sliding {
        true => keys.count("rope.dimension_count_swa")?,
        false => None,
    };
    let size = match size {
        Some(size) => Some(size),
        None => keys.count("rope.dimension_count")?,
    };
    let mut base = keys.number("rope.freq_base", 1e4)?;
    let factor = match keys.number("rope.scaling.factor", 0.0)? {
        0.0 => or_one(keys.number("rope.scale_linear", 0.0)?),
        factor => factor,
    };
    let kind = keys.get::<&str>("rope.scaling.type")?.unwrap_or("linear");
    let (mut scaling, mut magnitude) = match kind {
        "none" => (Scaling::None, 1.0),
        "yarn" => {
            let yarn = Yarn {
                original_context: keys
                    .count("rope.scaling.original_context_length")?
                    .unwrap_or(context),
                beta_fast: keys.number("rope.scaling.yarn_beta_fast", 32.0)?,
                beta_slow: keys.number("rope.scaling.yarn_beta_slow", 1.0)?,
                extrapolation: 1.0,
                truncates: keys.metadata.get(own::YARN_TRUNCATES)?.unwrap_or(true),
            };
            let grown = |by: f64| if factor > 1.0 { 1.0 + 0.1 * by * factor.ln() } else { 1.0 };
            let multiplier = keys.number("rope.scaling.yarn_log_multiplier", 0.0)?;
            let magnitude = match multiplier {
                0.0 => grown(1.0),
                multiplier => grown(1.0) / grown(multiplier),
            };
            (Scaling::Yarn(yarn), magnitude)
        }
        _ if factor == 1.0 => (Scaling::None, 1.0),
        _ => (Scaling::Linear, 1.0),
    };
    magnitude *= keys.number("rope.scaling.attn_factor", 1.0)?;
    if sliding {
        match architecture.sliding_rotary {
            SlidingRotary::Same => {}
            SlidingRotary::Base => base = keys.number("rope.freq_base_swa", base)?,
            SlidingRotary::Unscaled => {
                base = keys.number("rope.freq_base_swa", 1e4)?;
                scaling = Scaling::None;
            }
            SlidingRotary::SameUnscaled => (scaling, magnitude) = (Scaling::None, 1.0),
            SlidingRotary::BaseUnscaled => {
                base = keys.number("rope.freq_base_swa", base)?;
                (scaling, magnitude) = (Scaling::None, 1.0);
            }
        }
    }
    if base <= 1.0 || factor <= 0.0 {
        return Err(Error::model(format!(
            "the rotary embedding has the base {base} and the factor {factor}"
        )));
    }
    // The size of a head is known to layers only; 0 stands for all of it.
    let size = size.unwrap_or(0);
    Ok(Some(Rotary { size, base, factor, scaling, magnitude, divisors: None }))
}

fn layers(
    keys: &Keys,
    all: usize,
    count: usize,
    width: usize,
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
    let step = keys.count("interleave_moe_layer_step")?.unwrap_or(1);
    let leading = keys.count("leading_dense_block_count")?.unwrap_or(0);
    let pattern = match keys.metadata.value(&keys.name("attention.rope_pattern")) {
        Some(_) if architecture.rotated == Rotated::Pattern => {
            Some(switches(keys, "attention.rope_pattern")?)
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
            });
        }
        let (heads, key_heads) = (heads[number], key_heads[number]);
        if heads == 0 || key_heads == 0 || !heads.is_multiple_of(key_heads) {
            return Err(Error::model(format!(
                "layer {number} has {heads} heads that share {key_heads} of keys"
            )));
        }
        let slides = windows[number].is_some();
        let key_size = key_sizes[usize::from(slides)].unwrap_or(width / heads);
        let value_size = value_sizes[usize::from(slides)].unwrap_or(width / heads);
        if key_size == 0 || value_size == 0 {
            return Err(Error::model(format!("layer {number} has heads without elements")));
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
        };
        let rotates_by_rule = match architecture.rotated {
            Rotated::All => true,
            Rotated::Sliding => slides,
            Rotated::SlidingIfAny => slides || !slides_at_all,
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
            architecture::Temperature::Unrotated { .. } => !rotates,
            architecture::Temperature::Key => true,
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
        })
    };
    (0..count).map(layer).collect()
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
    Ok(Some(Mixture { count, used, groups, gating, normalize, scale }))
}

fn temperature(keys: &Keys, context: usize) -> Result<Option<(f64, f64, f64)>> {
    Ok(match keys.architecture.temperature {
        architecture::Temperature::None => None,
        architecture::Temperature::Unrotated { scale, length, offset } => {
            Some((scale, length, offset))
        }
        architecture::Temperature::Key => {
            let scale = keys.number("attention.temperature_scale", 0.0)?;
            let length =
                keys.count("rope.scaling.original_context_length")?.unwrap_or(context).max(1);
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
