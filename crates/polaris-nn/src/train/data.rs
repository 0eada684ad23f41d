//! The data of a configuration, cut into what is learned from and what is tested with.

use std::path::Path;
use std::sync::Arc;

use polaris_data::{
    ArrayDataset, ArrayOptions, Augment, CsvOptions, Dataset, Loader, LoaderOptions,
    sequential_split, stratified_split,
};
use serde::{Deserialize, Serialize};

use super::about::ModelFile;
use super::config::{Config, Data, Source, Target};
use super::words::{Words, text_dataset, words};
use crate::models::Ends;
use crate::{Error, Result};

/// What is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// One of several classes.
    Classes,
    /// A number.
    Number,
    /// The next token of a text.
    Tokens,
}

/// The data of a training.
pub struct Splits {
    /// To learn from.
    pub train: Loader,
    /// To test with, if some are kept for it.
    pub validation: Option<Loader>,
    /// What is predicted.
    pub task: Task,
    /// What the model gets and gives.
    pub ends: Ends,
    /// Names of the classes, if there are any.
    pub classes: Vec<String>,
    /// The tokenizer's own file, if it is not bytes.
    pub tokenizer: Option<String>,
}

impl Splits {
    /// Everything, as it is and in its order.
    ///
    /// # Errors
    /// Never, for data that could be cut into parts.
    pub fn all(&self) -> Result<Loader> {
        let dataset = Arc::clone(self.train.dataset());
        let indices = (0..dataset.len()).collect();
        let options =
            LoaderOptions { shuffle: false, augment: Vec::new(), ..self.train.options().clone() };
        Ok(Loader::new(dataset, indices, options)?)
    }
}

/// Batches that are made ahead.
const AHEAD: usize = 4;

/// Reads the data of a configuration. For a model that is there, classes and tokens have its numbers.
///
/// # Errors
/// If something is missing or cannot be read, with file, line and reason; `InvalidParameter` if the data are not
/// of the kind and the sizes of the model that is there.
pub fn load_data(config: &Config, model: Option<&ModelFile>) -> Result<Splits> {
    let data = &config.data;
    let words = match model {
        Some(model) if model.task == Task::Tokens => Some(Words::new(model.tokenizer.clone())?),
        _ => words(data)?,
    };
    let classes = model.map(|model| model.classes.clone()).filter(|classes| !classes.is_empty());
    let dataset = dataset(data, words.as_ref(), classes)?;
    let parts = [1.0 - data.validation, data.validation];
    let parts = if data.validation == 0.0 { &parts[..1] } else { &parts[..] };
    let task = match data.source {
        Source::Text | Source::Sample | Source::Dialogs => Task::Tokens,
        _ if data.target_is == Target::Number => Task::Number,
        _ => Task::Classes,
    };
    // Neighbouring pieces of a text have much in common: its end is kept apart.
    let mut split = match task {
        Task::Tokens => sequential_split(dataset.len(), parts)?,
        _ => stratified_split(&*dataset, parts, config.train.seed)?,
    };
    let validation = if split.len() > 1 { split.pop().unwrap_or_default() } else { Vec::new() };
    let train = split.pop().unwrap_or_default();
    if train.is_empty() {
        let (kept, all) = (data.validation, dataset.len());
        let what =
            format!("of {all} examples, none are left to learn from (data.validation = {kept})");
        return Err(Error::invalid(what));
    }
    let outputs = match task {
        Task::Tokens => words.as_ref().map_or(0, |words| words.tokenizer.vocabulary()),
        Task::Classes => dataset.classes().len(),
        Task::Number => dataset.target().dims.iter().product(),
    };
    let options = |augment: Vec<Augment>, shuffle: bool| LoaderOptions {
        batch: config.train.batch,
        shuffle,
        seed: config.train.seed,
        drop_last: false,
        augment,
        prefetch: AHEAD,
    };
    let splits = Splits {
        task,
        ends: Ends { input: dataset.input().dims.clone(), outputs },
        classes: dataset.classes().to_vec(),
        tokenizer: words.and_then(|words| words.json),
        train: Loader::new(Arc::clone(&dataset), train, options(augment(data), true))?,
        validation: match validation.is_empty() {
            true => None,
            false => Some(Loader::new(dataset, validation, options(Vec::new(), false))?),
        },
    };
    model.map_or(Ok(()), |model| check_fits(config, &splits, model))?;
    Ok(splits)
}

/// Checks that a model can be tested with data.
fn check_fits(config: &Config, data: &Splits, model: &ModelFile) -> Result<()> {
    if data.task != model.task || config.model != model.config.model {
        return Err(Error::invalid(
            "a model is tested for what it learned: only values of [data] and [train] can be set",
        ));
    }
    let Ends { input, outputs } = &data.ends;
    if *outputs != model.outputs || *input != model.input {
        return Err(Error::invalid(format!(
            "the data have examples of {input:?} and {outputs} outputs, the model {:?} and {}",
            model.input, model.outputs
        )));
    }
    Ok(())
}

fn dataset(
    data: &Data,
    words: Option<&Words>,
    classes: Option<Vec<String>>,
) -> Result<Arc<dyn Dataset>> {
    let path = || data_path(data);
    let target = match data.target_is {
        Target::Classes => polaris_data::Target::Class,
        Target::Number => polaris_data::Target::Number,
    };
    let arrays = ArrayOptions {
        target,
        classes: classes.clone(),
        input_dims: data.dims.clone(),
        scale: data.scale,
        ..ArrayOptions::default()
    };
    let array: ArrayDataset = match data.source {
        Source::Digits => polaris_data::digits()?,
        Source::Csv => {
            let options = CsvOptions {
                target_column: data.target.clone(),
                columns: data.inputs.clone(),
                target,
                classes,
                input_dims: data.dims.clone(),
                scale: data.scale,
                ..CsvOptions::default()
            };
            ArrayDataset::from_csv(path()?, &options)?
        }
        Source::Npz => {
            let first = data.inputs.as_ref().and_then(|names| names.first());
            let inputs = first.map_or("inputs", String::as_str);
            let targets = data.target.as_deref().unwrap_or("targets");
            ArrayDataset::from_npz(path()?, inputs, targets, &arrays)?
        }
        Source::Idx => {
            let labels = data.labels.as_ref().ok_or_else(|| {
                Error::invalid("data.labels is missing: the file of labels beside data.path")
            })?;
            ArrayDataset::from_idx(path()?, labels, &arrays)?
        }
        Source::Images => {
            return image_folder(data, path()?, classes);
        }
        Source::Text | Source::Sample | Source::Dialogs => {
            return text_dataset(data, words).map(|text| Arc::new(text) as Arc<dyn Dataset>);
        }
    };
    Ok(Arc::new(array))
}

/// The file or folder of a source that has one.
pub(super) fn data_path(data: &Data) -> Result<&Path> {
    let missing = || Error::invalid(format!("data.path is missing for {:?}", data.source));
    data.path.as_deref().ok_or_else(missing)
}

/// What this build leaves out.
#[cfg(not(all(feature = "text", feature = "image")))]
pub(super) fn without(what: &str, feature: &str) -> Error {
    Error::invalid(format!(
        "{what} needs the feature `{feature}`, which this build was made without"
    ))
}

#[cfg(not(feature = "image"))]
fn image_folder(_: &Data, _: &Path, _: Option<Vec<String>>) -> Result<Arc<dyn Dataset>> {
    Err(without("a folder of images", "image"))
}

#[cfg(feature = "image")]
fn image_folder(
    data: &Data,
    path: &Path,
    classes: Option<Vec<String>>,
) -> Result<Arc<dyn Dataset>> {
    let Some(&[channels, height, width]) = data.dims.as_deref() else {
        let what = "data.dims is missing for images: [channels, rows, columns] to resize them to";
        return Err(Error::invalid(what));
    };
    let options = polaris_data::ImageOptions::new(height, width, channels);
    let options = polaris_data::ImageOptions { classes, ..options };
    Ok(Arc::new(polaris_data::ImageFolder::open(path, options)?))
}

fn augment(data: &Data) -> Vec<Augment> {
    let mut changes = Vec::new();
    if data.shift > 0 {
        changes.push(Augment::Shift { pixels: data.shift });
    }
    if data.rotate > 0.0 {
        changes.push(Augment::Rotate { degrees: data.rotate });
    }
    if data.zoom > 0.0 {
        changes.push(Augment::Scale { amount: data.zoom });
    }
    if data.flip {
        changes.push(Augment::Flip { probability: 0.5 });
    }
    if data.noise > 0.0 {
        changes.push(Augment::Noise { std: data.noise });
    }
    changes
}
