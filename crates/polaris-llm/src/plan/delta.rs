//! Delta rules: gated delta nets, whose decay is a number for each head, and Kimi delta attention, with one for each key.

use polaris_core::DType;
use polaris_ops::copy::Copy;
use polaris_ops::linear_attention::{Decay, LinearAttention, Sharing};
use polaris_ops::{Norm, NormKind, Unary};

use super::Value;
use super::decoder::{Decoder, LayerScope};
use super::recurrent::{Part, Read, softplus};
use crate::Result;
use crate::architecture::KimiDecay;
use crate::recurrence::Recurrence;

impl Decoder<'_> {
    /// Rows of the last axis divided by the root of their mean square. Their length is then the root of their number; the
    /// epsilon is for rows that are zero.
    fn unit_rows(&mut self, label: &str, x: Value) -> Result<Value> {
        let dims = self.build.dims(x).to_vec();
        let length = dims.last().copied().unwrap_or(1) as f64;
        let epsilon = self.config.epsilon * self.config.epsilon / length;
        let norm = Norm { kind: NormKind::Rms, epsilon, has_weight: false, has_bias: false };
        let output = self.build.make(DType::F32, &dims)?;
        self.build.emit(label, norm, &[x], output);
        Ok(output)
    }

    /// The delta rule for queries and keys that [`Self::unit_rows`] made.
    fn delta_rule(
        &mut self,
        part: &Part<'_>,
        decay: Decay,
        sharing: Sharing,
        read: Read,
    ) -> Result<Value> {
        let depth = part.recurrence.keys as f64;
        let (query_scale, key_scale) = (1.0 / depth, 1.0 / depth.sqrt());
        let op = LinearAttention { decay, delta: true, sharing, query_scale, key_scale };
        self.attend_linearly(part, op, read)
    }

    /// What heads read, `[tokens, heads, values]`, normalised and times a function of gates: a part of the residual stream.
    fn gated_output(
        &mut self,
        scope: &LayerScope<'_>,
        y: Value,
        gate: Value,
        function: Unary,
        output: &str,
    ) -> Result<Value> {
        let y = self.norm_of(NormKind::Rms, y, &scope.name("ssm_norm"))?.unwrap_or(y);
        let y =
            self.build.fused("gated", [y, gate], move |_, [y, gate]| y * gate.unary(function))?;
        let inner = self.build.dims(y)[1..].iter().product();
        let y = self.build.reshape(y, &[self.size.tokens, inner])?;
        self.linear_required(y, &scope.name(output))
    }

    /// What goes through the convolution, `[tokens, channels]`: queries, keys and values; and the gates of files that have
    /// all of them in one matrix, group by group: `[tokens, heads, values]`.
    fn delta_inputs(&mut self, part: &Part<'_>) -> Result<(Value, Option<Value>)> {
        let Part { scope, recurrence, x, .. } = *part;
        let Recurrence { channels, groups, heads, keys, values, .. } = *recurrence;
        let all = scope.name("ssm_in");
        let has = |name: &str| self.weights.has(&format!("{name}.weight"));
        if has(&scope.name("attn_qkv")) || !has(&all) {
            return Ok((self.linear_rows(x, &scope.name("attn_qkv"), channels)?, None));
        }
        let tokens = self.size.tokens;
        let share = heads / groups * values;
        let inner = heads * values;
        let product = self.linear_rows(x, &all, channels + inner)?;
        let product = self.build.split_last(product, 2 * keys + 2 * share)?;
        let mixed = self.build.make(DType::F32, &[tokens, channels])?;
        let gate = self.build.make(DType::F32, &[tokens, inner])?;
        let (mut from, mut to) = (0, 0);
        for (size, whole) in [(keys, mixed), (keys, mixed), (share, mixed), (share, gate)] {
            let rows = self.build.slice(product, 2, from..from + size)?;
            let start = if whole == gate { 0 } else { to };
            let place = self.build.slice(whole, 1, start..start + groups * size)?;
            let place = self.build.split_last(place, size)?;
            self.build.emit("take_apart", Copy, &[rows], place);
            from += size;
            to += groups * size;
        }
        let gate = self.build.reshape(gate, &[tokens, heads, values])?;
        Ok((mixed, Some(gate)))
    }

    /// The delta rule with a decay for each head.
    pub(super) fn gated_delta(
        &mut self,
        part: &Part<'_>,
        sharing: Sharing,
    ) -> Result<Option<Value>> {
        let Part { scope, recurrence, x, wants_result } = *part;
        let Recurrence { channels, groups, heads, keys, values, .. } = *recurrence;
        let tokens = self.size.tokens;
        let (mixed, own_gate) = self.delta_inputs(part)?;
        let mixed = self.convolve(part, mixed, "ssm_conv1d", true, 0)?;
        let both = self.build.slice(mixed, 1, 0..2 * groups * keys)?;
        let both = self.build.split_last(both, keys)?;
        let both = self.unit_rows("head_norm", both)?;
        let q = self.build.slice(both, 1, 0..groups)?;
        let k = self.build.slice(both, 1, groups..2 * groups)?;
        let v = self.build.slice(mixed, 1, 2 * groups * keys..channels)?;
        let v = self.build.split_last(v, values)?;
        // In one matrix, neighbours that share keys have their betas together, and then their steps.
        let (beta, step, shape) = match self.linear(x, &scope.name("ssm_ba"))? {
            Some(both) => {
                let shared = heads / groups;
                let both = self.build.split_last(both, 2 * shared)?;
                let beta = self.build.slice(both, 2, 0..shared)?;
                (beta, self.build.slice(both, 2, shared..2 * shared)?, vec![groups, shared])
            }
            None => {
                let beta = self.linear_rows(x, &scope.name("ssm_beta"), heads)?;
                let step = self.linear_rows(x, &scope.name("ssm_alpha"), heads)?;
                (beta, step, vec![heads])
            }
        };
        let beta = self.build.fused("beta", [beta], |_, [x]| x.unary(Unary::Sigmoid))?;
        let beta = self.build.reshape(beta, &[tokens, heads])?;
        let bias = self.floats(&scope.name("ssm_dt.bias"), &shape)?;
        let rate = self.floats(&scope.name("ssm_a"), &shape)?;
        let decay = self.build.fused("decay", [step, bias, rate], |_, [step, bias, rate]| {
            rate * softplus(step + bias)
        })?;
        let decay = self.build.reshape(decay, &[tokens, heads, 1])?;
        let read = Read { q, k, v, decay, beta: Some(beta), rates: None };
        let y = self.delta_rule(part, Decay::Head, sharing, read)?;
        if !wants_result {
            return Ok(None);
        }
        let gate = match own_gate {
            Some(gate) => gate,
            None => {
                let gate = self.linear_rows(x, &scope.name("attn_gate"), heads * values)?;
                self.build.split_last(gate, values)?
            }
        };
        self.gated_output(scope, y, gate, Unary::Silu, "ssm_out").map(Some)
    }

    /// The product with one matrix or, in files that have a second, with two of lower rank: `[tokens, rows]`.
    fn linear_of_rank(
        &mut self,
        scope: &LayerScope<'_>,
        x: Value,
        [first, second]: [&str; 2],
        rows: usize,
    ) -> Result<Value> {
        let (first, second) = (scope.name(first), scope.name(second));
        if !self.weights.has(&format!("{second}.weight")) {
            return self.linear_rows(x, &first, rows);
        }
        let low = self.linear_required(x, &first)?;
        self.linear_rows(low, &second, rows)
    }

    /// The delta rule with a decay for each key.
    pub(super) fn kimi_delta(
        &mut self,
        part: &Part<'_>,
        decay: KimiDecay,
    ) -> Result<Option<Value>> {
        let Part { scope, recurrence, x, wants_result } = *part;
        let Recurrence { heads, keys, lowest_decay, .. } = *recurrence;
        let inner = recurrence.inner();
        let mut parts = [x; 3];
        for (at, (place, letter)) in parts.iter_mut().zip(["q", "k", "v"]).enumerate() {
            let product = self.linear_rows(x, &scope.name(&format!("attn_{letter}")), inner)?;
            let name = format!("ssm_conv1d_{letter}");
            let first = at * inner;
            let mixed = self.convolve(part, product, &name, true, first)?;
            *place = self.build.split_last(mixed, keys)?;
        }
        let [q, k, v] = parts;
        let (q, k) = (self.unit_rows("head_norm", q)?, self.unit_rows("head_norm", k)?);
        let step = self.linear_of_rank(scope, x, ["ssm_f_a", "ssm_f_b"], inner)?;
        let step = self.build.split_last(step, keys)?;
        let bias = self.floats(&scope.name("ssm_dt.bias"), &[heads, keys])?;
        let rate = self.floats(&scope.name("ssm_a"), &[heads, 1])?;
        let sign = if decay == KimiDecay::Bounded { 1.0 } else { -1.0 };
        let decay =
            self.build.fused("decay", [step, bias, rate], move |_, [step, bias, rate]| {
                match lowest_decay {
                    Some(lowest) => lowest * (sign * rate * (step + bias)).unary(Unary::Sigmoid),
                    None => rate * softplus(step + bias),
                }
            })?;
        let beta = self.linear_rows(x, &scope.name("ssm_beta"), heads)?;
        let beta = self.build.fused("beta", [beta], |_, [x]| x.unary(Unary::Sigmoid))?;
        let read = Read { q, k, v, decay, beta: Some(beta), rates: None };
        let y = self.delta_rule(part, Decay::Key, Sharing::Neighbours, read)?;
        if !wants_result {
            return Ok(None);
        }
        let has_one = self.weights.has(&scope.name("ssm_g.weight"));
        let first = if has_one { "ssm_g" } else { "ssm_g_a" };
        let gate = self.linear_of_rank(scope, x, [first, "ssm_g_b"], inner)?;
        let gate = self.build.split_last(gate, keys)?;
        self.gated_output(scope, y, gate, Unary::Sigmoid, "attn_output").map(Some)
    }
}
