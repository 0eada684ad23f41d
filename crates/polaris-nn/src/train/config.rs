//! What a training is: model, data, optimiser and schedule in one description.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::sources::check_used;
use crate::models::Model;
use crate::optim::Schedule;
use crate::{Error, Result};

/// A training, as one file describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The model.
    pub model: Model,
    /// What it learns from.
    pub data: Data,
    /// How parameters follow their gradients.
    #[serde(default)]
    pub optim: Optim,
    /// How the rate changes.
    #[serde(default)]
    pub schedule: Schedule,
    /// The loop.
    #[serde(default)]
    pub train: Train,
}

/// Where data come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The 1,797 handwritten digits that are built in.
    Digits,
    /// The English text that is built in.
    Sample,
    /// A table with a header.
    Csv,
    /// An archive of NumPy arrays, `inputs` and `targets`.
    Npz,
    /// Images and labels in MNIST's format.
    Idx,
    /// A folder of images for each class.
    Images,
    /// A text.
    Text,
}

/// What targets are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// One of several classes.
    #[default]
    Classes,
    /// A number.
    Number,
}

/// What a model learns from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Where it comes from.
    pub source: Source,
    /// The file or folder; relative paths are relative to the configuration.
    #[serde(default)]
    pub path: Option<PathBuf>,
    /// The labels, where they are a file of their own (idx).
    #[serde(default)]
    pub labels: Option<PathBuf>,
    /// The column or array of targets.
    #[serde(default)]
    pub target: Option<String>,
    /// The column or columns, or the array, of inputs.
    #[serde(default)]
    pub inputs: Option<Vec<String>>,
    /// What targets are.
    #[serde(default)]
    pub target_is: Target,
    /// The dimensions of an example, where the file does not tell, or what images are resized to.
    #[serde(default)]
    pub dims: Option<Vec<usize>>,
    /// What inputs are multiplied by.
    #[serde(default)]
    pub scale: Option<f32>,
    /// The part that is kept for validation.
    #[serde(default = "a_fifth")]
    pub validation: f64,
    /// Tokens that a text's model sees at a time.
    #[serde(default = "default_context")]
    pub context: usize,
    /// `bytes`, or the path of a tokenizer.json.
    #[serde(default = "bytes")]
    pub tokenizer: String,
    /// The most pixels that training images are shifted by.
    #[serde(default)]
    pub shift: usize,
    /// The largest angle in degrees that training images are turned by.
    #[serde(default)]
    pub rotate: f32,
    /// How much larger or smaller training images are made, at most.
    #[serde(default)]
    pub zoom: f32,
    /// The deviation of noise that is added to training images.
    #[serde(default)]
    pub noise: f32,
    /// Whether every other training image is mirrored.
    #[serde(default)]
    pub flip: bool,
}

fn a_fifth() -> f64 {
    0.2
}

pub(super) fn default_context() -> usize {
    128
}

pub(super) fn bytes() -> String {
    "bytes".to_owned()
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

/// The loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Train {
    /// How often all training data are seen.
    pub epochs: u64,
    /// The most steps; 0 for as many as the epochs have.
    pub steps: u64,
    /// Examples of a step.
    pub batch: usize,
    /// Decides everything random.
    pub seed: u64,
    /// The device, as `polaris devices` names it; the command line goes before it.
    pub device: String,
    /// The type that layers compute in.
    pub precision: Precision,
    /// The part of a target's share that all classes get alike.
    pub smoothing: f64,
    /// Steps from one evaluation to the next; 0 for once an epoch.
    pub evaluate_every: u64,
    /// Steps from one checkpoint to the next; 0 for once an epoch.
    pub checkpoint_every: u64,
    /// Checkpoints that are kept.
    pub keep: usize,
    /// Evaluations without progress after which training stops; 0 for never.
    pub patience: u64,
}

impl Default for Train {
    fn default() -> Self {
        Self {
            epochs: 10,
            steps: 0,
            batch: 64,
            seed: 0,
            device: "cpu".to_owned(),
            precision: Precision::F32,
            smoothing: 0.0,
            evaluate_every: 0,
            checkpoint_every: 0,
            keep: 3,
            patience: 0,
        }
    }
}

fn is_size(number: f64) -> bool {
    number.is_finite() && number >= 0.0
}

impl Config {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// If a number makes no sense, with what would.
    pub fn check(&self) -> Result<()> {
        let wrong = [
            (self.train.batch == 0, "train.batch must be at least 1"),
            (self.train.keep == 0, "train.keep must be at least 1: the last checkpoint is needed"),
            (
                self.train.epochs == 0 && self.train.steps == 0,
                "train.epochs or train.steps must be at least 1",
            ),
            (!(self.optim.lr > 0.0 && self.optim.lr.is_finite()), "optim.lr must be above 0"),
            (!is_size(self.optim.clip), "optim.clip must be a number from 0 on"),
            (!is_size(self.optim.eps), "optim.eps must be a number from 0 on"),
            (
                self.optim.weight_decay.is_some_and(|decay| !is_size(decay)),
                "optim.weight_decay must be a number from 0 on",
            ),
            (
                !(0.0..1.0).contains(&self.optim.momentum),
                "optim.momentum must be a part from 0 to below 1",
            ),
            (
                self.optim.betas.iter().any(|beta| !(0.0..1.0).contains(beta)),
                "optim.betas must be parts from 0 to below 1",
            ),
            (
                !(0.0..=1.0).contains(&self.schedule.floor),
                "schedule.floor must be a part from 0 to 1",
            ),
            (
                self.schedule.every == 0 || !(0.0..=1.0).contains(&self.schedule.factor),
                "schedule.every must be at least 1, schedule.factor a part from 0 to 1",
            ),
            (
                [self.data.rotate, self.data.zoom, self.data.noise]
                    .iter()
                    .any(|&size| !is_size(size.into())),
                "data.rotate, data.zoom and data.noise must be numbers from 0 on",
            ),
            (
                self.data.scale.is_some_and(|scale| !scale.is_finite()),
                "data.scale must be a number",
            ),
            (
                !(0.0..1.0).contains(&self.data.validation),
                "data.validation must be a part from 0 to below 1",
            ),
            (
                !(0.0..=1.0).contains(&self.train.smoothing),
                "train.smoothing must be a part from 0 to 1",
            ),
        ];
        match wrong.iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, what)) => Err(Error::invalid(*what)),
            None => check_used(&self.data),
        }
    }
}
