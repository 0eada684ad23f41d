//! A model in training: one step at a time.

use std::path::Path;

use polaris_core::DType;
use polaris_data::{Batch, Values};
use polaris_ops::CrossEntropyOptions;
use polaris_runtime::DeviceRef;
use polaris_tensor::Tensor;

use super::checkpoint::{Checkpoint, ModelFile, Progress};
use super::config::{Config, Optim, OptimKind, Precision};
use super::data::{Splits, Task, load_data};
use super::evaluate::{Evaluation, evaluate};
use super::origin::origin_of_failure;
use crate::models::Model;
use crate::optim::{Adam, Group, Optimizer, Sgd, gradient_norm};
use crate::pass::mix;
use crate::{Error, Init, LossScale, Module, Parameter, Pass, Result, parameters};

/// A model in training.
pub struct Trainer {
    pub(super) config: Config,
    pub(super) device: DeviceRef,
    pub(super) model: Box<dyn Module>,
    pub(super) optimizer: Box<dyn Optimizer>,
    pub(super) data: Splits,
    pub(super) progress: Progress,
}

impl Trainer {
    /// A model at its beginning. Relative paths of the configuration are relative to a folder.
    ///
    /// # Errors
    /// If the configuration makes no sense, data cannot be read, or there is no room.
    pub fn new(config: &Config, folder: &Path, device: &DeviceRef) -> Result<Self> {
        config.check()?;
        let data = load_data(config, folder, None)?;
        match (&config.model, data.task) {
            (Model::Gpt(_), Task::Tokens) => {}
            (Model::Gpt(_), _) => return Err(Error::invalid("a gpt learns from text only")),
            (_, Task::Tokens) => {
                return Err(Error::invalid("a text needs a gpt (model.kind = \"gpt\")"));
            }
            _ => {}
        }
        let mut init = Init::new(device, config.train.seed);
        let model = config.model.build(&data.ends, &mut init)?;
        let optimizer = optimizer(&config.optim, parameters(&*model))?;
        let mut progress = Progress::default();
        if config.train.precision == Precision::F16 {
            progress.loss_scale = Some(LossScale::default());
        }
        Ok(Self {
            config: config.clone(),
            device: device.clone(),
            model,
            optimizer,
            data,
            progress,
        })
    }

    /// Goes on where a checkpoint was written.
    ///
    /// # Errors
    /// If the file cannot be read or belongs to another model.
    pub fn resume(&mut self, path: &Path) -> Result<()> {
        let progress = Checkpoint::load(path, &self.device, &*self.model, &mut *self.optimizer)?;
        let (seen, batches) = (progress.batch, self.data.train.batches());
        if seen >= batches {
            let why =
                format!("{seen} batches of an epoch were seen, but there are only {batches} now");
            return Err(Error::file(path, why));
        }
        self.progress = progress;
        Ok(())
    }

    /// The model.
    pub fn model(&self) -> &dyn Module {
        &*self.model
    }

    /// The data.
    pub fn data(&self) -> &Splits {
        &self.data
    }

    /// How far it is.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The number of parameters.
    pub fn parameter_count(&self) -> usize {
        parameters(&*self.model).iter().map(|(_, p)| p.tensor().elements()).sum()
    }

    /// Steps of the whole training.
    pub fn total_steps(&self) -> u64 {
        let all = self.config.train.epochs.saturating_mul(self.data.train.batches() as u64);
        match self.config.train.steps {
            0 => all,
            steps if self.config.train.epochs == 0 => steps,
            steps => steps.min(all),
        }
    }

    /// The type that layers compute in, if it is not that of the parameters.
    pub(super) fn compute(&self) -> Option<DType> {
        (self.config.train.precision == Precision::F16).then_some(DType::F16)
    }

    /// How good the model is on what it does not learn from, if there is such.
    ///
    /// # Errors
    /// If data cannot be read, or a device fails.
    pub fn evaluate(&self) -> Result<Option<Evaluation>> {
        let Some(validation) = &self.data.validation else { return Ok(None) };
        let (task, compute) = (self.data.task, self.compute());
        evaluate(&*self.model, validation, task, &self.device, compute).map(Some)
    }

    /// What is needed to use the model later.
    pub(super) fn model_file(&self) -> ModelFile {
        ModelFile {
            config: self.config.clone(),
            task: self.data.task,
            input: self.data.ends.input.clone(),
            outputs: self.data.ends.outputs,
            classes: self.data.classes.clone(),
            tokenizer: self.data.tokenizer.clone(),
        }
    }

    /// Takes a step with a batch and returns its loss.
    ///
    /// # Errors
    /// `NotFinite` if the loss is no number; `BatchTooLarge` if there is no room.
    pub fn step(&mut self, batch: &Batch) -> Result<f64> {
        let step = self.progress.step;
        let total = self.total_steps();
        self.optimizer.set_rate_factor(self.config.schedule.factor(step, total));
        match self.try_step(batch) {
            Err(error) if error.is_out_of_memory() => {
                let fits = self.smaller_batch(batch);
                Err(Error::BatchTooLarge { batch: batch.size, fits, cause: Box::new(error) })
            }
            result => result,
        }
    }

    /// The pass of the current step: what is dropped depends on the seed and the step alone.
    fn pass(&self) -> Pass<'static> {
        let seed = mix(self.config.train.seed ^ mix(self.progress.step));
        Pass::training(seed).in_type(self.compute())
    }

    fn try_step(&mut self, batch: &Batch) -> Result<f64> {
        let (x, y) = batch_tensors(batch, &self.device)?;
        let loss = self.loss(&x, &y)?;
        let value = loss.item()?;
        if !value.is_finite() {
            let origin = origin_of_failure(&*self.model, &x, &batch.indices, self.pass());
            return Err(Error::NotFinite { loss: value, step: self.progress.step + 1, origin });
        }
        let scale = self.progress.loss_scale.map_or(1.0, |scale| scale.value());
        match scale {
            1.0 => loss.backward()?,
            scale => loss.mul_scalar(scale)?.backward()?,
        }
        let mut factor = 1.0 / scale;
        let clip = self.config.optim.clip;
        if clip > 0.0 || self.progress.loss_scale.is_some() {
            let norm = gradient_norm(self.optimizer.groups())? / scale;
            if let Some(scale) = &mut self.progress.loss_scale
                && !scale.observe(norm.is_finite())
            {
                self.optimizer.zero_grad();
                if scale.is_hopeless() {
                    return Err(Error::Overflow { step: self.progress.step + 1 });
                }
                return Ok(value);
            }
            if clip > 0.0 {
                // As PyTorch does it, with a little to keep the division finite.
                factor *= (clip / (norm + 1e-6)).min(1.0);
            }
        }
        self.optimizer.step_scaled(factor)?;
        Ok(value)
    }

    fn loss(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let outputs = self.model.forward(x, &self.pass())?;
        loss_of(self.data.task, &outputs, y, self.config.train.smoothing)
    }

    /// The largest half, quarter, ... of a batch that a pass has room for.
    fn smaller_batch(&self, batch: &Batch) -> Option<usize> {
        let mut size = batch.size / 2;
        while size > 0 {
            self.optimizer.zero_grad();
            self.device.allocator().trim();
            let fits = || -> Result<()> {
                let (x, y) = batch_tensors(&beginning(batch, size), &self.device)?;
                Ok(self.loss(&x, &y)?.backward()?)
            };
            match fits() {
                Ok(()) => return Some(size),
                Err(error) if error.is_out_of_memory() => size /= 2,
                Err(_) => return None,
            }
        }
        None
    }
}

fn optimizer(optim: &Optim, parameters: Vec<(String, Parameter)>) -> Result<Box<dyn Optimizer>> {
    // PyTorch's own defaults.
    let decay = if optim.kind == OptimKind::Adamw { 0.01 } else { 0.0 };
    let decay = optim.weight_decay.unwrap_or(decay);
    let groups = vec![Group::new(parameters, optim.lr, decay)];
    Ok(match optim.kind {
        OptimKind::Sgd => Box::new(Sgd::new(groups, optim.momentum, optim.nesterov)?),
        OptimKind::Adam => Box::new(Adam::new(groups, optim.betas, optim.eps, false)?),
        OptimKind::Adamw => Box::new(Adam::new(groups, optim.betas, optim.eps, true)?),
    })
}

/// The first examples of a batch.
fn beginning(batch: &Batch, size: usize) -> Batch {
    let part = |values: &Values| {
        let count = values.len() / batch.size.max(1) * size;
        match values {
            Values::F32(values) => Values::F32(values[..count].to_vec()),
            Values::I64(values) => Values::I64(values[..count].to_vec()),
        }
    };
    let dims = |dims: &[usize]| [&[size], &dims[1..]].concat();
    Batch {
        size,
        inputs: part(&batch.inputs),
        input_dims: dims(&batch.input_dims),
        targets: part(&batch.targets),
        target_dims: dims(&batch.target_dims),
        indices: batch.indices[..size].to_vec(),
    }
}

/// A batch on a device.
pub(super) fn batch_tensors(batch: &Batch, device: &DeviceRef) -> Result<(Tensor, Tensor)> {
    let tensor = |values: &Values, dims: &[usize]| -> Result<Tensor> {
        Ok(match values {
            Values::F32(values) => Tensor::from_slice(device, dims, values)?,
            Values::I64(values) => Tensor::from_slice(device, dims, values)?,
        })
    };
    Ok((tensor(&batch.inputs, &batch.input_dims)?, tensor(&batch.targets, &batch.target_dims)?))
}

/// The mean loss of a model's outputs, computed in single precision at least.
pub(super) fn loss_of(task: Task, outputs: &Tensor, y: &Tensor, smoothing: f64) -> Result<Tensor> {
    let outputs = match outputs.dtype() {
        DType::F64 => outputs.clone(),
        _ => outputs.to_dtype(DType::F32)?,
    };
    Ok(match task {
        Task::Number => outputs.reshape(y.dims())?.mse_loss(y)?,
        Task::Classes | Task::Tokens => {
            let classes = outputs.dims().last().copied().unwrap_or(1);
            let rows = outputs.elements() / classes.max(1);
            let options = CrossEntropyOptions { smoothing, ..CrossEntropyOptions::default() };
            outputs.reshape(&[rows, classes])?.cross_entropy_loss(&y.flatten()?, None, options)?
        }
    })
}
