//! Adam, and Adam with decoupled weight decay.

use std::collections::BTreeMap;

use polaris_ops::Unary;
use polaris_ops::fused::{Builder, Expression};

use super::Optimizer;
use super::group::{Group, change};
use crate::{Parameter, Result};

/// Adam as PyTorch's `Adam` and, with decoupled decay, `AdamW`.
#[derive(Debug)]
pub struct Adam {
    groups: Vec<Group>,
    betas: [f64; 2],
    epsilon: f64,
    /// Whether decay pulls at parameters and not at gradients.
    decoupled: bool,
    steps: u64,
    rules: Rules,
}

/// The expressions of a step.
#[derive(Debug)]
struct Rules {
    /// Of the mean, gradient and parameter; the numbers are factor, decay, beta and its rest.
    mean: Expression,
    /// Of the mean square, gradient and parameter; the same.
    square: Expression,
    /// Of parameter, mean and mean square; what is kept of the parameter, the step, the root's
    /// correction and epsilon.
    follow: Expression,
}

impl Rules {
    fn new() -> Result<Self> {
        let moment = |squares: bool| -> Result<Expression> {
            let build = Builder::new(3);
            let [m, g, p] = build.inputs();
            let (factor, decay) = (build.scalar(1.0), build.scalar(0.0));
            let (beta, rest) = (build.scalar(0.0), build.scalar(1.0));
            let g = g * factor + decay * p;
            let new = if squares { g * g } else { g };
            Ok(build.finish(beta * m + rest * new)?)
        };
        let build = Builder::new(3);
        let [p, m, v] = build.inputs();
        let (kept, step) = (build.scalar(1.0), build.scalar(0.0));
        let (correction, epsilon) = (build.scalar(1.0), build.scalar(0.0));
        let root = v.unary(Unary::Sqrt) * correction + epsilon;
        let follow = build.finish(kept * p - step * m / root)?;
        Ok(Self { mean: moment(false)?, square: moment(true)?, follow })
    }
}

impl Adam {
    /// Adam over groups of parameters.
    ///
    /// # Errors
    /// If there is no room for what it remembers.
    pub fn new(
        mut groups: Vec<Group>,
        betas: [f64; 2],
        epsilon: f64,
        decoupled: bool,
    ) -> Result<Self> {
        groups.iter_mut().try_for_each(|group| group.remember(&["mean", "square"]))?;
        Ok(Self { groups, betas, epsilon, decoupled, steps: 0, rules: Rules::new()? })
    }

    /// Adam with decoupled weight decay over all these parameters, with PyTorch's defaults.
    ///
    /// # Errors
    /// If there is no room for what it remembers.
    pub fn adam_w(parameters: Vec<(String, Parameter)>, rate: f64) -> Result<Self> {
        Self::new(vec![Group::new(parameters, rate, 0.01)], [0.9, 0.999], 1e-8, true)
    }
}

impl Optimizer for Adam {
    fn groups_mut(&mut self) -> &mut [Group] {
        &mut self.groups
    }

    fn groups(&self) -> &[Group] {
        &self.groups
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn set_steps(&mut self, steps: u64, fewer: &BTreeMap<String, u64>) {
        self.steps = steps;
        self.groups.iter_mut().for_each(|group| group.set_steps(steps, fewer));
    }

    fn step_scaled(&mut self, factor: f64) -> Result<()> {
        self.steps += 1;
        let Self { groups, betas: [beta1, beta2], epsilon, decoupled, rules, .. } = self;
        for group in groups {
            let decay = if *decoupled { 0.0 } else { group.weight_decay };
            let rate = group.rate;
            let kept = if *decoupled { 1.0 - rate * group.weight_decay } else { 1.0 };
            rules.mean.scalars_mut().copy_from_slice(&[factor, decay, *beta1, 1.0 - *beta1]);
            rules.square.scalars_mut().copy_from_slice(&[factor, decay, *beta2, 1.0 - *beta2]);
            for (entry, gradient) in group.due() {
                let [(_, mean), (_, square)] = &entry.memory[..] else { continue };
                // Of the steps that this parameter took part in, as its means are.
                let step = i32::try_from(entry.steps).unwrap_or(i32::MAX);
                let correction1 = 1.0 - beta1.powi(step);
                let correction2 = (1.0 - beta2.powi(step)).sqrt();
                let follow = [kept, rate / correction1, 1.0 / correction2, *epsilon];
                rules.follow.scalars_mut().copy_from_slice(&follow);
                let (tensor, g) = (entry.parameter.tensor(), gradient.array());
                let (p, m, v) = (tensor.array(), mean.array(), square.array());
                change(mean, &rules.mean, &[m, g, p])?;
                change(square, &rules.square, &[v, g, p])?;
                change(tensor, &rules.follow, &[p, m, v])?;
            }
        }
        Ok(())
    }
}
