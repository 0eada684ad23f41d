//! Files of a training: checkpoints that hold everything, and models that can be used.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use polaris_runtime::DeviceRef;
use polaris_tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::config::Config;
use super::data::Task;
use crate::checksum;
use crate::models::Ends;
use crate::optim::Optimizer;
use crate::tensors_file::{self, Contents, Metadata};
use crate::{Error, Init, LossScale, Module, Result, load_state, state};

/// How far a training is.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Steps that were taken.
    pub step: u64,
    /// Whole passes through the data.
    pub epoch: u64,
    /// Batches of the current pass that were seen.
    pub batch: usize,
    /// The best score, and the step it was found at.
    pub best: Option<(f64, u64)>,
    /// Evaluations since then.
    pub stale: u64,
    /// What the loss is multiplied by, in half precision.
    pub loss_scale: Option<LossScale>,
}

/// A file from which a training goes on as if nothing had been.
pub struct Checkpoint;

/// Under these names the tensors and metadata are found in the file.
const MODEL: &str = "model.";
const OPTIMIZER: &str = "optimizer.";
const PROGRESS: &str = "polaris.progress";
const STEPS: &str = "polaris.optimizer_steps";
const ABOUT: &str = "polaris.model";
const PARAMETER_STEPS: &str = "polaris.parameter_steps";
const FORMAT: &str = "polaris.format";
/// Files of the first format have no checksum; those of this one must have one.
const OURS: &str = "2";

impl Checkpoint {
    /// Writes all of it, whole or not at all.
    ///
    /// # Errors
    /// If the disk is full or the place cannot be written: what was there is still there.
    pub fn save(
        path: &Path,
        model: &dyn Module,
        optimizer: &dyn Optimizer,
        progress: &Progress,
        about: &ModelFile,
    ) -> Result<()> {
        let named = |prefix: &'static str| {
            move |(name, tensor): (String, Tensor)| (format!("{prefix}{name}"), tensor)
        };
        let tensors: Vec<(String, Tensor)> = (state(model).into_iter().map(named(MODEL)))
            .chain(optimizer.state().into_iter().map(named(OPTIMIZER)))
            .collect();
        let mut metadata = Metadata::from([
            (FORMAT.to_owned(), OURS.to_owned()),
            (PROGRESS.to_owned(), json(path, progress)?),
            (STEPS.to_owned(), optimizer.steps().to_string()),
            (ABOUT.to_owned(), json(path, about)?),
        ]);
        let fewer = optimizer.fewer_steps();
        if !fewer.is_empty() {
            metadata.insert(PARAMETER_STEPS.to_owned(), json(path, &fewer)?);
        }
        tensors_file::write(path, &tensors, &metadata)
    }

    /// Reads a file into a model and an optimiser.
    ///
    /// # Errors
    /// If the file cannot be read, or belongs to another model or optimiser.
    pub fn load(
        path: &Path,
        device: &DeviceRef,
        model: &dyn Module,
        optimizer: &mut dyn Optimizer,
    ) -> Result<Progress> {
        let (tensors, metadata) = tensors_file::read(path, device)?;
        check_format(path, &metadata)?;
        let no_checkpoint = || Error::file(path, "this is no checkpoint of a training");
        let progress = metadata.get(PROGRESS).ok_or_else(no_checkpoint)?;
        let progress = serde_json::from_str(progress).map_err(|error| Error::file(path, error))?;
        let steps = metadata.get(STEPS).and_then(|steps| steps.parse().ok());
        let fewer = metadata.get(PARAMETER_STEPS).map(|json| serde_json::from_str(json));
        let fewer = fewer.transpose().map_err(|error| Error::file(path, error))?;
        let (mut of_model, mut of_optimizer) = (HashMap::new(), HashMap::new());
        for (name, tensor) in tensors {
            if let Some(name) = name.strip_prefix(MODEL) {
                of_model.insert(name.to_owned(), tensor);
            } else if let Some(name) = name.strip_prefix(OPTIMIZER) {
                of_optimizer.insert(name.to_owned(), tensor);
            }
        }
        let with_path = |error| match error {
            Error::WrongState { what } => Error::file(
                path,
                format!("this is a checkpoint of another model or optimiser: {what}"),
            ),
            other => other,
        };
        load_state(model, &of_model).map_err(with_path)?;
        optimizer.load_state(&of_optimizer).map_err(with_path)?;
        optimizer.set_steps(steps.ok_or_else(no_checkpoint)?, &fewer.unwrap_or_default());
        Ok(progress)
    }

    /// The training that a checkpoint belongs to.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn config(path: &Path) -> Result<Config> {
        let metadata = tensors_file::read_metadata(path)?;
        check_format(path, &metadata)?;
        let about = metadata
            .get(ABOUT)
            .ok_or_else(|| Error::file(path, "this is no checkpoint of a training"))?;
        let about: ModelFile =
            serde_json::from_str(about).map_err(|error| Error::file(path, error))?;
        Ok(about.config)
    }

    /// The newest checkpoint of a folder that is not damaged, and the training it belongs to. A damaged one is
    /// named in a warning.
    ///
    /// # Errors
    /// If there are checkpoints and none of them can be read: what is wrong with the newest.
    pub fn newest(folder: &Path) -> Result<Option<(PathBuf, Config)>> {
        let mut newest = None;
        for path in Self::list(folder).into_iter().rev() {
            match Self::config(&path) {
                Ok(config) => return Ok(Some((path, config))),
                Err(error) => {
                    log::warn!("{error}; it is passed over");
                    newest.get_or_insert(error);
                }
            }
        }
        newest.map_or(Ok(None), Err)
    }

    /// The checkpoints of a folder, oldest first.
    pub fn list(folder: &Path) -> Vec<PathBuf> {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut found: Vec<(u64, PathBuf)> = files
            .filter_map(|file| {
                let name = file.file_name();
                let step = name.to_str()?.strip_prefix("step-")?.strip_suffix(".safetensors")?;
                Some((step.parse().ok()?, file.path()))
            })
            .collect();
        found.sort();
        found.into_iter().map(|(_, path)| path).collect()
    }

    /// The name of a step's checkpoint.
    pub fn path(folder: &Path, step: u64) -> PathBuf {
        folder.join(format!("step-{step:08}.safetensors"))
    }

    /// Removes all but the newest.
    pub fn prune(folder: &Path, keep: usize) {
        let files = Self::list(folder);
        for path in &files[..files.len().saturating_sub(keep)] {
            // One that cannot be removed does no harm.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// What a model's file says about it, so that it can be used without anything else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelFile {
    /// The training it comes from.
    pub config: Config,
    /// What it predicts.
    pub task: Task,
    /// The dimensions of an example.
    pub input: Vec<usize>,
    /// Classes, numbers or tokens.
    pub outputs: usize,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// The tokenizer's own file, if the model reads tokens that are not bytes.
    #[serde(default)]
    pub tokenizer: Option<String>,
}

impl ModelFile {
    /// Writes the state of a model with what is known about it.
    ///
    /// # Errors
    /// If the disk is full or the place cannot be written.
    pub fn save(&self, path: &Path, model: &dyn Module) -> Result<()> {
        let metadata = Metadata::from([
            (FORMAT.to_owned(), OURS.to_owned()),
            (ABOUT.to_owned(), json(path, self)?),
        ]);
        tensors_file::write(path, &state(model), &metadata)
    }

    /// Reads a model, from its own file or from a checkpoint.
    ///
    /// # Errors
    /// If the file cannot be read, or is not one of ours.
    pub fn load(path: &Path, device: &DeviceRef) -> Result<(Self, Box<dyn Module>)> {
        Self::build(path, tensors_file::read(path, device)?, device)
    }

    /// As [`load`](Self::load), from the bytes of a file; its path is for messages.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn decode(
        path: &Path,
        bytes: &[u8],
        device: &DeviceRef,
    ) -> Result<(Self, Box<dyn Module>)> {
        Self::build(path, tensors_file::decode(path, bytes, device)?, device)
    }

    fn build(
        path: &Path,
        (mut tensors, metadata): Contents,
        device: &DeviceRef,
    ) -> Result<(Self, Box<dyn Module>)> {
        check_format(path, &metadata)?;
        let about = metadata.get(ABOUT).ok_or_else(|| {
            Error::file(
                path,
                "this file does not say which model it is: it is not of `polaris train`",
            )
        })?;
        let about: Self = serde_json::from_str(about).map_err(|error| Error::file(path, error))?;
        if metadata.contains_key(PROGRESS) {
            let of_model = tensors.into_iter().filter_map(|(name, tensor)| {
                name.strip_prefix(MODEL).map(|name| (name.to_owned(), tensor))
            });
            tensors = of_model.collect();
        }
        let ends = Ends { input: about.input.clone(), outputs: about.outputs };
        // Before anything of the size that the file claims is made.
        let there: usize = tensors.values().map(Tensor::elements).sum();
        let claimed = about.config.model.least_parameters(&ends);
        let fits = claimed.is_some_and(|claimed| claimed <= there);
        if !fits || (about.task == Task::Classes && about.classes.len() != about.outputs) {
            let why = "its tensors are not those of the model that it describes";
            return Err(Error::file(path, why));
        }
        let with_path = |error| match error {
            Error::WrongState { what } => Error::file(path, what),
            other => other,
        };
        let model = about.config.model.build(&ends, &mut Init::new(device, 0))?;
        load_state(&*model, &tensors).map_err(with_path)?;
        Ok((about, model))
    }
}

fn check_format(path: &Path, metadata: &Metadata) -> Result<()> {
    match metadata.get(FORMAT).map(String::as_str) {
        Some(OURS) if !metadata.contains_key(checksum::KEY) => {
            Err(Error::file(path, "it is damaged: its checksum is missing; take another copy"))
        }
        None | Some(OURS | "1") => Ok(()),
        Some(found) => {
            let why = format!("it is of format {found}, and this version reads 1 and {OURS}");
            Err(Error::file(path, why))
        }
    }
}

fn json(path: &Path, value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::file(path, error))
}
