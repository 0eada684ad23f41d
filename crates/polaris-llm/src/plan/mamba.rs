//! Mamba: a convolution, then a state of each channel or head that decays by steps of time which depend on the token.

use polaris_core::DType;
use polaris_ops::copy::Copy;
use polaris_ops::linear_attention::{Decay, LinearAttention};
use polaris_ops::{Binary, NormKind, Unary};

use super::Value;
use super::decoder::{Decoder, LayerScope};
use super::recurrent::{Part, Read, SCAN, softplus};
use crate::Result;
use crate::recurrence::Recurrence;

/// What a scan over heads reads.
struct Scan {
    /// `[tokens, heads, values]`.
    x: Value,
    /// `[tokens, groups, keys]`: what is written at, and what is read by.
    b: Value,
    c: Value,
    /// Steps of time before softplus, `[tokens, heads]`, and their bias if it is not added yet.
    step: Value,
    bias: Option<Value>,
    /// `[tokens, heads, values]`.
    gate: Value,
}

impl Decoder<'_> {
    /// Mamba 1.
    pub(super) fn mamba(&mut self, part: &Part<'_>) -> Result<Option<Value>> {
        let Part { scope, recurrence, x, wants_result } = *part;
        let Recurrence { keys, values: inner, .. } = *recurrence;
        let tokens = self.size.tokens;
        let both = self.linear_rows(x, &scope.name("ssm_in"), 2 * inner)?;
        let x = self.build.slice(both, 1, 0..inner)?;
        let gate = self.build.slice(both, 1, inner..2 * inner)?;
        let x = self.convolve(part, x, "ssm_conv1d", true, 0)?;
        let all = self.linear_required(x, &scope.name("ssm_x"))?;
        let rank = self.build.dims(all)[1].saturating_sub(2 * keys);
        let step = self.build.slice(all, 1, 0..rank)?;
        let b = self.build.slice(all, 1, rank..rank + keys)?;
        let c = self.build.slice(all, 1, rank + keys..rank + 2 * keys)?;
        let [step, b, c] = self.small_norms(scope, [step, b, c])?;
        let step = self.linear_rows(step, &scope.name("ssm_dt"), inner)?;
        let step = self.build.fused("step", [step], |_, [x]| softplus(x))?;
        let written = self.build.binary("step_input", Binary::Mul, x, step)?;
        let rates = self.floats(&scope.name("ssm_a"), &[inner, 1, keys])?;
        let rates = self.build.permute(rates, &[2, 1, 0])?;
        let read = Read {
            q: self.build.split_last(c, keys)?,
            k: self.build.split_last(b, keys)?,
            v: self.build.split_last(written, inner)?,
            decay: self.build.split_last(step, inner)?,
            beta: None,
            rates: Some(rates),
        };
        let op = LinearAttention { decay: Decay::Rates, ..SCAN };
        let y = self.attend_linearly(part, op, read)?;
        if !wants_result {
            return Ok(None);
        }
        let y = self.build.reshape(y, &[tokens, inner])?;
        let skip = self.floats(&scope.name("ssm_d"), &[inner])?;
        let y = self.skip_and_gate(y, x, skip, gate)?;
        self.linear_required(y, &scope.name("ssm_out")).map(Some)
    }

    /// What was read, and inputs times a factor, both gated.
    fn skip_and_gate(&mut self, y: Value, x: Value, skip: Value, gate: Value) -> Result<Value> {
        self.build.fused("gated", [y, x, skip, gate], |_, [y, x, skip, gate]| {
            (y + skip * x) * gate.unary(Unary::Silu)
        })
    }

    /// Norms of steps, keys and queries: with weights where the file has all of them, without if it says so.
    fn small_norms(&mut self, scope: &LayerScope<'_>, values: [Value; 3]) -> Result<[Value; 3]> {
        let names = ["ssm_dt_norm", "ssm_b_norm", "ssm_c_norm"].map(|name| scope.name(name));
        let has =
            |name: &String| self.weights.has(&format!("{name}.weight")) || self.weights.has(name);
        let is_normed = self.config.norm_steps || names.iter().all(has);
        let mut result = values;
        for (value, name) in result.iter_mut().zip(&names).filter(|_| is_normed) {
            *value = match self.norm_of(NormKind::Rms, *value, name)? {
                Some(normed) => normed,
                None => self.plain_norm("norm", NormKind::Rms, *value)?,
            };
        }
        Ok(result)
    }

    /// Mamba 2.
    pub(super) fn mamba2(&mut self, part: &Part<'_>) -> Result<Option<Value>> {
        let Part { scope, recurrence, x, .. } = *part;
        let Recurrence { channels, groups, heads, keys, values, .. } = *recurrence;
        let inner = recurrence.inner();
        let all = self.linear_rows(x, &scope.name("ssm_in"), inner + channels + heads)?;
        let gate = self.build.slice(all, 1, 0..inner)?;
        let mixed = self.build.slice(all, 1, inner..inner + channels)?;
        let step = self.build.slice(all, 1, inner + channels..inner + channels + heads)?;
        let mixed = self.convolve(part, mixed, "ssm_conv1d", true, 0)?;
        let x = self.build.slice(mixed, 1, 0..inner)?;
        let b = self.build.slice(mixed, 1, inner..inner + groups * keys)?;
        let c = self.build.slice(mixed, 1, inner + groups * keys..channels)?;
        let scan = Scan {
            x: self.build.split_last(x, values)?,
            b: self.build.split_last(b, keys)?,
            c: self.build.split_last(c, keys)?,
            step,
            bias: Some(self.floats(&scope.name("ssm_dt.bias"), &[heads])?),
            gate: self.build.split_last(gate, values)?,
        };
        let Some(y) = self.scan(part, scan)? else { return Ok(None) };
        let norm = scope.name("ssm_norm.weight");
        let y = match self.weights.has(&norm) {
            true => {
                let y = self.build.split_last(y, inner / groups)?;
                let y = self.plain_norm("ssm_norm", NormKind::Rms, y)?;
                let weight = self.floats(&norm, &[groups, inner / groups])?;
                let y = self.build.binary("ssm_norm", Binary::Mul, y, weight)?;
                self.build.reshape(y, &[self.size.tokens, inner])?
            }
            false => y,
        };
        self.linear_required(y, &scope.name("ssm_out")).map(Some)
    }

    /// Mamba 2 of PLaMo 2: gates and inputs lie head by head, all else is computed from the inputs.
    pub(super) fn plamo_mamba(&mut self, part: &Part<'_>) -> Result<Option<Value>> {
        let Part { scope, recurrence, x, .. } = *part;
        let Recurrence { heads, keys, values, .. } = *recurrence;
        let (tokens, inner) = (self.size.tokens, recurrence.inner());
        let both = self.linear_rows(x, &scope.name("ssm_in"), 2 * inner)?;
        let both = self.build.split_last(both, 2 * values)?;
        let gate = self.build.slice(both, 2, 0..values)?;
        let x = self.build.slice(both, 2, values..2 * values)?;
        let dense = self.build.make(DType::F32, &[tokens, heads, values])?;
        self.build.emit("inputs", Copy, &[x], dense);
        let x = self.build.reshape(dense, &[tokens, inner])?;
        let x = self.convolve(part, x, "ssm_conv1d", true, 0)?;
        let all = self.linear_required(x, &scope.name("ssm_x"))?;
        let rank = self.build.dims(all)[1].saturating_sub(2 * keys);
        let b = self.build.slice(all, 1, 0..keys)?;
        let c = self.build.slice(all, 1, keys..2 * keys)?;
        let step = self.build.slice(all, 1, 2 * keys..2 * keys + rank)?;
        let [step, b, c] = self.small_norms(scope, [step, b, c])?;
        let scan = Scan {
            x: self.build.split_last(x, values)?,
            b: self.build.split_last(b, keys)?,
            c: self.build.split_last(c, keys)?,
            step: self.linear_rows(step, &scope.name("ssm_dt"), heads)?,
            bias: None,
            gate,
        };
        let Some(y) = self.scan(part, scan)? else { return Ok(None) };
        self.linear_required(y, &scope.name("ssm_out")).map(Some)
    }

    /// The states of heads, and what is read of them, gated: `[tokens, heads * values]`.
    fn scan(&mut self, part: &Part<'_>, scan: Scan) -> Result<Option<Value>> {
        let Part { scope, recurrence, wants_result, .. } = *part;
        let Recurrence { heads, .. } = *recurrence;
        let tokens = self.size.tokens;
        let Scan { x, b, c, step, bias, gate } = scan;
        let step = match bias {
            Some(bias) => {
                self.build.fused("step", [step, bias], |_, [step, bias]| softplus(step + bias))?
            }
            None => self.build.fused("step", [step], |_, [step]| softplus(step))?,
        };
        let rate = self.floats(&scope.name("ssm_a"), &[heads])?;
        let decay = self.build.binary("decay", Binary::Mul, step, rate)?;
        let decay = self.build.reshape(decay, &[tokens, heads, 1])?;
        let step = self.build.reshape(step, &[tokens, heads, 1])?;
        let v = self.build.binary("step_input", Binary::Mul, x, step)?;
        let read = Read { q: c, k: b, v, decay, beta: None, rates: None };
        let y = self.attend_linearly(part, SCAN, read)?;
        if !wants_result {
            return Ok(None);
        }
        let skip = self.floats(&scope.name("ssm_d"), &[heads, 1])?;
        let y = self.skip_and_gate(y, x, skip, gate)?;
        self.build.reshape(y, &[tokens, recurrence.inner()]).map(Some)
    }
}
