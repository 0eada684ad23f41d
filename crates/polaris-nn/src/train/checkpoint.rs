//! Checkpoints: files that hold everything a training needs to go on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use polaris_runtime::DeviceRef;
use polaris_tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::about::{About, MODEL, PROGRESS, check_format, json};
use crate::optim::Optimizer;
use crate::quantize::Stage;
use crate::tensors_file;
use crate::{Error, LossScale, Module, Result, load_state, state};

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
    /// How precise quantised weights are; none before they are quantised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantize: Option<Stage>,
}

/// A file from which a training goes on as if nothing had been.
pub struct Checkpoint;

/// Under these names the tensors and metadata are found in the file, besides those of `about.rs`.
const OPTIMIZER: &str = "optimizer.";
const STEPS: &str = "polaris.optimizer_steps";
const PARAMETER_STEPS: &str = "polaris.parameter_steps";

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
        about: &About,
    ) -> Result<()> {
        let named = |prefix: &'static str| {
            move |(name, tensor): (String, Tensor)| (format!("{prefix}{name}"), tensor)
        };
        let tensors: Vec<(String, Tensor)> = (state(model).into_iter().map(named(MODEL)))
            .chain(optimizer.state().into_iter().map(named(OPTIMIZER)))
            .collect();
        let mut metadata = about.metadata(path)?;
        metadata.insert(PROGRESS.to_owned(), json(path, progress)?);
        metadata.insert(STEPS.to_owned(), optimizer.steps().to_string());
        let fewer = optimizer.fewer_steps();
        if !fewer.is_empty() {
            metadata.insert(PARAMETER_STEPS.to_owned(), json(path, &fewer)?);
        }
        tensors_file::write(path, &tensors, &metadata)
    }

    /// Reads a file into a model and an optimiser. With `now`, it must be of that training.
    ///
    /// # Errors
    /// If the file cannot be read, or belongs to another model, optimiser or training.
    pub fn load(
        path: &Path,
        device: &DeviceRef,
        model: &dyn Module,
        optimizer: &mut dyn Optimizer,
        now: Option<&About>,
    ) -> Result<Progress> {
        let (tensors, metadata) = tensors_file::read(path, device)?;
        check_format(path, &metadata)?;
        let no_checkpoint = || Error::file(path, "this is no checkpoint of a training");
        if let Some(now) = now {
            let before = About::of(path, &metadata)?.ok_or_else(no_checkpoint)?;
            before.check_same(now, path)?;
        }
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
    pub fn about(path: &Path) -> Result<About> {
        let metadata = tensors_file::read_metadata(path)?;
        check_format(path, &metadata)?;
        About::of(path, &metadata)?
            .ok_or_else(|| Error::file(path, "this is no checkpoint of a training"))
    }

    /// The newest checkpoint of a folder that is not damaged, and the training it belongs to. A damaged one is
    /// named in a warning.
    ///
    /// # Errors
    /// If there are checkpoints and none of them can be read: what is wrong with the newest.
    pub fn newest(folder: &Path) -> Result<Option<(PathBuf, About)>> {
        let mut newest = None;
        for path in Self::list(folder).into_iter().rev() {
            match Self::about(&path) {
                Ok(about) => return Ok(Some((path, about))),
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
