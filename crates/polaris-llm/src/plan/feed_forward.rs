//! The feed-forward network of a layer: dense, gated or not, or a mixture of experts.

use polaris_ops::fused::{Builder as Expression, Value as Term};
use polaris_ops::{Binary, NormKind, Ternary, Unary};

use super::Value;
use super::decoder::{Decoder, LayerScope};
use crate::architecture::{Activation, Quirk};
use crate::{Error, Result};

impl Decoder<'_> {
    /// The network of a layer; `first` is the input of the layer, which some routers read.
    pub(super) fn feed_forward(
        &mut self,
        scope: &LayerScope<'_>,
        x: Value,
        first: Value,
    ) -> Result<Value> {
        let is_mixture =
            scope.layer.may_mix && self.weights.has(&scope.name("ffn_gate_inp.weight"));
        if !is_mixture {
            return self.dense(scope, x, "");
        }
        let quirk = self.config.architecture.quirk;
        if quirk == Quirk::Gemma4 {
            return self.mixture_beside_dense(scope, x, first);
        }
        if quirk == Quirk::Arctic {
            let input = self.norm(first, &scope.name("ffn_norm_exps"))?.unwrap_or(first);
            let mixed = self.mixture(scope, input, input)?;
            let dense = self.dense(scope, x, "")?;
            return self.build.binary("mix", Binary::Add, mixed, dense);
        }
        let routed = if quirk == Quirk::RouterFirst { first } else { x };
        let mixed = self.mixture(scope, x, routed)?;
        let beside = self.config.architecture.experts.beside_dense;
        if beside != 0.0 && self.weights.has(&scope.name("ffn_up.weight")) {
            let dense = self.dense(scope, x, "")?;
            return self.build.fused("mix", [mixed, dense], move |_, [a, b]| (a + b) * beside);
        }
        Ok(mixed)
    }

    /// A dense network; the names of its tensors have an ending: `_shexp` for experts that all tokens share.
    pub(super) fn dense(
        &mut self,
        scope: &LayerScope<'_>,
        x: Value,
        ending: &str,
    ) -> Result<Value> {
        let name = |part: &str| scope.name(&format!("ffn_{part}{ending}"));
        let down = name("down");
        let Some(width) = self.weights.find(&format!("{down}.weight")).and_then(|down| {
            let dims = down.shape().dims();
            (dims.len() == 2).then(|| dims[1])
        }) else {
            return Err(Error::model(format!("the matrix `{down}.weight` is missing")));
        };
        let hidden = match self.gated_at_once(scope, x, [name("gate"), name("up")], width)? {
            Some(hidden) => hidden,
            None => self.hidden(scope, x, [name("gate"), name("up")], width)?,
        };
        let scales = self.weights.find_shaped(&scope.name("ffn.act.scales"), &[width])?.cloned();
        let hidden = match scales {
            Some(scales) => {
                let scales = self.build.given(&scales);
                self.build.binary("activation_scales", Binary::Div, hidden, scales)?
            }
            None => hidden,
        };
        let hidden =
            self.norm_of(NormKind::Rms, hidden, &scope.name("ffn_sub_norm"))?.unwrap_or(hidden);
        self.linear_required(hidden, &down)
    }

    /// Both layers and their gate in one launch, where the device has that.
    fn gated_at_once(
        &mut self,
        scope: &LayerScope<'_>,
        x: Value,
        names: [String; 2],
        width: usize,
    ) -> Result<Option<Value>> {
        let gate = match self.config.architecture.activation {
            Activation::Silu => polaris_ops::matmul::Activation::Silu,
            Activation::Gelu => polaris_ops::matmul::Activation::GeluTanh,
            Activation::GeluErf => polaris_ops::matmul::Activation::GeluErf,
            Activation::Relu => polaris_ops::matmul::Activation::Relu,
            _ => return Ok(None),
        };
        // As small as this, it stands for none.
        if scope.layer.limits[1] > 1e-6 {
            return Ok(None);
        }
        if self.weights.has(&format!("{}.weight", names[0])) {
            let layers = names.map(|name| (name, width));
            return self.linears("ffn_gated", x, &layers, Some(gate));
        }
        // Gate and up in one matrix, the gate first.
        match self.plain_layer(x, &names[1])? {
            Some((both, None)) if both.shape()[0] == 2 * width => {
                let halves = [both.slice(0, 0..width, 1)?, both.slice(0, width..2 * width, 1)?];
                self.build.linears("ffn_gated", x, &halves, &[], Some(gate))
            }
            _ => Ok(None),
        }
    }

    /// What the last layer of a dense network reads.
    fn hidden(
        &mut self,
        scope: &LayerScope<'_>,
        x: Value,
        [gate, up]: [String; 2],
        width: usize,
    ) -> Result<Value> {
        let activation = self.config.architecture.activation;
        let up = self.linear_required(x, &up)?;
        let hidden = match self.linear(x, &gate)? {
            Some(gate) => self.gated(scope, activation, [gate, up], scope.layer.limits[1])?,
            None if self.build.dims(up)[1] == 2 * width => {
                // Gate and up in one matrix, the gate first.
                let gate = self.build.slice(up, 1, 0..width)?;
                let up = self.build.slice(up, 1, width..2 * width)?;
                self.gated(scope, activation, [gate, up], scope.layer.limits[1])?
            }
            // These are for gates; without one a tensor is missing.
            None if matches!(activation, Activation::Silu | Activation::Situ) => {
                return Err(Error::model(format!("the tensor `{gate}.weight` is missing")));
            }
            None => self.activated(scope, activation, up)?,
        };
        Ok(hidden)
    }

    /// `activation(gate) * up`, where the first is at most the limit and the second between minus and plus it.
    pub(super) fn gated(
        &mut self,
        scope: &LayerScope<'_>,
        activation: Activation,
        factors: [Value; 2],
        limit: f64,
    ) -> Result<Value> {
        let number = scope.number;
        let xielu = self.config.xielu.get(number).copied();
        let situ = self.config.situ;
        self.build.fused("gated", factors, move |build, [gate, up]| match activation {
            Activation::Situ => {
                let gate = capped(gate, situ[0]) * gate.unary(Unary::Sigmoid);
                if situ[1] > 0.0 { gate * capped(up, situ[1]) } else { gate * up }
            }
            Activation::ClampedSwiglu => {
                let gate = gate.binary(Binary::Minimum, build.constant(7.0));
                let up = up.ternary(Ternary::Clamp, build.constant(-7.0), build.constant(7.0));
                gate * (1.702 * gate).unary(Unary::Sigmoid) * (up + 1.0)
            }
            // As small as this, it stands for none.
            other if limit > 1e-6 => {
                let gate = activate(build, other, xielu, gate);
                let up = up.ternary(Ternary::Clamp, build.constant(-limit), build.constant(limit));
                gate.binary(Binary::Minimum, build.constant(limit)) * up
            }
            other => activate(build, other, xielu, gate) * up,
        })
    }

    pub(super) fn activated(
        &mut self,
        scope: &LayerScope<'_>,
        activation: Activation,
        x: Value,
    ) -> Result<Value> {
        let xielu = self.config.xielu.get(scope.number).copied();
        self.build.fused("activation", [x], move |build, [x]| activate(build, activation, xielu, x))
    }
}

/// Close to `x` where it is small, and between minus and plus the cap.
fn capped(x: Term<'_>, cap: f64) -> Term<'_> {
    cap * (x * (1.0 / cap)).unary(Unary::Tanh)
}

/// The function of an activation.
fn activate<'a>(
    build: &'a Expression,
    activation: Activation,
    xielu: Option<[f64; 4]>,
    x: Term<'a>,
) -> Term<'a> {
    match activation {
        Activation::Silu | Activation::ClampedSwiglu | Activation::Situ => x.unary(Unary::Silu),
        Activation::Gelu => x.unary(Unary::GeluTanh),
        Activation::GeluErf => x.unary(Unary::GeluErf),
        Activation::GeluQuick => x * (1.702 * x).unary(Unary::Sigmoid),
        Activation::Relu => x.unary(Unary::Relu),
        Activation::ReluSquared => x.unary(Unary::Relu).unary(Unary::Square),
        Activation::Xielu => {
            let [negative, positive, beta, epsilon] = xielu.unwrap_or([1.0, 1.0, 0.5, -1e-6]);
            let above = positive * x.unary(Unary::Square) + beta * x;
            let small = x.binary(Binary::Minimum, build.constant(epsilon));
            let below = negative * (small.unary(Unary::Exp) - 1.0 - x) + beta * x;
            x.binary(Binary::Greater, build.constant(0.0)).ternary(Ternary::Where, above, below)
        }
    }
}
