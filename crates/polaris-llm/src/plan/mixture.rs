//! Mixtures of experts: a router chooses some of them for each token.

use polaris_core::{DType, MAX_RANK};
use polaris_ops::reduce::Reduce;
use polaris_ops::route::{Groups, Route, RouteIds, RouteWeights};
use polaris_ops::{Binary, ExpertMatMul, Reduction, Unary};

use super::Value;
use super::decoder::{Decoder, LayerScope};
use crate::config::{Grove, Mixture};
use crate::{Error, Result};

impl Decoder<'_> {
    /// The result of the chosen experts, and of those that all tokens share; `routed` is what the router reads.
    pub(super) fn mixture(
        &mut self,
        scope: &LayerScope<'_>,
        x: Value,
        routed: Value,
    ) -> Result<Value> {
        let logits = self.linear_required(routed, &scope.name("ffn_gate_inp"))?;
        self.mixture_of(scope, x, logits)
    }

    /// As [`Self::mixture`], with the logits of the router.
    pub(super) fn mixture_of(
        &mut self,
        scope: &LayerScope<'_>,
        x: Value,
        logits: Value,
    ) -> Result<Value> {
        let Some(mixture) = self.config.experts.clone() else {
            return Err(Error::model("it has a router, but its metadata name no experts"));
        };
        let found = self.build.dims(logits)[1];
        if found != mixture.count {
            return Err(Error::TensorShape {
                name: scope.name("ffn_gate_inp.weight"),
                found: format!("[{found}, ..]"),
                expected: format!("[{}, ..]", mixture.count),
            });
        }
        let (ids, weights) = self.route(scope, &mixture, logits)?;
        // Experts of some models work on fewer elements.
        let mut input = x;
        for name in ["ffn_latent_down", "ffn_routed_down"] {
            input = self.linear(x, &scope.name(name))?.unwrap_or(input);
        }
        let mut mixed = self.experts(scope, &mixture, input, [ids, weights], "exps")?;
        mixed = self.norm(mixed, &scope.name("ffn_routed_norm"))?.unwrap_or(mixed);
        for name in ["ffn_latent_up", "ffn_routed_up"] {
            mixed = self.linear(mixed, &scope.name(name))?.unwrap_or(mixed);
        }
        if let Some(grove) = &mixture.grove {
            mixed = self.grove(scope, &mixture, *grove, mixed, logits)?;
        }
        if !self.weights.has(&scope.name("ffn_down_shexp.weight")) {
            return Ok(mixed);
        }
        let mut shared = self.dense(scope, x, "_shexp")?;
        let gate = self.weights.find(&scope.name("ffn_gate_inp_shexp.weight")).cloned();
        if let Some(gate) = gate {
            let shape = polaris_core::Shape::new(&[1, self.config.width])?;
            let gate = gate.with_layout(polaris_core::Layout::contiguous(shape))?;
            let gate = self.build.given(&gate);
            let gate = self.build.linear("shared_gate", x, gate, None)?;
            shared = self.build.fused("gate_shared", [shared, gate], |_, [shared, gate]| {
                shared * gate.unary(Unary::Sigmoid)
            })?;
        }
        let share = self.config.architecture.experts.shared_share;
        match share {
            1.0 => self.build.binary("add_shared", Binary::Add, mixed, shared),
            share => {
                self.build.fused("add_shared", [mixed, shared], move |_, [a, b]| (a + b) * share)
            }
        }
    }

    /// Which experts a token takes, `i32 [tokens, used]`, and how much each counts, `f32 [tokens, used]`.
    fn route(
        &mut self,
        scope: &LayerScope<'_>,
        mixture: &Mixture,
        logits: Value,
    ) -> Result<(Value, Value)> {
        let Mixture { count, used, groups, gating, normalize, scale, .. } = *mixture;
        let groups = groups.map(|(groups, used)| Groups {
            count: groups,
            used,
            best: (count / groups).min(2),
        });
        let route = Route { gating, used, groups, normalise: normalize, scale };
        let bias = match self.weights.find_shaped(&scope.name("exp_probs_b.bias"), &[count])? {
            Some(bias) => Some(bias),
            None => self.weights.find_shaped(&scope.name("exp_probs_b"), &[count])?,
        };
        let bias = bias.cloned().map(|bias| self.build.given(&bias));
        let dims = [self.build.dims(logits)[0], used];
        let ids = self.build.make(DType::I32, &dims)?;
        let choose = RouteIds { route, bias: bias.is_some() };
        let inputs: Vec<Value> = [logits].into_iter().chain(bias).collect();
        self.build.emit("choose", choose, &inputs, ids);
        let weights = self.build.make(DType::F32, &dims)?;
        self.build.emit("weights", RouteWeights { route }, &[logits, ids], weights);
        Ok((ids, weights))
    }

    /// Adds the result of smaller experts, each of which belongs to a group of experts. They are given the sum of the
    /// experts, and weighted by the probabilities of the experts with their numbers.
    fn grove(
        &mut self,
        scope: &LayerScope<'_>,
        mixture: &Mixture,
        grove: Grove,
        x: Value,
        logits: Value,
    ) -> Result<Value> {
        let rows = self.build.dims(logits)[0];
        let small = Mixture {
            count: mixture.count / grove.group,
            used: mixture.used.min(mixture.count / grove.group),
            ..mixture.clone()
        };
        let route = Route {
            gating: mixture.gating,
            used: small.used,
            groups: None,
            normalise: mixture.normalize,
            scale: mixture.scale,
        };
        let mut ids = self.build.make(DType::I32, &[rows, small.used])?;
        self.build.emit("choose_group", RouteIds { route, bias: false }, &[logits], ids);
        if grove.group > 1 {
            let group = polaris_ops::Array::from_slice(
                self.weights.device(),
                &[1],
                &[i32::try_from(grove.group).unwrap_or(i32::MAX)],
            )?;
            let group = self.build.given(&group);
            let divided = self.build.make(DType::I32, &[rows, small.used])?;
            let quotient = polaris_ops::elementwise::Elementwise { function: Binary::Div.into() };
            self.build.emit("group", quotient, &[ids, group], divided);
            ids = divided;
        }
        let weights = self.build.make(DType::F32, &[rows, small.used])?;
        self.build.emit("group_weights", RouteWeights { route }, &[logits, ids], weights);
        let added = self.experts(scope, &small, x, [ids, weights], "chexps")?;
        let scale = grove.scale;
        self.build.fused("add_group", [x, added], move |_, [x, added]| x + added * scale)
    }

    /// The sum along an axis.
    pub(super) fn sum(&mut self, label: &str, x: Value, axis: usize) -> Result<Value> {
        let mut dims = self.build.dims(x).to_vec();
        dims.remove(axis);
        let output = self.build.make(DType::F32, &dims)?;
        let mut axes = [false; MAX_RANK];
        axes[axis] = true;
        self.build.emit(label, Reduce { reduction: Reduction::Sum, axes }, &[x], output);
        Ok(output)
    }

    /// The sum of the chosen experts, whose tensors have an ending.
    fn experts(
        &mut self,
        scope: &LayerScope<'_>,
        mixture: &Mixture,
        x: Value,
        [ids, weights]: [Value; 2],
        ending: &str,
    ) -> Result<Value> {
        let rule = self.config.architecture.experts;
        let name = |part: &str| format!("{part}_{ending}");
        let [rows, width] = *self.build.dims(x) else {
            return Err(Error::model("the input of experts should be a matrix"));
        };
        let weights = self.build.reshape(weights, &[rows, mixture.used, 1])?;
        let mut x = self.build.reshape(x, &[rows, 1, width])?;
        if rule.weigh_input {
            let output = self.build.make(DType::F32, &[rows, mixture.used, width])?;
            let product = polaris_ops::elementwise::Elementwise { function: Binary::Mul.into() };
            self.build.emit("weigh", product, &[x, weights], output);
            x = output;
        }
        let activation = rule.activation.unwrap_or(self.config.architecture.activation);
        let hidden = if let Some(both) =
            self.expert(scope, mixture, x, ids, &name("ffn_gate_up"))?
        {
            let half = self.build.dims(both)[2] / 2;
            let gate = self.build.slice(both, 2, 0..half)?;
            let up = self.build.slice(both, 2, half..2 * half)?;
            self.gated(scope, activation, [gate, up], scope.layer.limits[0])?
        } else {
            let up = self.expert_required(scope, mixture, x, ids, &name("ffn_up"))?;
            match self.expert(scope, mixture, x, ids, &name("ffn_gate"))? {
                Some(gate) => self.gated(scope, activation, [gate, up], scope.layer.limits[0])?,
                None => self.activated(scope, activation, up)?,
            }
        };
        let mut down = self.expert_required(scope, mixture, hidden, ids, &name("ffn_down"))?;
        if !rule.weigh_input {
            down = self.build.binary("weigh", Binary::Mul, down, weights)?;
        }
        self.sum("mix", down, 1)
    }

    /// The products with the matrices of the chosen experts, and their biases: `[tokens, used, rows]`.
    fn expert(
        &mut self,
        scope: &LayerScope<'_>,
        mixture: &Mixture,
        x: Value,
        ids: Value,
        name: &str,
    ) -> Result<Option<Value>> {
        let full = scope.name(&format!("{name}.weight"));
        let Some(weight) = self.weights.find(&full).cloned() else { return Ok(None) };
        let columns = self.build.dims(x)[2];
        let is_right = matches!(*weight.shape().dims(), [count, _, found] if count == mixture.count && found == columns);
        if !is_right {
            return Err(Error::TensorShape {
                name: full,
                found: weight.shape().to_string(),
                expected: format!("[{}, rows, {columns}]", mixture.count),
            });
        }
        let rows = weight.shape()[1];
        let bias = self.weights.find(&scope.name(&format!("{name}.bias"))).cloned();
        let output = self.build.make(DType::F32, &[self.build.dims(ids)[0], mixture.used, rows])?;
        let weight = self.build.given(&weight);
        let bias = bias.map(|bias| self.build.given(&bias));
        let product = ExpertMatMul { bias: bias.is_some(), precision: self.build.precision() };
        let inputs: Vec<Value> = [x, weight, ids].into_iter().chain(bias).collect();
        self.build.emit(name, product, &inputs, output);
        let scale = scope.name(&format!("{name}.scale"));
        match self.weights.find_shaped(&scale, &[mixture.count])?.cloned() {
            Some(scale) if self.config.architecture.experts.scales => {
                let scale = self.expert_scales(mixture, &scale, ids)?;
                self.build.binary("scale", Binary::Mul, output, scale).map(Some)
            }
            _ => Ok(Some(output)),
        }
    }

    /// A factor for each chosen expert, `[tokens, used, 1]`: the product of its scale with one.
    fn expert_scales(
        &mut self,
        mixture: &Mixture,
        scale: &polaris_ops::Array,
        ids: Value,
    ) -> Result<Value> {
        let rows = self.build.dims(ids)[0];
        let shape = polaris_core::Shape::new(&[mixture.count, 1, 1])?;
        let scale = scale.with_layout(polaris_core::Layout::contiguous(shape))?;
        let scale = self.build.given(&scale);
        let ones = vec![1.0f32; rows];
        let ones = polaris_ops::Array::from_slice(self.weights.device(), &[rows, 1, 1], &ones)?;
        let ones = self.build.given(&ones);
        let output = self.build.make(DType::F32, &[rows, mixture.used, 1])?;
        self.build.emit("expert_scales", ExpertMatMul::default(), &[ones, scale, ids], output);
        Ok(output)
    }

    fn expert_required(
        &mut self,
        scope: &LayerScope<'_>,
        mixture: &Mixture,
        x: Value,
        ids: Value,
        name: &str,
    ) -> Result<Value> {
        let missing =
            || Error::model(format!("the tensor `{}.weight` is missing", scope.name(name)));
        self.expert(scope, mixture, x, ids, name)?.ok_or_else(missing)
    }
}
