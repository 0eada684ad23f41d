//! Gradient descent, with momentum and Nesterov's look ahead.

use std::collections::BTreeMap;

use polaris_ops::fused::{Builder, Expression};

use super::Optimizer;
use super::group::{Group, change};
use crate::{Error, Parameter, Result};

/// Gradient descent, as PyTorch's `SGD`.
#[derive(Debug)]
pub struct Sgd {
    groups: Vec<Group>,
    momentum: f64,
    nesterov: bool,
    steps: u64,
    rules: Rules,
}

/// The expressions of a step.
#[derive(Debug)]
struct Rules {
    /// Of parameter and gradient; the numbers are factor, decay and rate.
    plain: Expression,
    /// Of velocity, gradient and parameter; factor, decay and momentum.
    velocity: Expression,
    /// Of parameter and velocity; rate.
    follow: Expression,
    /// Of parameter, velocity and gradient; factor, decay, momentum and rate.
    look_ahead: Expression,
}

impl Rules {
    fn new() -> Result<Self> {
        let build = Builder::new(2);
        let [p, g] = build.inputs();
        let (factor, decay, rate) = (build.scalar(1.0), build.scalar(0.0), build.scalar(0.0));
        let plain = build.finish(p - rate * (g * factor + decay * p))?;

        let build = Builder::new(3);
        let [v, g, p] = build.inputs();
        let (factor, decay, momentum) = (build.scalar(1.0), build.scalar(0.0), build.scalar(0.0));
        let velocity = build.finish(momentum * v + (g * factor + decay * p))?;

        let build = Builder::new(2);
        let [p, v] = build.inputs();
        let follow = build.finish(p - build.scalar(0.0) * v)?;

        let build = Builder::new(3);
        let [p, v, g] = build.inputs();
        let (factor, decay) = (build.scalar(1.0), build.scalar(0.0));
        let (momentum, rate) = (build.scalar(0.0), build.scalar(0.0));
        let look_ahead = build.finish(p - rate * ((g * factor + decay * p) + momentum * v))?;
        Ok(Self { plain, velocity, follow, look_ahead })
    }
}

impl Sgd {
    /// Gradient descent over groups of parameters.
    ///
    /// # Errors
    /// If Nesterov's way is asked for without momentum, or there is no room for velocities.
    pub fn new(mut groups: Vec<Group>, momentum: f64, nesterov: bool) -> Result<Self> {
        if nesterov && momentum <= 0.0 {
            return Err(Error::invalid("Nesterov's way needs a momentum above 0"));
        }
        if momentum > 0.0 {
            groups.iter_mut().try_for_each(|group| group.remember(&["momentum"]))?;
        }
        Ok(Self { groups, momentum, nesterov, steps: 0, rules: Rules::new()? })
    }

    /// Plain gradient descent over all these parameters.
    ///
    /// # Errors
    /// Never, so far.
    pub fn plain(parameters: Vec<(String, Parameter)>, rate: f64) -> Result<Self> {
        Self::new(vec![Group::new(parameters, rate, 0.0)], 0.0, false)
    }
}

impl Optimizer for Sgd {
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
        let Self { groups, momentum, nesterov, rules, .. } = self;
        for group in groups {
            let (rate, decay) = (group.rate, group.weight_decay);
            rules.plain.scalars_mut().copy_from_slice(&[factor, decay, rate]);
            rules.velocity.scalars_mut().copy_from_slice(&[factor, decay, *momentum]);
            rules.follow.scalars_mut().copy_from_slice(&[rate]);
            rules.look_ahead.scalars_mut().copy_from_slice(&[factor, decay, *momentum, rate]);
            for (entry, gradient) in group.due() {
                let (tensor, g) = (entry.parameter.tensor(), gradient.array());
                let p = tensor.array();
                let Some((_, velocity)) = entry.memory.first() else {
                    change(tensor, &rules.plain, &[p, g])?;
                    continue;
                };
                let v = velocity.array();
                change(velocity, &rules.velocity, &[v, g, p])?;
                match nesterov {
                    true => change(tensor, &rules.look_ahead, &[p, v, g])?,
                    false => change(tensor, &rules.follow, &[p, v])?,
                }
            }
        }
        self.steps += 1;
        Ok(())
    }
}
