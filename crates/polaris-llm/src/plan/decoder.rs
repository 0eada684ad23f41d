//! The plan of a decoder: embedding, layers, logits.

use polaris_core::DType;
use polaris_ops::copy::Copy;
use polaris_ops::fill::Fill;
use polaris_ops::indexing::{Lookup, LookupRule};
use polaris_ops::matmul::Activation;
use polaris_ops::{Array, Binary, Norm, NormKind};

use super::{Arena, Builder, Plan, Value};
use crate::architecture::{self, Parallel, Quirk};
use crate::cache::Cache;
use crate::config::{Config, Layer};
use crate::inputs::Inputs;
use crate::weights::Weights;
use crate::{Error, Result};

/// How many tokens a plan computes, and for how many of them logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Size {
    pub tokens: usize,
    pub outputs: usize,
    /// The sequences of the tokens, for models with states.
    pub sequences: usize,
}

/// What a plan is made of.
pub(super) struct Decoder<'a> {
    pub build: Builder,
    pub config: &'a Config,
    pub weights: &'a Weights,
    pub cache: &'a Cache,
    pub inputs: &'a Inputs,
    pub size: Size,
    /// What layers take from a second table of embeddings, `[tokens, layers, width]`.
    pub layer_inputs: Option<Value>,
}

/// A layer under construction.
pub(super) struct LayerScope<'a> {
    pub number: usize,
    pub layer: &'a Layer,
}

impl LayerScope<'_> {
    /// The name of one of its tensors.
    pub fn name(&self, tensor: &str) -> String {
        format!("blk.{}.{tensor}", self.number)
    }
}

/// Makes a plan; the array has the logits, a row for each output.
pub(crate) fn plan(
    build: Builder,
    config: &Config,
    weights: &Weights,
    cache: &Cache,
    inputs: &Inputs,
    size: Size,
    arena: &mut Arena,
) -> Result<(Plan, Option<Array>)> {
    let layer_inputs = None;
    let mut decoder = Decoder { build, config, weights, cache, inputs, size, layer_inputs };
    let x = decoder.embed()?;
    if config.layer_width > 0 {
        decoder.layer_inputs = Some(decoder.embed_for_layers(x)?);
    }
    let last = match config.residual_period {
        Some(period) => decoder.residual_layers(x, period)?,
        None if config.architecture.quirk == Quirk::Gemma3n => decoder.altup_layers(x)?,
        None => decoder.layers(x)?,
    };
    // Nobody wants what follows the last cache.
    let Some(last) = last else { return Ok((decoder.build.finish(None, arena)?.0, None)) };
    let logits = decoder.logits(last)?;
    decoder.build.finish(Some(logits), arena)
}

impl Decoder<'_> {
    /// The first rows of an input array.
    pub fn input(&mut self, array: &Array, rows: usize) -> Result<Value> {
        Ok(self.build.given(&array.slice(0, 0..rows, 1)?))
    }

    /// An input with an element or a row for each token.
    pub fn token_input(&mut self, array: &Array) -> Result<Value> {
        self.input(array, self.size.tokens)
    }

    /// A tensor as a value.
    pub fn find(&mut self, name: &str) -> Option<Value> {
        let array = self.weights.find(name)?;
        Some(self.build.given(array))
    }

    fn embed(&mut self) -> Result<Value> {
        let table = self.weights.require(self.config.embedding_name(self.weights))?;
        let table = self.build.given(table);
        let ids = self.token_input(&self.inputs.ids.clone())?;
        let mut x = self.rows("embedding", table, ids)?;
        x = self.build.scale("embedding_scale", x, self.config.embedding_scale)?;
        if let Some(positions) = self.find("position_embd.weight") {
            let index = self.token_input(&self.inputs.positions.clone())?;
            let rows = self.rows("position_embedding", positions, index)?;
            x = self.build.binary("add_position", Binary::Add, x, rows)?;
        }
        if self.config.architecture.quirk != Quirk::EmbeddingNormLast {
            x = self.norm(x, "token_embd_norm")?.unwrap_or(x);
        }
        if self.config.architecture.quirk == Quirk::Talkie {
            x = self.plain_norm("embedding_norm", NormKind::Rms, x)?;
        }
        Ok(x)
    }

    /// Rows of a table.
    pub fn rows(&mut self, label: &str, table: Value, index: Value) -> Result<Value> {
        let dims = [self.build.dims(index)[0], self.build.dims(table)[1]];
        let output = self.build.make(DType::F32, &dims)?;
        let lookup = Lookup { rule: LookupRule::Take, axis: 0 };
        self.build.emit(label, lookup, &[index, table], output);
        Ok(output)
    }

    /// A norm without weights.
    pub fn plain_norm(&mut self, label: &str, kind: NormKind, x: Value) -> Result<Value> {
        let epsilon = self.config.epsilon;
        let dims = self.build.dims(x).to_vec();
        let output = self.build.make(DType::F32, &dims)?;
        let norm = Norm { kind, epsilon, has_weight: false, has_bias: false };
        self.build.emit(label, norm, &[x], output);
        Ok(output)
    }

    /// The norm of a name, if the model has it.
    pub fn norm(&mut self, x: Value, name: &str) -> Result<Option<Value>> {
        let kind = match self.config.norm {
            architecture::Norm::Rms => NormKind::Rms,
            _ => NormKind::Layer,
        };
        self.norm_of(kind, x, name)
    }

    /// The norm before a part, which only some architectures lack.
    pub fn input_norm(&mut self, x: Value, name: &str) -> Result<Value> {
        match self.norm(x, name)? {
            Some(normed) => Ok(normed),
            None if !self.config.architecture.input_norms => Ok(x),
            None => Err(Error::model(format!("the tensor `{name}.weight` is missing"))),
        }
    }

    /// As [`Self::norm`], of a kind. A weight must be as long as the rows.
    pub fn norm_of(&mut self, kind: NormKind, x: Value, name: &str) -> Result<Option<Value>> {
        let length = self.build.dims(x).last().copied().unwrap_or(1);
        let label = name.rsplit('.').next().unwrap_or(name).to_owned();
        let has_none = self.config.norm == architecture::Norm::LayerPlain
            || self.config.architecture.quirk == Quirk::Talkie;
        let last = name.rsplit('.').next().unwrap_or(name);
        let is_usual = ["attn_norm", "ffn_norm", "output_norm"].contains(&last);
        // Some files have norms whose names lack the ending.
        let weight = match self.weights.find_shaped(&format!("{name}.weight"), &[length])? {
            Some(weight) => Some(weight),
            None => self.weights.find_shaped(name, &[length])?,
        };
        let Some(weight) = weight else {
            return match has_none && is_usual {
                true => self.plain_norm(&label, kind, x).map(Some),
                false => Ok(None),
            };
        };
        let bias = self.weights.find_shaped(&format!("{name}.bias"), &[length])?;
        let flat = |array: &Array| -> Result<Array> {
            let shape = polaris_core::Shape::new(&[length])?;
            Ok(array.with_layout(polaris_core::Layout::contiguous(shape))?)
        };
        let weight = self.build.given(&flat(weight)?);
        let bias = match bias {
            Some(bias) => Some(self.build.given(&flat(bias)?)),
            None => None,
        };
        let norm =
            Norm { kind, epsilon: self.config.epsilon, has_weight: true, has_bias: bias.is_some() };
        let dims = self.build.dims(x).to_vec();
        let output = self.build.make(DType::F32, &dims)?;
        let inputs: Vec<Value> = [x, weight].into_iter().chain(bias).collect();
        self.build.emit(&label, norm, &inputs, output);
        Ok(Some(output))
    }

    /// The matrix of a name and its bias, if that is all there is to a linear layer of `x`.
    pub fn plain_layer(&mut self, x: Value, name: &str) -> Result<Option<(Array, Option<Array>)>> {
        let columns = self.build.dims(x).last().copied().unwrap_or(1);
        let Some(weight) = self.weights.find(&format!("{name}.weight")) else { return Ok(None) };
        let &[rows, found] = weight.shape().dims() else { return Ok(None) };
        if found != columns || self.weights.has(&format!("{name}.scale")) {
            return Ok(None);
        }
        let bias = self.weights.find_shaped(&format!("{name}.bias"), &[rows])?;
        Ok(Some((weight.clone(), bias.cloned())))
    }

    /// The linear layers of some names, with so many rows each, side by side or gated in one launch; `None` if they must be
    /// computed one by one.
    pub fn linears(
        &mut self,
        label: &str,
        x: Value,
        layers: &[(String, usize)],
        gate: Option<Activation>,
    ) -> Result<Option<Value>> {
        let mut weights = Vec::with_capacity(layers.len());
        let mut biases = Vec::with_capacity(layers.len());
        for (name, rows) in layers {
            let Some((weight, bias)) = self.plain_layer(x, name)? else { return Ok(None) };
            if weight.shape()[0] != *rows {
                return Ok(None);
            }
            weights.push(weight);
            biases.extend(bias);
        }
        if !biases.is_empty() && biases.len() != weights.len() {
            return Ok(None);
        }
        self.build.linears(label, x, &weights, &biases, gate)
    }

    /// The product with a matrix of the model, and its bias if there is one; `None` without the matrix.
    pub fn linear(&mut self, x: Value, name: &str) -> Result<Option<Value>> {
        let label = name.rsplit('.').next().unwrap_or(name).to_owned();
        let full = format!("{name}.weight");
        if self.build.is_normed(x)
            && let Some((weight, bias)) = self.plain_layer(x, name)?
            && let Some(output) = self.build.linears(&label, x, &[weight], bias.as_slice(), None)?
        {
            return Ok(Some(output));
        }
        let Some(weight) = self.weights.find(&full) else { return Ok(None) };
        let columns = self.build.dims(x).last().copied().unwrap_or(1);
        // Files leave out a single row.
        let weight = match *weight.shape().dims() {
            [found] if found == columns => {
                let shape = polaris_core::Shape::new(&[1, columns])?;
                &weight.with_layout(polaris_core::Layout::contiguous(shape))?
            }
            [_, found] if found == columns => weight,
            _ => {
                return Err(Error::TensorShape {
                    name: full,
                    found: weight.shape().to_string(),
                    expected: format!("[rows, {columns}]"),
                });
            }
        };
        let rows = weight.shape()[0];
        let bias = self.weights.find_shaped(&format!("{name}.bias"), &[rows])?.cloned();
        let scale = self.weights.find_shaped(&format!("{name}.scale"), &[1])?.cloned();
        let weight = self.build.given(weight);
        if let Some(scale) = scale {
            // Files mean a scale of attention for the product, and one of the network for the sum with the bias.
            let is_late = label.starts_with("ffn");
            let bias = bias.map(|bias| self.build.given(&bias));
            let product = self.build.linear(&label, x, weight, bias.filter(|_| is_late))?;
            let scale = self.build.given(&scale);
            let product = self.build.binary("scale", Binary::Mul, product, scale)?;
            return match bias {
                Some(bias) if !is_late => {
                    self.build.binary("bias", Binary::Add, product, bias).map(Some)
                }
                _ => Ok(Some(product)),
            };
        }
        let bias = bias.map(|bias| self.build.given(&bias));
        self.build.linear(&label, x, weight, bias).map(Some)
    }

    /// As [`Self::linear`], for a matrix that must be there.
    pub fn linear_required(&mut self, x: Value, name: &str) -> Result<Value> {
        self.linear(x, name)?
            .ok_or_else(|| Error::model(format!("the tensor `{name}.weight` is missing")))
    }

    /// A part of the residual stream, scaled and added.
    fn add(&mut self, label: &str, x: Value, part: Value) -> Result<Value> {
        let scale = self.config.residual_scale;
        if self.config.architecture.quirk == Quirk::NormedResidual {
            return self.build.fused(label, [x, part], move |_, [x, part]| scale * x + part);
        }
        match scale {
            1.0 => self.build.add(label, x, part),
            scale => self.build.fused(label, [x, part], move |_, [x, part]| x + scale * part),
        }
    }

    /// Keeps the rows whose logits are wanted.
    pub fn keep_outputs(&mut self, x: Value) -> Result<Value> {
        if self.size.outputs == self.size.tokens {
            return Ok(x);
        }
        let outputs = self.input(&self.inputs.outputs.clone(), self.size.outputs)?;
        self.rows("outputs", x, outputs)
    }

    /// All layers from the embedding on; `None` if no logits are wanted.
    fn layers(&mut self, first: Value) -> Result<Option<Value>> {
        let mut x = first;
        let last = self.config.layers.len() - 1;
        for (number, layer) in self.config.layers.iter().enumerate() {
            self.build.enter(format!("blk.{number}"));
            let scope = LayerScope { number, layer };
            match self.layer(&scope, x, first, number == last)? {
                Some(next) => x = next,
                None => return Ok(None),
            }
        }
        self.build.enter("");
        Ok(Some(x))
    }

    /// One layer; `None` if it is the last one and no logits are wanted.
    fn layer(
        &mut self,
        scope: &LayerScope<'_>,
        x: Value,
        first: Value,
        is_last: bool,
    ) -> Result<Option<Value>> {
        let architecture = self.config.architecture;
        if scope.layer.heads == 0 && architecture.recurrent.is_none() {
            return self.layer_without_attention(scope, x, is_last);
        }
        let normed = self.input_norm(x, &scope.name("attn_norm"))?;
        let attention_input = match architecture.quirk {
            Quirk::Falcon => self.norm(x, &scope.name("attn_norm_2"))?.unwrap_or(normed),
            _ => normed,
        };
        let mut inputs = x;
        let wants_rest = !is_last || self.size.outputs > 0;
        let Some(attended) = self.mix(scope, attention_input, wants_rest)? else {
            return Ok(None);
        };
        let x = if architecture.quirk == Quirk::NormedResidual { normed } else { x };
        let (mut x, mut normed, mut attended, mut first) = (x, normed, attended, first);
        if is_last {
            x = self.keep_outputs(x)?;
            inputs = x;
            attended = self.keep_outputs(attended)?;
            let has_feed_forward_norm = self.weights.has(&scope.name("ffn_norm.weight"));
            if !has_feed_forward_norm || architecture.quirk == Quirk::Falcon {
                normed = self.keep_outputs(normed)?;
            }
            if architecture.quirk == Quirk::Talkie {
                first = self.keep_outputs(first)?;
            }
        }
        let after = match architecture.quirk {
            Quirk::Grok => "attn_output_norm",
            _ => "post_attention_norm",
        };
        if architecture.feed_forward_norm != after {
            attended = self.norm(attended, &scope.name(after))?.unwrap_or(attended);
        }
        if !self.has_network(scope) {
            return self.add("add_mixed", x, attended).map(Some);
        }
        let norm_name = scope.name(architecture.feed_forward_norm);
        let is_parallel = self.config.parallel
            || architecture.parallel == Parallel::WithoutNorm
                && !self.weights.has(&format!("{norm_name}.weight"));
        let result = if is_parallel {
            let input = match self.weights.has(&format!("{norm_name}.weight")) {
                true => self.norm(x, &norm_name)?.unwrap_or(normed),
                false => normed,
            };
            let forwarded = self.feed_forward(scope, input, inputs)?;
            let x = self.add("add_attention", x, attended)?;
            self.add("add_feed_forward", x, forwarded)?
        } else {
            let x = self.add("add_attention", x, attended)?;
            if !scope.layer.has_network {
                return Ok(Some(x));
            }
            let input = self.input_norm(x, &norm_name)?;
            if architecture.quirk == Quirk::Gemma4 {
                inputs = x;
            }
            let x = if architecture.quirk == Quirk::NormedResidual { input } else { x };
            let mut forwarded = self.feed_forward(scope, input, inputs)?;
            for name in ["layer_output_norm", "post_ffw_norm"] {
                if let Some(normed) = self.norm(forwarded, &scope.name(name))? {
                    forwarded = normed;
                    break;
                }
            }
            self.add("add_feed_forward", x, forwarded)?
        };
        if architecture.quirk == Quirk::Gemma4 {
            return self.end_of_layer(scope, result, is_last).map(Some);
        }
        if architecture.quirk == Quirk::Talkie {
            let scale = self
                .find(&scope.name("layer_output_scale.weight"))
                .ok_or_else(|| Error::model("a tensor `layer_output_scale` is missing"))?;
            let again = self.build.binary("scale_embedding", Binary::Mul, first, scale)?;
            return self.build.binary("add_embedding", Binary::Add, result, again).map(Some);
        }
        Ok(Some(result))
    }

    /// Whether a feed-forward network follows; layers with recurrent parts may do without it.
    fn has_network(&self, scope: &LayerScope<'_>) -> bool {
        if self.config.architecture.recurrent.is_none() {
            return true;
        }
        let is_alone = !scope.layer.attends && scope.layer.recurrence.is_none();
        let names = ["ffn_down.weight", "ffn_down_exps.weight"];
        !is_alone && names.iter().any(|name| self.weights.has(&scope.name(name)))
    }

    /// A layer that has a feed-forward network alone, or nothing.
    fn layer_without_attention(
        &mut self,
        scope: &LayerScope<'_>,
        x: Value,
        is_last: bool,
    ) -> Result<Option<Value>> {
        if is_last && self.size.outputs == 0 {
            return Ok(None);
        }
        let x = if is_last { self.keep_outputs(x)? } else { x };
        if !scope.layer.has_network {
            return Ok(Some(x));
        }
        let input = self.input_norm(x, &scope.name(self.config.architecture.feed_forward_norm))?;
        let forwarded = self.feed_forward(scope, input, x)?;
        self.add("add_feed_forward", x, forwarded).map(Some)
    }

    fn logits(&mut self, x: Value) -> Result<Value> {
        let norm = match self.config.architecture.quirk {
            Quirk::EmbeddingNormLast => "token_embd_norm",
            _ => "output_norm",
        };
        let x = self
            .norm(x, norm)?
            .ok_or_else(|| Error::model(format!("the tensor `{norm}.weight` is missing")))?;
        let is_tied = self.config.architecture.quirk == Quirk::TiedOutput;
        let own = if is_tied { None } else { self.linear(x, "output")? };
        let logits = match own {
            Some(logits) => logits,
            None => self.linear_required(x, "token_embd")?,
        };
        let logits = self.build.scale("logit_scale", logits, self.config.logit_scale)?;
        let logits = self.build.softcap("softcap", logits, self.config.final_softcap)?;
        match self.config.architecture.quirk {
            Quirk::LastOutputs => self.without_first(logits),
            _ => Ok(logits),
        }
    }

    /// Logits of the last tokens of the vocabulary, and negative infinity for those before them.
    fn without_first(&mut self, logits: Value) -> Result<Value> {
        let words = self.weights.require(self.config.embedding_name(self.weights))?.shape()[0];
        let [rows, last] = *self.build.dims(logits) else {
            return Err(Error::model("logits should be a matrix"));
        };
        let all = self.build.make(DType::F32, &[rows, words])?;
        let first = words.saturating_sub(last);
        if first > 0 {
            let place = self.build.slice(all, 1, 0..first)?;
            self.build.emit("no_logits", Fill { value: f64::NEG_INFINITY }, &[], place);
        }
        let place = self.build.slice(all, 1, first..words)?;
        self.build.emit("last_logits", Copy, &[logits], place);
        Ok(all)
    }
}
