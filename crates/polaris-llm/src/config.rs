//! The sizes and numbers of a model, from its metadata and its architecture.

mod keys;
mod layers;
mod mixture;
mod parts;
mod rotary;
mod windows;

pub(crate) use keys::{Keys, switches};
pub use layers::Layer;
pub use mixture::{Grove, Mixture};
pub use parts::Latent;

use polaris_gguf::Metadata;
use polaris_ops::Pairing;

use crate::angles::Rotary;
use crate::architecture::{
    self, Alibi, Architecture, EmbeddingScale, LogitScale, Quirk, ResidualScale,
};
use crate::recurrence::Recurrence;
use crate::{Error, Result};

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
    /// The caps of gates and of what they are multiplied with; 0 for none.
    pub situ: [f64; 2],
    /// Layers after which the residual stream is kept and begins anew.
    pub residual_period: Option<usize>,
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
        let windows = windows::windows(&keys, count)?;
        let rotary = [false, true].map(|sliding| rotary::rotary(&keys, context, sliding));
        let [whole, sliding] = rotary;
        let layers = layers::layers(&keys, all, count, [width, context], &windows)?;
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
            experts: mixture::mixture(&keys)?,
            temperature: parts::temperature(&keys, context)?,
            norm_steps: keys.get("ssm.dt_b_c_rms")?.unwrap_or(false),
            causal: parts::causal(&keys, &windows, alibi)?,
            chosen_positions: parts::chosen_positions(&keys)?,
            layer_width: match architecture.quirk {
                Quirk::Gemma4 => keys.count("embedding_length_per_layer_input")?.unwrap_or(0),
                Quirk::Gemma3n => keys.count("embedding_length_per_layer_input")?.unwrap_or(256),
                _ => 0,
            },
            xielu: parts::xielu(&keys, count)?,
            situ: parts::situ(&keys)?,
            residual_period: match architecture.quirk {
                Quirk::ResidualAttention => {
                    keys.count("attn_res.block_size")?.filter(|&period| period > 0)
                }
                _ => None,
            },
        })
    }

    /// The tensor with the embeddings.
    pub(crate) fn embedding_name(&self, weights: &crate::weights::Weights) -> &'static str {
        let is_output = self.architecture.quirk == Quirk::EmbeddingOfOutput
            && !weights.has("token_embd.weight");
        if is_output { "output.weight" } else { "token_embd.weight" }
    }

    /// Bytes of cached keys and values for a token. Not every type suits every model: see [`crate::CacheType::check`].
    pub fn cache_bytes(&self, ty: crate::CacheType) -> u64 {
        crate::cache::Cache::bytes_per_token(self, ty)
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
