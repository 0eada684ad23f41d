//! What files of a training say about it, and models that can be used.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use polaris_runtime::DeviceRef;
use polaris_tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::config::Config;
use super::data::Task;
use super::settings::Settings;
use crate::checksum;
use crate::models::Ends;
use crate::quantize::{Quantizers, with_output};
use crate::tensors_file::{self, Contents, Metadata};
use crate::{Error, Init, Layer, Module, Result, load_state, state};

/// Under these names tensors and metadata are found in files; `PROGRESS` tells a checkpoint from a model.
pub(super) const MODEL: &str = "model.";
pub(super) const PROGRESS: &str = "polaris.progress";
const ABOUT: &str = "polaris.model";
const SETTINGS: &str = "polaris.settings";
const FORMAT: &str = "polaris.format";
/// Files of the first format have no checksum; those of this one must have one.
const OURS: &str = "2";

/// What a training may go on with in another way: how long, how often, where.
const FREE: [&str; 7] = [
    "train.epochs",
    "train.steps",
    "train.patience",
    "train.keep",
    "train.evaluate_every",
    "train.checkpoint_every",
    "train.device",
];

/// Which training a file belongs to.
#[derive(Debug, Clone, PartialEq)]
pub enum About {
    /// One of a configuration: the file alone makes the model.
    Model(Box<ModelFile>),
    /// One of a module, a loss and data of the caller, who brings them again.
    Own(Box<Settings>),
}

impl From<ModelFile> for About {
    fn from(file: ModelFile) -> Self {
        Self::Model(Box::new(file))
    }
}

impl About {
    /// What metadata say, if they say anything.
    pub(super) fn of(path: &Path, metadata: &Metadata) -> Result<Option<Self>> {
        let about = match (metadata.get(ABOUT), metadata.get(SETTINGS)) {
            (Some(about), _) => {
                serde_json::from_str(about).map(|about| Self::Model(Box::new(about)))
            }
            (None, Some(settings)) => {
                serde_json::from_str(settings).map(|settings| Self::Own(Box::new(settings)))
            }
            (None, None) => return Ok(None),
        };
        about.map(Some).map_err(|error| Error::file(path, error))
    }

    pub(super) fn metadata(&self, path: &Path) -> Result<Metadata> {
        match self {
            Self::Model(file) => metadata(path, ABOUT, file),
            Self::Own(settings) => metadata(path, SETTINGS, settings),
        }
    }

    /// Writes the state of a model, whole or not at all.
    pub(super) fn save_model(&self, path: &Path, model: &dyn Module) -> Result<()> {
        tensors_file::write(path, &state(model), &self.metadata(path)?)
    }

    /// Checks that a training may go on from this one's checkpoint, whose path is for the message.
    ///
    /// # Errors
    /// `OtherTraining` with what differs and may not.
    pub fn check_same(&self, now: &Self, path: &Path) -> Result<()> {
        match (self, now) {
            (_, Self::Model(now)) => self.check_config(&now.config, path),
            (Self::Own(before), Self::Own(now)) => same(before, now, path),
            (Self::Model(_), Self::Own(_)) => Err(other(path, vec!["model".to_owned()])),
        }
    }

    /// As [`check_same`](Self::check_same), for a configuration whose data need not have been read yet.
    ///
    /// # Errors
    /// `OtherTraining` with what differs and may not.
    pub fn check_config(&self, now: &Config, path: &Path) -> Result<()> {
        match self {
            Self::Model(before) => same(&before.config, now, path),
            Self::Own(_) => Err(other(path, vec!["model".to_owned()])),
        }
    }
}

fn other(path: &Path, differ: Vec<String>) -> Error {
    Error::OtherTraining { path: path.to_owned(), differ, free: &FREE }
}

/// Going on with another training would be neither.
fn same(before: &impl Serialize, now: &impl Serialize, path: &Path) -> Result<()> {
    let [before, now] = [flat(path, before)?, flat(path, now)?];
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let is_changed =
        |name: &&String| before.get(*name) != now.get(*name) && !FREE.contains(&name.as_str());
    let differ: Vec<String> = names.into_iter().filter(is_changed).cloned().collect();
    if differ.is_empty() { Ok(()) } else { Err(other(path, differ)) }
}

/// The values of sections by their names.
fn flat(path: &Path, sections: &impl Serialize) -> Result<BTreeMap<String, serde_json::Value>> {
    let sections = serde_json::to_value(sections).map_err(|error| Error::file(path, error))?;
    let mut values = BTreeMap::new();
    for (section, keys) in sections.as_object().into_iter().flatten() {
        for (key, value) in keys.as_object().into_iter().flatten() {
            values.insert(format!("{section}.{key}"), value.clone());
        }
    }
    Ok(values)
}

/// Reads the state of a module from the model or a checkpoint of a training. Nothing is changed unless all of it
/// fits.
///
/// # Errors
/// If the file cannot be read, or belongs to another module.
pub fn load_weights(path: &Path, device: &DeviceRef, module: &dyn Layer) -> Result<()> {
    let contents = tensors_file::read(path, device)?;
    check_format(path, &contents.1)?;
    load_state(module, &of_model(contents)).map_err(|error| with_path(path, error))
}

/// The tensors of a model, from its own file or from a checkpoint.
fn of_model((tensors, metadata): Contents) -> HashMap<String, Tensor> {
    if !metadata.contains_key(PROGRESS) {
        return tensors;
    }
    let of_model = tensors.into_iter().filter_map(|(name, tensor)| {
        name.strip_prefix(MODEL).map(|name| (name.to_owned(), tensor))
    });
    of_model.collect()
}

fn with_path(path: &Path, error: Error) -> Error {
    match error {
        Error::WrongState { what } => Error::file(path, what),
        other => other,
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
        tensors_file::write(path, &state(model), &metadata(path, ABOUT, self)?)
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
        contents: Contents,
        device: &DeviceRef,
    ) -> Result<(Self, Box<dyn Module>)> {
        check_format(path, &contents.1)?;
        let about = match About::of(path, &contents.1)? {
            Some(About::Model(about)) => *about,
            Some(About::Own(_)) => {
                let why =
                    "it is the state of a module of a program's own; read it with load_weights";
                return Err(Error::file(path, why));
            }
            None => {
                let why = "this file does not say which model it is: no training of a configuration \
                           wrote it";
                return Err(Error::file(path, why));
            }
        };
        let tensors = of_model(contents);
        let ends = Ends { input: about.input.clone(), outputs: about.outputs };
        // Before anything of the size that the file claims is made.
        let there: usize = tensors.values().map(Tensor::elements).sum();
        let claimed = about.config.model.least_parameters(&ends);
        let fits = claimed.is_some_and(|claimed| claimed <= there);
        if !fits || (about.task == Task::Classes && about.classes.len() != about.outputs) {
            let why = "its tensors are not those of the model that it describes";
            return Err(Error::file(path, why));
        }
        let model = about.config.model.build(&ends, &mut Init::new(device, 0))?;
        let quantize = &about.config.quantize;
        let model = with_output(model, quantize);
        let quantizers = match quantize.is_off() {
            true => None,
            false => Some(Quantizers::attach(&*model, quantize)?),
        };
        load_state(&*model, &tensors).map_err(|error| with_path(path, error))?;
        quantizers.map_or(Ok(()), |quantizers| quantizers.sync())?;
        Ok((about, model))
    }

    /// Gives a model of the same structure the parameters of a trained one, whose file this is, or the folder of its
    /// training. If that one was quantised, what its scales were is left out.
    ///
    /// # Errors
    /// If the file cannot be read, or is that of another model.
    pub(super) fn start_from(&self, path: &Path, model: &dyn Module) -> Result<()> {
        let path = &if path.is_dir() { path.join("model.safetensors") } else { path.to_owned() };
        let own = state(model);
        let Some((_, first)) = own.first() else { return Ok(()) };
        let contents = tensors_file::read(path, first.device())?;
        check_format(path, &contents.1)?;
        let other = |what: &str| {
            let why = format!("a training cannot start from it: {what}");
            Err(Error::file(path, why))
        };
        match About::of(path, &contents.1)? {
            Some(About::Model(before)) if before.config.model != self.config.model => {
                return other("its [model] is another; take the same values");
            }
            Some(About::Model(before)) => {
                let of = |file: &Self| (file.task, file.input.clone(), file.outputs);
                let is_same = of(&before) == of(self) && before.tokenizer == self.tokenizer;
                if !is_same || before.classes != self.classes {
                    return other("it has other inputs, outputs, classes or tokens");
                }
            }
            _ => return other("no training of a configuration wrote it"),
        }
        let names: BTreeSet<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
        let mut tensors = of_model(contents);
        tensors.retain(|name, _| names.contains(name.as_str()));
        load_state(model, &tensors).map_err(|error| with_path(path, error))
    }
}

pub(super) fn check_format(path: &Path, metadata: &Metadata) -> Result<()> {
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

pub(super) fn json(path: &Path, value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::file(path, error))
}

fn metadata(path: &Path, key: &str, value: &impl Serialize) -> Result<Metadata> {
    let own = (key.to_owned(), json(path, value)?);
    Ok(Metadata::from([(FORMAT.to_owned(), OURS.to_owned()), own]))
}
