//! Attention of a layer: projections, norms of heads, rotation, cache, scores.

use polaris_core::DType;
use polaris_ops::{
    Array, Binary, CacheWrite, CachedAttention, Norm, NormKind, Rope, Ternary, Unary,
};

use super::decoder::{Decoder, LayerScope};
use super::recurrent::softplus;
use super::{Operation, Value};
use crate::architecture::{HeadNorm, Quirk};
use crate::{Error, Result};

impl Decoder<'_> {
    /// The result of attention. Keys and values are written to the cache in any case; without `wants_result` that is
    /// all.
    pub(super) fn attention(
        &mut self,
        scope: &LayerScope<'_>,
        x: Value,
        wants_result: bool,
    ) -> Result<Option<Value>> {
        let layer = scope.layer;
        if layer.key_heads == 0 {
            // A matrix in the place of attention, without the bias that attention may have.
            let (name, width) = (scope.name("attn_output.weight"), self.config.width);
            let weight = self.weights.find_shaped(&name, &[width, width])?;
            let missing = || Error::model(format!("the tensor `{name}` is missing"));
            let weight = self.build.given(weight.ok_or_else(missing)?);
            return self.build.linear("attn_output", x, weight, None).map(Some);
        }
        let cache = self.cache.layer(scope.number)?.clone();
        let (keys, values) = (self.build.given(&cache.keys), self.build.given(&cache.values));
        if let Some(latent) = layer.latent {
            self.write_latent(scope, latent, x, keys)?;
            if !wants_result {
                return Ok(None);
            }
            let q = self.latent_queries(scope, latent, x)?;
            let output = self.attend(scope, q, keys, values, latent.rank)?;
            let output = self.latent_values(scope, latent, output)?;
            return self.attention_output(scope, x, output).map(Some);
        }
        let ([mut q, mut k, mut v], own_gate) = self.project(scope, x)?;
        if let Some(limit) = self.config.clamp {
            for value in [&mut q, &mut k, &mut v] {
                *value = self.build.fused("clamp", [*value], move |build, [x]| {
                    x.ternary(Ternary::Clamp, build.constant(-limit), build.constant(limit))
                })?;
            }
        }
        let rotated = if wants_result { self.rotate_together(scope, q, k)? } else { None };
        if layer.shares.is_none() {
            let k = match rotated {
                Some([_, k]) => k,
                None => self.prepare(scope, k, layer.key_heads, "attn_k_norm")?,
            };
            let mut v = self.build.split_last(v, layer.value_size)?;
            if matches!(self.config.architecture.quirk, Quirk::Gemma4 | Quirk::Gemma3n) {
                v = self.plain_norm("value_norm", NormKind::Rms, v)?;
            }
            let rows = self.build.side_by_side(k, v, 1)?;
            match (&cache.both, rows) {
                (Some(both), Some(rows)) => {
                    let both = self.build.given(both);
                    self.write(both, rows, "cache_keys_values")?;
                }
                _ => {
                    self.write(keys, k, "cache_keys")?;
                    self.write(values, v, "cache_values")?;
                }
            }
        }
        if !wants_result {
            return Ok(None);
        }
        let q = match rotated {
            Some([q, _]) => q,
            None => self.prepare(scope, q, layer.heads, "attn_q_norm")?,
        };
        let mut output = self.attend(scope, q, keys, values, layer.value_size)?;
        if let Some(gate) = own_gate {
            output = self
                .build
                .fused("gated", [output, gate], |_, [x, gate]| x * gate.unary(Unary::Sigmoid))?;
        }
        self.attention_output(scope, x, output).map(Some)
    }

    /// Writes rows of the new tokens, `[tokens, heads, size]`, into the cache or a part of it.
    pub(super) fn write(&mut self, cache: Value, rows: Value, label: &str) -> Result<()> {
        let slots = self.token_input(&self.inputs.slots.clone())?;
        self.build.emit(label, CacheWrite, &[slots, cache, rows], cache);
        Ok(())
    }

    /// The attention of queries, `[tokens, heads, size]`, to the cache.
    fn attend(
        &mut self,
        scope: &LayerScope<'_>,
        q: Value,
        keys: Value,
        values: Value,
        value_size: usize,
    ) -> Result<Value> {
        let layer = scope.layer;
        let heads = layer.heads;
        let q = match (&self.inputs.temperature, layer.temperature) {
            (Some(temperature), true) => {
                let temperature = self.token_input(&temperature.clone())?;
                self.build.binary("temperature", Binary::Mul, q, temperature)?
            }
            _ => q,
        };
        let table = self.build.given(&self.inputs.table);
        let places = self.token_input(&self.inputs.places.clone())?;
        let mut inputs = vec![q, keys, values, table, places];
        let sinks = self.weights.find_shaped(&scope.name("attn_sinks.weight"), &[heads])?.cloned();
        if let Some(sinks) = &sinks {
            inputs.push(self.build.given(sinks));
        }
        if let Some(largest) = self.config.alibi {
            let slopes = slopes(heads, largest);
            let slopes = polaris_ops::Array::from_slice(self.weights.device(), &[heads], &slopes)?;
            inputs.push(self.build.given(&slopes));
        }
        let attention = CachedAttention {
            scale: Some(layer.attention_scale),
            window: layer.window.filter(|_| !layer.chunks),
            chunk: layer.window.filter(|_| layer.chunks),
            softcap: self.config.attention_softcap,
            bidirectional: !self.config.causal,
            sinks: sinks.is_some(),
            slopes: self.config.alibi.is_some(),
            longest: 0,
        };
        let output = self.build.make(DType::F32, &[self.size.tokens, heads, value_size])?;
        self.build.emit_operation("attention", Operation::Attention(attention), &inputs, output);
        Ok(output)
    }

    /// What all heads found, `[tokens, heads, size]`, as a part of the residual stream; `x` is the input of attention.
    fn attention_output(
        &mut self,
        scope: &LayerScope<'_>,
        x: Value,
        output: Value,
    ) -> Result<Value> {
        let layer = scope.layer;
        let joined =
            self.build.reshape(output, &[self.size.tokens, layer.heads * layer.value_size])?;
        let joined =
            self.norm_of(NormKind::Rms, joined, &scope.name("attn_sub_norm"))?.unwrap_or(joined);
        let joined = self.gate(scope, x, joined)?;
        let output = self.linear_required(joined, &scope.name("attn_output"))?;
        self.build.scale("value_scale", output, self.config.value_scale)
    }

    /// Queries, keys and values, each `[tokens, heads * size]`; of files that have gates beside queries, these as
    /// `[tokens, heads, size]`, and the gates.
    fn project(&mut self, scope: &LayerScope<'_>, x: Value) -> Result<([Value; 3], Option<Value>)> {
        let layer = scope.layer;
        let sizes = [
            layer.heads * layer.key_size,
            layer.key_heads * layer.key_size,
            layer.key_heads * layer.value_size,
        ];
        if let Some(fused) = self.linear(x, &scope.name("attn_qkv"))? {
            let found = self.build.dims(fused)[1];
            let expected: usize = sizes.iter().sum();
            if found != expected {
                return Err(Error::TensorShape {
                    name: scope.name("attn_qkv.weight"),
                    found: format!("[{found}, ..]"),
                    expected: format!("[{expected}, ..]"),
                });
            }
            return Ok((self.cut(fused, sizes)?, None));
        }
        let names = ["attn_q", "attn_k", "attn_v"];
        if layer.shares.is_none() {
            let layers = [0, 1, 2].map(|at| (scope.name(names[at]), sizes[at]));
            if let Some(joined) = self.linears("attn_qkv", x, &layers, None)? {
                return Ok((self.cut(joined, sizes)?, None));
            }
        }
        let mut all = [x; 3];
        let mut gate = None;
        let count = if layer.shares.is_some() { 1 } else { 3 };
        for at in 0..count {
            let (name, size) = (names[at], sizes[at]);
            let is_key = at == 2 && self.is_value_a_key(scope);
            let value = match is_key {
                true => all[1],
                false => self.linear_required(x, &scope.name(name))?,
            };
            all[at] = value;
            let found = self.build.dims(value)[1];
            if at == 0 && found == 2 * size && layer.key_size == layer.value_size {
                // The query and the gate of each head.
                let both = self.build.split_last(value, 2 * layer.key_size)?;
                all[0] = self.build.slice(both, 2, 0..layer.key_size)?;
                gate = Some(self.build.slice(both, 2, layer.key_size..2 * layer.key_size)?);
            } else if found != size {
                return Err(Error::TensorShape {
                    name: scope.name(&format!("{name}.weight")),
                    found: format!("[{found}, ..]"),
                    expected: format!("[{size}, ..]"),
                });
            }
        }
        Ok((all, gate))
    }

    /// Queries, keys and values that lie side by side.
    fn cut(&mut self, joined: Value, [q, k, v]: [usize; 3]) -> Result<[Value; 3]> {
        Ok([
            self.build.slice(joined, 1, 0..q)?,
            self.build.slice(joined, 1, q..q + k)?,
            self.build.slice(joined, 1, q + k..q + k + v)?,
        ])
    }

    /// Queries or keys head by head: `[tokens, heads, size]`.
    fn in_heads(&mut self, x: Value, size: usize) -> Result<Value> {
        match self.build.dims(x).len() {
            2 => self.build.split_last(x, size),
            _ => Ok(x),
        }
    }

    /// Whether values are the keys before norm and rotation.
    fn is_value_a_key(&self, scope: &LayerScope<'_>) -> bool {
        self.config.architecture.quirk == Quirk::Gemma4
            && !self.weights.has(&scope.name("attn_v.weight"))
    }

    /// Queries or keys as `[tokens, heads, size]`, normalised and rotated.
    fn prepare(
        &mut self,
        scope: &LayerScope<'_>,
        x: Value,
        heads: usize,
        norm: &str,
    ) -> Result<Value> {
        let architecture = self.config.architecture;
        let size = scope.layer.key_size;
        let kind = match architecture.head_norm {
            HeadNorm::Layer => NormKind::Layer,
            HeadNorm::Rms | HeadNorm::RmsAfterRotation => NormKind::Rms,
        };
        let is_after = architecture.head_norm == HeadNorm::RmsAfterRotation;
        if is_after {
            let x = self.in_heads(x, size)?;
            let x = self.rotate(scope, x)?;
            return self.head_norm(scope, kind, x, heads, norm);
        }
        // Norms come in pairs; one alone has no part in the result.
        let has_pair = ["attn_q_norm.weight", "attn_k_norm.weight"]
            .iter()
            .all(|name| self.weights.has(&scope.name(name)))
            || scope.layer.shares.is_some();
        if !has_pair && !is_after {
            let x = self.in_heads(x, size)?;
            return self.rotate_and_norm(scope, x);
        }
        let name = scope.name(norm);
        let length = self
            .weights
            .find(&format!("{name}.weight"))
            .map(|weight| weight.shape().dims().to_vec());
        let x = match length.as_deref() {
            // Over all heads together.
            Some(&[length]) if length == heads * size && length != size => {
                let whole = self.norm_of(kind, x, &name)?.unwrap_or(x);
                self.build.split_last(whole, size)?
            }
            _ => {
                let x = self.in_heads(x, size)?;
                self.head_norm(scope, kind, x, heads, norm)?
            }
        };
        self.rotate_and_norm(scope, x)
    }

    /// Queries and keys, rotated in one launch if they lie side by side and no more than a norm of each head comes before.
    /// Both are done in place.
    fn rotate_together(
        &mut self,
        scope: &LayerScope<'_>,
        q: Value,
        k: Value,
    ) -> Result<Option<[Value; 2]>> {
        let layer = scope.layer;
        let architecture = self.config.architecture;
        let size = layer.key_size;
        let names = ["attn_q_norm", "attn_k_norm"].map(|name| scope.name(name));
        let mut norms = Vec::new();
        for name in &names {
            norms.extend(self.weights.find(&format!("{name}.weight")).cloned());
        }
        let is_plain = |norm: &Array| norm.shape().dims() == [size];
        let has_more = names.iter().any(|name| self.weights.has(&format!("{name}.bias")));
        if !(norms.is_empty() || norms.len() == 2 && norms.iter().all(is_plain))
            || has_more
            || layer.shares.is_some()
            || architecture.head_norm == HeadNorm::RmsAfterRotation
            || architecture.head_norm == HeadNorm::Layer && !norms.is_empty()
            || matches!(architecture.quirk, Quirk::Llama4 | Quirk::Talkie)
        {
            return Ok(None);
        }
        let Some(both) = self.build.side_by_side(q, k, 1)? else { return Ok(None) };
        let both = self.build.split_last(both, size)?;
        let Some((rope, cos, sin)) = self.rope(scope)? else { return Ok(None) };
        let heads = layer.heads;
        let each = [
            self.build.slice(both, 1, 0..heads)?,
            self.build.slice(both, 1, heads..heads + layer.key_heads)?,
        ];
        for (at, weight) in norms.iter().enumerate() {
            let weight = self.build.given(weight);
            let epsilon = self.config.epsilon;
            let norm = Norm { kind: NormKind::Rms, epsilon, has_weight: true, has_bias: false };
            let label = ["attn_q_norm", "attn_k_norm"][at];
            self.build.emit(label, norm, &[each[at], weight], each[at]);
        }
        self.build.emit("rope", rope, &[both, cos, sin], both);
        Ok(Some(each))
    }

    /// Rotation, and what may follow it.
    fn rotate_and_norm(&mut self, scope: &LayerScope<'_>, x: Value) -> Result<Value> {
        let architecture = self.config.architecture;
        let x = self.rotate(scope, x)?;
        let is_plain = architecture.quirk == Quirk::Llama4
            && scope.layer.rotary.is_some()
            && self.config.experts.as_ref().is_none_or(|experts| experts.count != 128);
        match is_plain {
            true => self.plain_norm("head_norm", NormKind::Rms, x),
            false => Ok(x),
        }
    }

    /// The norm of each head, if there is one: with one weight for all heads, or with one for each.
    fn head_norm(
        &mut self,
        scope: &LayerScope<'_>,
        kind: NormKind,
        x: Value,
        heads: usize,
        norm: &str,
    ) -> Result<Value> {
        let size = scope.layer.key_size;
        let name = scope.name(norm);
        let weight = self.weights.find(&format!("{name}.weight")).cloned();
        match weight {
            Some(weight) if weight.elements() == heads * size && heads > 1 => {
                let x = self.plain_norm(norm, kind, x)?;
                let shape = polaris_core::Shape::new(&[heads, size])?;
                let weight = weight.with_layout(polaris_core::Layout::contiguous(shape))?;
                let weight = self.build.given(&weight);
                let x = self.build.binary(norm, Binary::Mul, x, weight)?;
                match self.weights.find_shaped(&format!("{name}.bias"), &[heads * size])?.cloned() {
                    Some(bias) => {
                        let bias = bias.with_layout(polaris_core::Layout::contiguous(shape))?;
                        let bias = self.build.given(&bias);
                        self.build.binary(norm, Binary::Add, x, bias)
                    }
                    None => Ok(x),
                }
            }
            // A gain for each head.
            Some(weight) if self.config.architecture.quirk == Quirk::Talkie => {
                let x = self.plain_norm(norm, kind, x)?;
                let shape = polaris_core::Shape::new(&[heads, 1])?;
                let weight = weight.with_layout(polaris_core::Layout::contiguous(shape))?;
                let weight = self.build.given(&weight);
                self.build.binary(norm, Binary::Mul, x, weight)
            }
            None if self.config.architecture.quirk == Quirk::Talkie => {
                self.plain_norm(norm, kind, x)
            }
            _ => Ok(self.norm_of(kind, x, &name)?.unwrap_or(x)),
        }
    }

    /// Queries or keys, rotated if the layer does so.
    pub(super) fn rotate(&mut self, scope: &LayerScope<'_>, x: Value) -> Result<Value> {
        let Some(rope) = self.rope(scope)? else { return Ok(x) };
        let dims = self.build.dims(x).to_vec();
        let output = self.build.make(DType::F32, &dims)?;
        let (rope, cos, sin) = rope;
        self.build.emit("rope", rope, &[x, cos, sin], output);
        Ok(output)
    }

    /// As [`Self::rotate`], into a part of a value.
    pub(super) fn rotate_into(
        &mut self,
        scope: &LayerScope<'_>,
        x: Value,
        output: Value,
    ) -> Result<()> {
        match self.rope(scope)? {
            Some((rope, cos, sin)) => self.build.emit("rope", rope, &[x, cos, sin], output),
            None => self.build.emit("copy", polaris_ops::copy::Copy, &[x], output),
        }
        Ok(())
    }

    /// The rotation of a layer, if it has one, with its cosines and sines.
    fn rope(&mut self, scope: &LayerScope<'_>) -> Result<Option<(Rope, Value, Value)>> {
        let (Some(kind), Some(pairing)) = (scope.layer.rotary, self.config.pairing) else {
            return Ok(None);
        };
        let Some(angles) = &self.inputs.angles[kind] else { return Ok(None) };
        let (cos, sin) = (angles.cos.clone(), angles.sin.clone());
        let (cos, sin) = (self.token_input(&cos)?, self.token_input(&sin)?);
        Ok(Some((Rope { pairing }, cos, sin)))
    }

    /// The result of all heads, times the gate if the layer has one: an element for each head or for each element.
    fn gate(&mut self, scope: &LayerScope<'_>, x: Value, joined: Value) -> Result<Value> {
        let Some(gate) = self.linear(x, &scope.name("attn_gate"))? else { return Ok(joined) };
        let is_soft = self.config.architecture.quirk == Quirk::SoftplusGate;
        let activated = self.build.fused("gate", [gate], move |_, [x]| match is_soft {
            true => softplus(x),
            false => x.unary(Unary::Sigmoid),
        })?;
        let rows = self.build.dims(gate)[1];
        let layer = scope.layer;
        if rows == layer.heads * layer.value_size {
            return self.build.binary("gated", Binary::Mul, joined, activated);
        }
        let heads = self.build.split_last(joined, layer.value_size)?;
        let each = self.build.split_last(activated, 1)?;
        let gated = self.build.binary("gated", Binary::Mul, heads, each)?;
        self.build.reshape(gated, &[self.size.tokens, layer.heads * layer.value_size])
    }
}

/// The slopes of ALiBi for each head. With a number of heads that is no power of two, the rest have every other slope of
/// twice as many.
pub(super) fn slopes(heads: usize, largest: f64) -> Vec<f32> {
    let power = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    let base = |bias: f64| (-bias / power as f64).exp2();
    let slope = |head: usize| match head < power {
        true => base(largest).powi(head as i32 + 1),
        false => base(largest / 2.0).powi(2 * (head - power) as i32 + 1),
    };
    (0..heads).map(|head| slope(head) as f32).collect()
}
