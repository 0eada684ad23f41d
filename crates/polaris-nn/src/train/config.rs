//! What a training is: model, data, optimiser and schedule in one description.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::settings::{Loop, Optim, Precision, Settings, first_wrong, is_size};
use super::sources::check_used;
use crate::models::{Mlp, Model};
use crate::optim::Schedule;
use crate::quantize::Quantize;
use crate::{Error, Result};

/// A training, as one file describes it: by default an MLP on the built-in digits.
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
    /// What is quantised, and when.
    #[serde(default, skip_serializing_if = "Quantize::is_off")]
    pub quantize: Quantize,
}

/// Where data come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The 1,797 handwritten digits that are built in.
    Digits,
    /// The English text that is built in.
    Sample,
    /// The short dialogs that are built in.
    Dialogs,
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
    /// The file or folder; in a file of a configuration, relative paths are relative to that file.
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
    /// `bytes`, `bpe` for one that is learned from the text, or the path of a tokenizer.json.
    #[serde(default = "bytes")]
    pub tokenizer: String,
    /// Tokens that a tokenizer learns from the text.
    #[serde(default = "default_vocabulary")]
    pub vocabulary: usize,
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

impl Data {
    /// A source, with defaults for everything else.
    pub fn new(source: Source) -> Self {
        Self {
            source,
            path: None,
            labels: None,
            target: None,
            inputs: None,
            target_is: Target::default(),
            dims: None,
            scale: None,
            validation: a_fifth(),
            context: default_context(),
            tokenizer: bytes(),
            vocabulary: default_vocabulary(),
            shift: 0,
            rotate: 0.0,
            zoom: 0.0,
            noise: 0.0,
            flip: false,
        }
    }
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

/// The tokenizer that is learned from the text.
pub(super) const LEARNED: &str = "bpe";

/// How many tokens it may have: all bytes and special tokens, and no more than training can handle.
const VOCABULARIES: std::ops::RangeInclusive<usize> = 259..=65_536;

pub(super) fn default_vocabulary() -> usize {
    2048
}

/// The loop, and what a configuration says about batches, loss and device; [`Loop`] says what a field is that
/// both have.
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
    /// A model of the same kind whose parameters this one begins with: its file, or the folder of its training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<PathBuf>,
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
        let Loop {
            epochs,
            steps,
            seed,
            precision,
            evaluate_every,
            checkpoint_every,
            keep,
            patience,
        } = Loop::default();
        Self {
            epochs,
            steps,
            batch: 64,
            seed,
            device: "cpu".to_owned(),
            start: None,
            precision,
            smoothing: 0.0,
            evaluate_every,
            checkpoint_every,
            keep,
            patience,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: Model::Mlp(Mlp::default()),
            data: Data::new(Source::Digits),
            optim: Optim::default(),
            schedule: Schedule::default(),
            train: Train::default(),
            quantize: Quantize::default(),
        }
    }
}

impl From<&Config> for Settings {
    fn from(config: &Config) -> Self {
        let train = &config.train;
        Self {
            optim: config.optim.clone(),
            schedule: config.schedule,
            train: Loop {
                epochs: train.epochs,
                steps: train.steps,
                seed: train.seed,
                precision: train.precision,
                evaluate_every: train.evaluate_every,
                checkpoint_every: train.checkpoint_every,
                keep: train.keep,
                patience: train.patience,
            },
            quantize: config.quantize.clone(),
        }
    }
}

impl Config {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// If a number makes no sense, with what would.
    pub fn check(&self) -> Result<()> {
        let Self { data, train, .. } = self;
        Settings::from(self).check()?;
        first_wrong(&[
            (train.batch == 0, "train.batch must be at least 1"),
            (
                [data.rotate, data.zoom, data.noise].iter().any(|&size| !is_size(size.into())),
                "data.rotate, data.zoom and data.noise must be numbers from 0 on",
            ),
            (data.scale.is_some_and(|scale| !scale.is_finite()), "data.scale must be a number"),
            (
                !(0.0..1.0).contains(&data.validation),
                "data.validation must be a part from 0 to below 1",
            ),
            (
                data.vocabulary != default_vocabulary() && data.tokenizer != LEARNED,
                "data.vocabulary is for tokenizers that are learned from the text; set data.tokenizer = \"bpe\" too",
            ),
            (
                !VOCABULARIES.contains(&data.vocabulary),
                "data.vocabulary must be from 259 (the bytes and three special tokens) to 65536",
            ),
            (!(0.0..=1.0).contains(&train.smoothing), "train.smoothing must be a part from 0 to 1"),
        ])?;
        check_used(data)
    }

    /// Makes its paths absolute, so that a model's file finds its data again from wherever it is used. Relative
    /// ones are relative to a folder.
    ///
    /// # Errors
    /// `File` if a path is empty, or the current folder is gone.
    pub fn resolve_paths(&mut self, folder: &Path) -> Result<()> {
        let absolute = |path: &Path| {
            std::path::absolute(folder.join(path)).map_err(|error| Error::file(path, error))
        };
        let Data { path, labels, tokenizer, .. } = &mut self.data;
        for path in [path, labels, &mut self.train.start].into_iter().flatten() {
            *path = absolute(path)?;
        }
        if *tokenizer != bytes() && *tokenizer != LEARNED {
            *tokenizer = absolute(Path::new(tokenizer))?.to_string_lossy().into_owned();
        }
        Ok(())
    }
}
