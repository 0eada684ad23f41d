//! What Gemma 3n and 4 have alone: a second table of embeddings that gives each layer an input; in Gemma 4 also a scale
//! of layers, and mixtures beside a dense network.

use polaris_ops::{Binary, NormKind, Unary};

use super::Value;
use super::decoder::{Decoder, LayerScope};
use crate::{Error, Result};

impl Decoder<'_> {
    /// What layers take beside the residual stream, `[tokens, layers, width]`: rows of a table, and a projection of the
    /// embedding `x`.
    pub(super) fn embed_for_layers(&mut self, x: Value) -> Result<Value> {
        let (width, layers) = (self.config.layer_width, self.config.layers.len());
        let name = "per_layer_token_embd.weight";
        let table = self.weights.require(name)?;
        if !matches!(*table.shape().dims(), [_, columns] if columns == layers * width) {
            return Err(Error::TensorShape {
                name: name.to_owned(),
                found: table.shape().to_string(),
                expected: format!("[vocabulary, {}]", layers * width),
            });
        }
        let table = self.build.given(table);
        let ids = self.token_input(&self.inputs.ids.clone())?;
        let rows = self.rows("layer_embedding", table, ids)?;
        let rows = self.build.split_last(rows, width)?;
        let projected = self.linear_required(x, "per_layer_model_proj")?;
        let factor = 1.0 / (self.config.width as f64).sqrt();
        let projected = self.build.scale("layer_projection_scale", projected, factor)?;
        let projected = self.build.split_last(projected, width)?;
        let normed = self.required_norm(projected, "per_layer_proj_norm")?;
        let root = (width as f64).sqrt();
        self.build.fused("layer_inputs", [normed, rows], move |_, [normed, rows]| {
            (normed + rows * root) * std::f64::consts::FRAC_1_SQRT_2
        })
    }

    /// Adds the layer's own input, and scales the result.
    pub(super) fn end_of_layer(
        &mut self,
        scope: &LayerScope<'_>,
        x: Value,
        is_last: bool,
    ) -> Result<Value> {
        let result = match self.layer_input(scope, x, is_last)? {
            Some(added) => self.build.binary("add_layer_input", Binary::Add, x, added)?,
            None => x,
        };
        match self.find(&scope.name("layer_output_scale.weight")) {
            Some(scale) => self.build.binary("scale_layer", Binary::Mul, result, scale),
            None => Ok(result),
        }
    }

    /// What the layer's own input adds, gated by `x`.
    pub(super) fn layer_input(
        &mut self,
        scope: &LayerScope<'_>,
        x: Value,
        keeps_outputs: bool,
    ) -> Result<Option<Value>> {
        let Some(inputs) = self.layer_inputs else { return Ok(None) };
        let input = self.build.select(inputs, 1, scope.number)?;
        let input = if keeps_outputs { self.keep_outputs(input)? } else { input };
        let gate = self.linear_required(x, &scope.name("inp_gate"))?;
        let gated = self.build.fused("layer_gate", [gate, input], |_, [gate, input]| {
            gate.unary(Unary::GeluTanh) * input
        })?;
        let projected = self.linear_required(gated, &scope.name("proj"))?;
        self.required_norm(projected, &scope.name("post_norm")).map(Some)
    }

    /// A dense network and experts beside each other; `x` is the normalised stream, `stream` what it was before.
    pub(super) fn mixture_beside_dense(
        &mut self,
        scope: &LayerScope<'_>,
        x: Value,
        stream: Value,
    ) -> Result<Value> {
        let dense = self.dense(scope, x, "")?;
        let dense = self.required_norm(dense, &scope.name("post_ffw_norm_1"))?;
        let input = self.required_norm(stream, &scope.name("pre_ffw_norm_2"))?;
        let logits = self.scaled_logits(scope, stream)?;
        let mixed = self.mixture_of(scope, input, logits)?;
        let mixed = self.required_norm(mixed, &scope.name("post_ffw_norm_2"))?;
        self.build.binary("mix", Binary::Add, dense, mixed)
    }

    /// The logits of experts from the stream, normalised and scaled for them.
    fn scaled_logits(&mut self, scope: &LayerScope<'_>, stream: Value) -> Result<Value> {
        let width = self.config.width;
        let name = scope.name("ffn_gate_inp.scale");
        let scale = self.weights.find_shaped(&name, &[width])?.cloned();
        let scale = scale.ok_or_else(|| Error::model(format!("the tensor `{name}` is missing")))?;
        let scale = self.build.given(&scale);
        let normed = self.plain_norm("router_norm", NormKind::Rms, stream)?;
        let factor = 1.0 / (width as f64).sqrt();
        let scaled = self
            .build
            .fused("router_scale", [normed, scale], move |_, [x, scale]| x * scale * factor)?;
        let weight = self.weights.require(&scope.name("ffn_gate_inp.weight"))?;
        let weight = self.build.given(weight);
        self.build.linear("ffn_gate_inp", scaled, weight, None)
    }

    pub(super) fn required_norm(&mut self, x: Value, name: &str) -> Result<Value> {
        self.norm_of(NormKind::Rms, x, name)?
            .ok_or_else(|| Error::model(format!("the tensor `{name}.weight` is missing")))
    }
}
