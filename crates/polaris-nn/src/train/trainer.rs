//! A model in training: one step at a time.

use std::path::Path;
use std::sync::Arc;

use polaris_core::{CancellationToken, DType};
use polaris_data::Batch;
use polaris_runtime::DeviceRef;
use polaris_tensor::Tensor;

use super::about::About;
use super::batches::{BatchSource, batch_tensors, beginning};
use super::checkpoint::{Checkpoint, Progress};
use super::evaluate::{Evaluation, evaluate};
use super::loss::{Loss, for_loss};
use super::origin::origin_of_failure;
use super::settings::{Precision, Settings};
use crate::optim::{Optimizer, gradient_norm};
use crate::pass::mix;
use crate::quantize::{Quantizers, Stage};
use crate::{Error, Module, Pass, Result, parameters};

/// A model in training: of a configuration ([`Trainer::from_config`]), or of a module, a loss and data of one's own
/// ([`Trainer::builder`]). [`Trainer::run`] trains to the end with checkpoints and a log; [`Trainer::step`] takes a
/// single step, and leaves no files.
pub struct Trainer {
    pub(super) settings: Settings,
    pub(super) device: DeviceRef,
    pub(super) model: Box<dyn Module>,
    pub(super) quantizers: Option<Quantizers>,
    pub(super) loss: Box<dyn Loss>,
    /// Shared, so that its batches can be asked for while the rest changes.
    pub(super) train: Arc<dyn BatchSource>,
    pub(super) validation: Option<Box<dyn BatchSource>>,
    pub(super) optimizer: Box<dyn Optimizer>,
    pub(super) progress: Progress,
    pub(super) resumed: bool,
    pub(super) about: About,
    pub(super) cancellation: CancellationToken,
}

impl Trainer {
    /// Goes on where a checkpoint was written.
    ///
    /// # Errors
    /// `OtherTraining` if it belongs to a training with other settings; if the file cannot be read or belongs to
    /// another model.
    pub fn resume(&mut self, path: &Path) -> Result<()> {
        let Self { device, model, optimizer, about, .. } = self;
        let progress = Checkpoint::load(path, device, &**model, &mut **optimizer, Some(about))?;
        let (seen, batches) = (progress.batch, self.train.batches());
        if seen >= batches {
            let why =
                format!("{seen} batches of an epoch were seen, but there are only {batches} now");
            return Err(Error::file(path, why));
        }
        if let Some(quantizers) = &self.quantizers {
            quantizers.sync()?;
        }
        self.progress = progress;
        self.resumed = true;
        Ok(())
    }

    /// Stops before the next step, with a checkpoint, once this token is cancelled.
    pub fn set_cancellation(&mut self, token: CancellationToken) {
        self.cancellation = token;
    }

    /// The model.
    pub fn model(&self) -> &dyn Module {
        &*self.model
    }

    /// The loss.
    pub fn loss(&self) -> &dyn Loss {
        &*self.loss
    }

    /// The training data.
    pub fn training_data(&self) -> &dyn BatchSource {
        &*self.train
    }

    /// The validation data, if there are any.
    pub fn validation_data(&self) -> Option<&dyn BatchSource> {
        self.validation.as_deref()
    }

    /// How it is trained.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How far it is.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Whether it is at its beginning, and no checkpoint put it there.
    pub(super) fn is_new(&self) -> bool {
        self.progress.step == 0 && !self.resumed
    }

    /// The number of parameters.
    pub fn parameter_count(&self) -> usize {
        parameters(&*self.model).iter().map(|(_, p)| p.tensor().elements()).sum()
    }

    /// Steps of the whole training.
    pub fn total_steps(&self) -> u64 {
        let train = &self.settings.train;
        let all = train.epochs.saturating_mul(self.train.batches() as u64);
        match train.steps {
            0 => all,
            steps if train.epochs == 0 => steps,
            steps => steps.min(all),
        }
    }

    /// The type that layers compute in, if it is not that of the parameters.
    pub(super) fn compute(&self) -> Option<DType> {
        (self.settings.train.precision == Precision::F16).then_some(DType::F16)
    }

    /// How good the model is on the validation data, if there are any.
    ///
    /// # Errors
    /// If data cannot be read, or a device fails.
    pub fn evaluate(&self) -> Result<Option<Evaluation>> {
        let Some(validation) = &self.validation else { return Ok(None) };
        evaluate(&*self.model, &**validation, &*self.loss, &self.device, self.compute()).map(Some)
    }

    /// Takes a step with a batch and returns its loss. Batches should come in the order of
    /// [`training_data`](Self::training_data)'s epochs, which progress counts.
    ///
    /// # Errors
    /// `NotFinite` if the loss is no number; `BatchTooLarge` if there is no room.
    pub fn step(&mut self, batch: &Batch) -> Result<f64> {
        let step = self.progress.step;
        let total = self.total_steps();
        self.change_precision()?;
        self.optimizer.set_rate_factor(self.settings.schedule.factor(step, total));
        match self.try_step(batch) {
            Err(error) if error.is_out_of_memory() => {
                let fits = self.smaller_batch(batch);
                // A caller may go on with a smaller batch.
                self.optimizer.zero_grad();
                Err(Error::BatchTooLarge { batch: batch.size, fits, cause: Box::new(error) })
            }
            result => {
                let loss = result?;
                self.advance();
                Ok(loss)
            }
        }
    }

    /// Begins to quantise, or adds a bit, when the time has come.
    fn change_precision(&mut self) -> Result<()> {
        let Some(quantizers) = &self.quantizers else { return Ok(()) };
        let Progress { quantize, epoch, .. } = self.progress;
        if let Some(stage) = Stage::next(quantize, &self.settings.quantize, epoch) {
            quantizers.set_bits(stage.bits)?;
            self.progress.quantize = Some(stage);
            // The best model is one of the last precision.
            (self.progress.best, self.progress.stale) = (None, 0);
        }
        Ok(())
    }

    /// Counts a step, and an epoch with the last of its steps.
    fn advance(&mut self) {
        let progress = &mut self.progress;
        progress.step += 1;
        progress.batch += 1;
        if progress.batch >= self.train.batches() {
            (progress.epoch, progress.batch) = (progress.epoch + 1, 0);
        }
    }

    /// The pass of the current step: what is dropped depends on the seed and the step alone.
    fn pass(&self) -> Pass<'static> {
        let seed = mix(self.settings.train.seed ^ mix(self.progress.step));
        Pass::training(seed).in_type(self.compute())
    }

    fn try_step(&mut self, batch: &Batch) -> Result<f64> {
        let (x, y) = batch_tensors(batch, &self.device)?;
        let loss = self.batch_loss(&x, &y)?;
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
        let clip = self.settings.optim.clip;
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

    fn batch_loss(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let outputs = for_loss(&self.model.forward(x, &self.pass())?)?;
        let loss = self.loss.training(&outputs, y)?;
        if loss.elements() != 1 {
            let shape = loss.shape();
            let what = format!("a loss has shape {shape}; it must be one number, such as a mean");
            return Err(Error::invalid(what));
        }
        Ok(loss)
    }

    /// The largest half, quarter, ... of a batch that a pass has room for.
    fn smaller_batch(&self, batch: &Batch) -> Option<usize> {
        let mut size = batch.size / 2;
        while size > 0 {
            self.optimizer.zero_grad();
            self.device.allocator().trim();
            let fits = || -> Result<()> {
                let (x, y) = batch_tensors(&beginning(batch, size), &self.device)?;
                Ok(self.batch_loss(&x, &y)?.backward()?)
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
