//! Recurrent parts of layers: short convolutions and lightning attention. Delta rules are in `delta.rs`, Mamba in
//! `mamba.rs`.

use polaris_core::{DType, Layout, Shape};
use polaris_ops::copy::Copy;
use polaris_ops::fused::Value as Term;
use polaris_ops::linear_attention::{Decay, LinearAttention, Sharing};
use polaris_ops::{Array, Binary, CacheWrite, CausalConv, NormKind, Unary};

use super::Value;
use super::decoder::{Decoder, LayerScope};
use crate::architecture::Mixer;
use crate::recurrence::Recurrence;
use crate::{Error, Result};

/// `log(1 + exp(x))`, in a form that does not overflow.
pub(super) fn softplus(x: Term<'_>) -> Term<'_> {
    let small = (-x.unary(Unary::Abs)).unary(Unary::Exp);
    x.unary(Unary::Relu) + (small + 1.0).unary(Unary::Log)
}

/// A recurrent part of a layer under construction.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub scope: &'a LayerScope<'a>,
    pub recurrence: &'a Recurrence,
    /// Its input.
    pub x: Value,
    /// Whether more is wanted than what it keeps.
    pub wants_result: bool,
}

/// Linear attention without the delta rule, but for the decay.
pub(super) const SCAN: LinearAttention = LinearAttention {
    decay: Decay::Head,
    delta: false,
    sharing: Sharing::Neighbours,
    query_scale: 1.0,
    key_scale: 1.0,
};

/// What linear attention of a layer reads.
pub(super) struct Read {
    /// `[tokens, groups, keys]`.
    pub q: Value,
    pub k: Value,
    /// `[tokens, heads, values]`.
    pub v: Value,
    /// As [`Decay`] says.
    pub decay: Value,
    /// `[tokens, heads]`, for the delta rule.
    pub beta: Option<Value>,
    /// `[keys, heads, values]`, for [`Decay::Rates`].
    pub rates: Option<Value>,
}

impl Decoder<'_> {
    /// What a layer adds to the residual stream first: attention, a recurrent part, or both; in layers that have neither,
    /// the feed-forward network. States and caches are written in any case; without `wants_result` that is all.
    pub(super) fn mix(
        &mut self,
        scope: &LayerScope<'_>,
        x: Value,
        wants_result: bool,
    ) -> Result<Option<Value>> {
        let layer = scope.layer;
        if !layer.attends && layer.recurrence.is_none() {
            return match wants_result {
                true => self.feed_forward(scope, x, x).map(Some),
                false => Ok(None),
            };
        }
        let attended = match layer.attends {
            true => self.attention(scope, x, wants_result)?,
            false => None,
        };
        let Some(recurrence) = &layer.recurrence else { return Ok(attended) };
        let part = Part { scope, recurrence, x, wants_result };
        let mixed = match recurrence.mixer {
            Mixer::ShortConv => self.short_conv(&part)?,
            Mixer::GatedDelta { tiled: true } => self.gated_delta(&part, Sharing::Tiled)?,
            Mixer::GatedDelta { tiled: false } => self.gated_delta(&part, Sharing::Neighbours)?,
            Mixer::KimiDelta(decay) => self.kimi_delta(&part, decay)?,
            Mixer::Mamba => self.mamba(&part)?,
            Mixer::Mamba2 => self.mamba2(&part)?,
            Mixer::PlamoMamba => self.plamo_mamba(&part)?,
            Mixer::Lightning => self.lightning(&part)?,
        };
        match (attended, mixed) {
            (Some(a), Some(b)) => self.build.binary("add_mixed", Binary::Add, a, b).map(Some),
            (attended, mixed) => Ok(attended.or(mixed)),
        }
    }

    /// A tensor of so many elements, which files may have in any shape and type, as `f32`.
    pub(super) fn floats(&mut self, name: &str, dims: &[usize]) -> Result<Value> {
        let array = self.weights.require(name)?;
        let shape = Shape::new(dims)?;
        if array.elements() != shape.elements() {
            return Err(Error::TensorShape {
                name: name.to_owned(),
                found: array.shape().to_string(),
                expected: shape.to_string(),
            });
        }
        if array.is_dense() && array.dtype() == DType::F32 {
            return Ok(self.build.given(&array.with_layout(Layout::contiguous(shape))?));
        }
        let found = array.shape().dims().to_vec();
        let array = self.build.given(array);
        let output = self.build.make(DType::F32, &found)?;
        self.build.emit("expand", Copy, &[array], output);
        self.build.reshape(output, dims)
    }

    /// As [`Self::linear_required`], for a matrix whose rows the sizes of the layer determine.
    pub(super) fn linear_rows(&mut self, x: Value, name: &str, rows: usize) -> Result<Value> {
        let product = self.linear_required(x, name)?;
        match self.build.dims(product)[1] {
            found if found == rows => Ok(product),
            found => Err(Error::TensorShape {
                name: format!("{name}.weight"),
                found: format!("[{found}, ..]"),
                expected: format!("[{rows}, ..]"),
            }),
        }
    }

    /// The convolution of `x`, `[tokens, channels]`, along tokens: of all channels of the layer, or of those from `first`
    /// on. Its last inputs are kept.
    pub(super) fn convolve(
        &mut self,
        part: &Part<'_>,
        x: Value,
        name: &str,
        silu: bool,
        first: usize,
    ) -> Result<Value> {
        let Part { scope, recurrence, .. } = *part;
        let taps = recurrence.taps;
        let dims = self.build.dims(x).to_vec();
        let channels = dims[1];
        let missing = || Error::model("a recurrent layer has no memory");
        let inputs = self.inputs.recurrent.as_ref().ok_or_else(missing)?;
        let tail = self.cache.state(scope.number).tail.as_ref().ok_or_else(missing)?;
        let (places, slots) = (inputs.places.clone(), inputs.tails.clone());
        let (places, slots) = (self.token_input(&places)?, self.token_input(&slots)?);
        let rows = [tail.shape()[0], taps - 1, recurrence.channels];
        let kept = self.build.given(tail);
        let tail = self.build.reshape(kept, &rows)?;
        let tail = self.build.slice(tail, 2, first..first + channels)?;
        let kept = self.build.slice(kept, 3, first..first + channels)?;
        let weight = self.floats(&scope.name(&format!("{name}.weight")), &[channels, taps])?;
        let bias = scope.name(&format!("{name}.bias"));
        let bias = match self.weights.has(&bias) {
            true => Some(self.floats(&bias, &[channels])?),
            false => None,
        };
        let op = CausalConv { bias: bias.is_some(), silu };
        let output = self.build.make(DType::F32, &dims)?;
        let inputs: Vec<Value> = [x, tail, places, weight].into_iter().chain(bias).collect();
        self.build.emit("conv", op, &inputs, output);
        let x = self.build.split_last(x, channels)?;
        self.build.emit("keep_inputs", CacheWrite, &[slots, kept, x], kept);
        Ok(output)
    }

    /// Linear attention, `[tokens, heads, values]`. The states after it are kept.
    pub(super) fn attend_linearly(
        &mut self,
        part: &Part<'_>,
        op: LinearAttention,
        read: Read,
    ) -> Result<Value> {
        let Part { scope, recurrence, .. } = *part;
        let Recurrence { heads, keys, values, .. } = *recurrence;
        let missing = || Error::model("a recurrent layer has no memory");
        let inputs = self.inputs.recurrent.as_ref().ok_or_else(missing)?;
        let state = self.cache.state(scope.number).state.as_ref().ok_or_else(missing)?;
        let (runs, slots) = (inputs.runs.clone(), inputs.slots.clone());
        let sequences = self.size.sequences;
        let (runs, slots) = (self.input(&runs, sequences)?, self.input(&slots, sequences)?);
        let kept = self.build.given(state);
        let states = self.build.reshape(kept, &[state.shape()[0], keys, heads, values])?;
        let tokens = self.size.tokens;
        let output = self.build.make(DType::F32, &[tokens + sequences * keys, heads, values])?;
        let Read { q, k, v, decay, beta, rates } = read;
        let inputs: Vec<Value> =
            [q, k, v, decay, states, runs].into_iter().chain(beta).chain(rates).collect();
        self.build.emit("linear_attention", op, &inputs, output);
        let after = self.build.slice(output, 0, tokens..tokens + sequences * keys)?;
        let after = self.build.reshape(after, &[sequences, keys, heads * values])?;
        self.build.emit("keep_states", CacheWrite, &[slots, kept, after], kept);
        self.build.slice(output, 0, 0..tokens)
    }

    /// A convolution of products with one gate, times another.
    fn short_conv(&mut self, part: &Part<'_>) -> Result<Option<Value>> {
        let Part { scope, recurrence, x, wants_result } = *part;
        let width = recurrence.channels;
        let all = self.linear_rows(x, &scope.name("shortconv.in_proj"), 3 * width)?;
        let mut third = |at: usize| self.build.slice(all, 1, at * width..(at + 1) * width);
        let (b, c, x) = (third(0)?, third(1)?, third(2)?);
        let gated = self.build.binary("gated_input", Binary::Mul, b, x)?;
        let z = self.convolve(part, gated, "shortconv.conv", false, 0)?;
        if !wants_result {
            return Ok(None);
        }
        let y = self.build.binary("gated", Binary::Mul, c, z)?;
        self.linear_required(y, &scope.name("shortconv.out_proj")).map(Some)
    }

    /// Linear attention whose decay is a slope for each head, less steep in later layers.
    fn lightning(&mut self, part: &Part<'_>) -> Result<Option<Value>> {
        let Part { scope, recurrence, x, wants_result } = *part;
        let Recurrence { heads, keys, .. } = *recurrence;
        let tokens = self.size.tokens;
        let all = self.linear_rows(x, &scope.name("attn_qkv"), 3 * heads * keys)?;
        let all = self.build.fused("activation", [all], |_, [x]| x.unary(Unary::Silu))?;
        let all = self.build.split_last(all, 3 * keys)?;
        let mut third = |at: usize| self.build.slice(all, 2, at * keys..(at + 1) * keys);
        let (q, k, v) = (third(0)?, third(1)?, third(2)?);
        let last = self.config.layers.len().saturating_sub(1).max(1) as f64;
        let share = 1.0 - scope.number as f64 / last + 1e-5;
        let slope = |slope: f32| -slope * share as f32;
        let slopes: Vec<f32> =
            super::attention::slopes(heads, 8.0).into_iter().map(slope).collect();
        let slopes = Array::from_slice(self.weights.device(), &[heads, 1], &slopes)?;
        let each = Shape::new(&[tokens, heads, 1])?;
        let each = slopes.layout().broadcast_to("decay", &each)?;
        let decay = self.build.given(&slopes.with_layout(each)?);
        let read = Read { q, k, v, decay, beta: None, rates: None };
        let y = self.attend_linearly(part, SCAN, read)?;
        if !wants_result {
            return Ok(None);
        }
        let y = self.build.reshape(y, &[tokens, heads * keys])?;
        let y = self.norm_of(NormKind::Rms, y, &scope.name("attn_norm_2"))?.unwrap_or(y);
        let gate = self.linear_rows(x, &scope.name("attn_gate"), heads * keys)?;
        let y =
            self.build.fused("gated", [y, gate], |_, [y, gate]| y * gate.unary(Unary::Sigmoid))?;
        self.linear_required(y, &scope.name("attn_output")).map(Some)
    }
}
