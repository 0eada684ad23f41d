//! A loaded model: configuration, weights, tokenizer.

use std::path::Path;
use std::sync::Arc;

use polaris_runtime::DeviceRef;
use polaris_sample::Options as SampleOptions;
use polaris_tokenizer::Tokenizer;

use crate::architecture::{Architecture, Quirk, SlidingRotary};
use crate::config::Config;
use crate::latent;
use crate::source::Source;
use crate::weights::Weights;
use crate::{Error, Result};

/// A language model on a device. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Model {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: Config,
    weights: Weights,
    vocabulary: usize,
    tokenizer: Option<Tokenizer>,
    template: Option<String>,
    name: Option<String>,
    sampling: SampleOptions,
    bytes: usize,
}

/// How a model is loaded.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadOptions {
    /// The context that will be used, which decides between the factors of LongRoPE; 0 for the default of
    /// [`EngineOptions`](crate::EngineOptions).
    pub context: usize,
}

impl Model {
    /// Opens a GGUF file or a folder of Hugging Face on a device, as [`Source::open`] does.
    ///
    /// # Errors
    /// If the file is not valid, its architecture is not supported, or there is no room.
    pub fn open(path: &Path, device: &DeviceRef, options: &LoadOptions) -> Result<Self> {
        Self::load(&Source::open(path)?, device, options, |_| Ok(()))
    }

    /// Brings a model to a device; `progress` is told how many bytes are there, and may stop it by an error.
    ///
    /// # Errors
    /// As for [`Model::open`], and what `progress` returns.
    pub fn load(
        source: &Source,
        device: &DeviceRef,
        options: &LoadOptions,
        progress: impl FnMut(usize) -> Result<()>,
    ) -> Result<Self> {
        let mut config = Config::read(&source.metadata)?;
        let mut weights =
            Weights::load(device, &source.tensors, config.architecture.ignored, progress)?;
        latent::split(&config, &source.tensors, &mut weights)?;
        let vocabulary = vocabulary(&config, &weights)?;
        crate::recurrence::check(&config, &weights)?;
        check_cache(&config, &weights)?;
        let context = crate::engine::context(&config, options.context);
        resolve_rotary(&mut config, &weights, &source.metadata, context)?;
        let layers = config.layers.len();
        weights.ignore(|name| is_ignorable(name, layers));
        let tokenizer = source.tokenizer()?;
        let text = |key: &str| -> Result<Option<String>> {
            Ok(source.metadata.get::<&str>(key)?.map(str::to_owned))
        };
        let shared = Shared {
            vocabulary,
            tokenizer,
            template: text("tokenizer.chat_template")?,
            name: text("general.name")?,
            sampling: crate::sampling::suggested(&source.metadata),
            bytes: source.bytes(),
            config,
            weights,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Its sizes and numbers.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Its architecture.
    pub fn architecture(&self) -> &'static Architecture {
        self.shared.config.architecture
    }

    /// Its weights.
    pub(crate) fn weights(&self) -> &Weights {
        &self.shared.weights
    }

    /// Where it is.
    pub fn device(&self) -> &DeviceRef {
        self.shared.weights.device()
    }

    /// How many tokens it knows.
    pub fn vocabulary(&self) -> usize {
        self.shared.vocabulary
    }

    /// Its tokenizer, if its file has one.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.shared.tokenizer.as_ref()
    }

    /// Its tokenizer.
    ///
    /// # Errors
    /// If its file has none.
    pub fn require_tokenizer(&self) -> Result<&Tokenizer> {
        self.tokenizer().ok_or_else(|| Error::model("its file has no tokenizer"))
    }

    /// The source of its chat template, if its file has one.
    pub fn template(&self) -> Option<&str> {
        self.shared.template.as_deref()
    }

    /// Its name, if its file has one.
    pub fn name(&self) -> Option<&str> {
        self.shared.name.as_deref()
    }

    /// How its file wants tokens to be chosen: the defaults, but for `general.sampling.*` in a GGUF file and
    /// `generation_config.json` in a folder.
    pub fn sampling(&self) -> &SampleOptions {
        &self.shared.sampling
    }

    /// Bytes of its tensors.
    pub fn bytes(&self) -> usize {
        self.shared.bytes
    }
}

/// The rows of the embedding, which those of the output must equal but for models that choose some of the tokens.
fn vocabulary(config: &Config, weights: &Weights) -> Result<usize> {
    let rows = |name: &str, expected: Option<usize>| -> Result<usize> {
        let shape = *weights.require(name)?.shape();
        match *shape.dims() {
            [rows, width] if width == config.width && expected.is_none_or(|e| e == rows) => {
                Ok(rows)
            }
            _ => Err(Error::TensorShape {
                name: name.to_owned(),
                found: shape.to_string(),
                expected: match expected {
                    Some(rows) => format!("[{rows}, {}]", config.width),
                    None => format!("[vocabulary, {}]", config.width),
                },
            }),
        }
    };
    let count = rows(config.embedding_name(weights), None)?;
    if weights.has("output.weight") {
        let is_part = config.architecture.quirk == Quirk::LastOutputs;
        let found = rows("output.weight", (!is_part).then_some(count))?;
        if found > count {
            return Err(Error::model(format!("it has logits for {found} of {count} tokens")));
        }
    }
    if weights.has("position_embd.weight") {
        rows("position_embd.weight", None)?;
    }
    Ok(count)
}

/// Keys and values are made by matrices of a row for each, so a layer has as many elements at least. The cache is made
/// before its matrices are looked at, and must not be larger because the metadata say so.
fn check_cache(config: &Config, weights: &Weights) -> Result<()> {
    let mut elements = vec![0usize; config.layers.len()];
    for (name, count) in weights.elements() {
        let layer = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok());
        if let Some(sum) = layer.and_then(|layer: usize| elements.get_mut(layer)) {
            *sum = sum.saturating_add(count);
        }
    }
    for (number, (layer, elements)) in config.layers.iter().zip(elements).enumerate() {
        let Some((heads, keys, values)) = layer.cached() else { continue };
        let cached = keys.saturating_add(values.unwrap_or(0)).saturating_mul(heads);
        if cached.saturating_mul(config.width) > elements {
            return Err(Error::model(format!(
                "a token has {cached} keys and values in layer {number}, and the tensors `blk.{number}.*` have \
                 {elements} elements in all"
            )));
        }
    }
    Ok(())
}

/// Sizes of rotary embeddings that the metadata leave to the heads, and divisors of frequencies from tensors.
fn resolve_rotary(
    config: &mut Config,
    weights: &Weights,
    metadata: &polaris_gguf::Metadata,
    context: usize,
) -> Result<()> {
    let name = config.architecture.name;
    let original = metadata
        .get::<u64>(&format!("{name}.rope.scaling.original_context_length"))?
        .map_or(config.context, |original| original as usize);
    let long =
        if context > original { "rope_factors_long.weight" } else { "rope_factors_short.weight" };
    let divisors = match config.architecture.frequency_factors {
        true => weights.find("rope_freqs.weight").or_else(|| weights.find(long)),
        false => None,
    };
    let divisors = divisors.map(polaris_ops::Array::to_vec::<f32>).transpose()?;
    for kind in 0..2 {
        let of_kind = config.layers.iter().find(|layer| layer.rotary == Some(kind));
        let Some(layer) = of_kind else {
            config.rotary[kind] = None;
            continue;
        };
        let Some(rotary) = &mut config.rotary[kind] else { continue };
        if rotary.size == 0 {
            rotary.size = layer.key_size;
        }
        if config.base_growth > 0.0 {
            let size = layer.key_size as f64;
            if layer.key_size <= 2 {
                return Err(Error::model("its heads are too small for a base that grows"));
            }
            rotary.base *= config.base_growth.powf(size / (size - 2.0));
        }
        if rotary.size > layer.key_size {
            let (size, head) = (rotary.size, layer.key_size);
            return Err(Error::model(format!("{size} elements of heads of {head} are rotated")));
        }
        // Sliding layers that have frequencies of their own have no factors.
        if kind == 0 || config.architecture.sliding_rotary != SlidingRotary::Unscaled {
            rotary.divisors.clone_from(&divisors);
        }
        if let Some(divisors) = &divisors
            && divisors.iter().any(|divisor| !divisor.is_finite() || *divisor == 0.0)
        {
            return Err(Error::model("a factor of its frequencies is 0 or no number"));
        }
    }
    Ok(())
}

/// Tensors that are known and have no part in the logits: further layers that predict more tokens, factors of
/// frequencies that this architecture or context does not use.
fn is_ignorable(name: &str, layers: usize) -> bool {
    let layer = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok());
    layer.is_some_and(|layer: usize| layer >= layers)
        || name.starts_with("rope_f")
        || name.contains("nextn")
        || name.ends_with("rope_freqs.weight")
        || name.ends_with(".input_scale")
}
