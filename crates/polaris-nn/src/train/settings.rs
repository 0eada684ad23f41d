//! How a model is trained, whatever the model, the loss and the data are.

use serde::{Deserialize, Serialize};

use crate::optim::{Adam, Group, Optimizer, Schedule, Sgd};
use crate::quantize::Quantize;
use crate::{Error, Parameter, Result};

/// How a model is trained: optimiser, schedule and loop.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Settings {
    /// The optimiser.
    pub optim: Optim,
    /// How the learning rate changes.
    pub schedule: Schedule,
    /// The loop.
    pub train: Loop,
    /// What is quantised, and when.
    #[serde(default, skip_serializing_if = "Quantize::is_off")]
    pub quantize: Quantize,
}

/// Which optimiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptimKind {
    /// Gradient descent.
    Sgd,
    /// Adam.
    Adam,
    /// Adam with decoupled weight decay.
    #[default]
    Adamw,
}

/// How parameters follow their gradients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Optim {
    /// Which optimiser.
    pub kind: OptimKind,
    /// The rate.
    pub lr: f64,
    /// What is kept of the last step (sgd).
    pub momentum: f64,
    /// Whether the step looks ahead (sgd).
    pub nesterov: bool,
    /// How strongly parameters are pulled towards zero; otherwise 0.01 for adamw and 0 for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_decay: Option<f64>,
    /// What is kept of the means (adam).
    pub betas: [f64; 2],
    /// What keeps a division from exploding (adam).
    pub eps: f64,
    /// The largest length of all gradients together; 0 for any.
    pub clip: f64,
}

impl Default for Optim {
    fn default() -> Self {
        Self {
            kind: OptimKind::Adamw,
            lr: 1e-3,
            momentum: 0.0,
            nesterov: false,
            weight_decay: None,
            betas: [0.9, 0.999],
            eps: 1e-8,
            clip: 0.0,
        }
    }
}

impl Optim {
    /// The optimiser of these parameters.
    ///
    /// # Errors
    /// If a number makes no sense, or there is no room.
    pub fn build(&self, parameters: Vec<(String, Parameter)>) -> Result<Box<dyn Optimizer>> {
        // PyTorch's own defaults.
        let decay = if self.kind == OptimKind::Adamw { 0.01 } else { 0.0 };
        let decay = self.weight_decay.unwrap_or(decay);
        let (decayed, kept): (Vec<_>, Vec<_>) =
            parameters.into_iter().partition(|(_, parameter)| parameter.decays());
        let mut groups = vec![Group::new(decayed, self.lr, decay)];
        if !kept.is_empty() {
            groups.push(Group::new(kept, self.lr, 0.0));
        }
        Ok(match self.kind {
            OptimKind::Sgd => Box::new(Sgd::new(groups, self.momentum, self.nesterov)?),
            OptimKind::Adam => Box::new(Adam::new(groups, self.betas, self.eps, false)?),
            OptimKind::Adamw => Box::new(Adam::new(groups, self.betas, self.eps, true)?),
        })
    }
}

/// The type that layers compute in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// Single precision.
    #[default]
    F32,
    /// Half precision, with parameters of single precision and a scaled loss.
    F16,
}

/// The loop: how long, how often, and what is random.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Loop {
    /// How often all training data are seen.
    pub epochs: u64,
    /// The most steps; 0 for as many as the epochs have.
    pub steps: u64,
    /// Decides what is random in training passes, such as dropout.
    pub seed: u64,
    /// The type that layers compute in.
    pub precision: Precision,
    /// Steps from one evaluation to the next; 0 for once an epoch.
    pub evaluate_every: u64,
    /// Steps from one checkpoint to the next; 0 for once an epoch.
    pub checkpoint_every: u64,
    /// Checkpoints that are kept.
    pub keep: usize,
    /// Evaluations without progress after which training stops; 0 for never.
    pub patience: u64,
}

impl Default for Loop {
    fn default() -> Self {
        Self {
            epochs: 10,
            steps: 0,
            seed: 0,
            precision: Precision::F32,
            evaluate_every: 0,
            checkpoint_every: 0,
            keep: 3,
            patience: 0,
        }
    }
}

/// Whether a number is finite and not negative.
pub(super) fn is_size(number: f64) -> bool {
    number.is_finite() && number >= 0.0
}

/// The words for the first thing that is wrong, if one is.
pub(super) fn first_wrong(wrong: &[(bool, &str)]) -> Result<()> {
    match wrong.iter().find(|(is_wrong, _)| *is_wrong) {
        Some((_, what)) => Err(Error::invalid(*what)),
        None => Ok(()),
    }
}

impl Settings {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// If a number makes no sense, with what would.
    pub fn check(&self) -> Result<()> {
        let Self { optim, schedule, train, quantize } = self;
        quantize.check()?;
        first_wrong(&[
            (train.keep == 0, "train.keep must be at least 1: the last checkpoint is needed"),
            (
                train.epochs == 0 && train.steps == 0,
                "train.epochs or train.steps must be at least 1",
            ),
            (!(optim.lr > 0.0 && optim.lr.is_finite()), "optim.lr must be above 0"),
            (!is_size(optim.clip), "optim.clip must be a number from 0 on"),
            (!is_size(optim.eps), "optim.eps must be a number from 0 on"),
            (
                optim.weight_decay.is_some_and(|decay| !is_size(decay)),
                "optim.weight_decay must be a number from 0 on",
            ),
            (
                !(0.0..1.0).contains(&optim.momentum),
                "optim.momentum must be a part from 0 to below 1",
            ),
            (
                optim.betas.iter().any(|beta| !(0.0..1.0).contains(beta)),
                "optim.betas must be parts from 0 to below 1",
            ),
            (!(0.0..=1.0).contains(&schedule.floor), "schedule.floor must be a part from 0 to 1"),
            (
                schedule.every == 0 || !(0.0..=1.0).contains(&schedule.factor),
                "schedule.every must be at least 1, schedule.factor a part from 0 to 1",
            ),
        ])
    }
}
