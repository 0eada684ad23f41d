//! The loop over epochs and batches, with evaluations and checkpoints.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use super::checkpoint::Checkpoint;
use super::folder::RunFolder;
use super::log::Log;
use super::origin::unusable_parameter;
use super::trainer::Trainer;
use crate::quantize::Cause;
use crate::{Error, Result};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A step was taken.
    Step {
        /// Steps so far.
        step: u64,
        /// Whole passes so far.
        epoch: u64,
        /// Its loss.
        loss: f64,
        /// The rate of the first group.
        rate: f64,
        /// Examples of the batch.
        examples: usize,
        /// Seconds that it took, with the wait for its data.
        seconds: f64,
    },
    /// Weights are quantised from this step on, or have other bits than before.
    Precision {
        /// The step that is the first with them.
        step: u64,
        /// Whole passes so far.
        epoch: u64,
        /// Bits of weights; 0 if only activations are quantised.
        bits: u32,
        /// Why.
        cause: Cause,
    },
    /// The model was evaluated.
    Evaluated {
        /// Steps so far.
        step: u64,
        /// Whole passes so far.
        epoch: u64,
        /// The mean loss.
        loss: f64,
        /// The part of examples whose class was found.
        accuracy: Option<f64>,
        /// Whether it is the best so far.
        best: bool,
    },
    /// A checkpoint was written.
    Saved {
        /// Steps so far.
        step: u64,
        /// The file.
        path: PathBuf,
    },
}

/// Sees what happens; a closure does, too. Whether to stop is asked of
/// [`Trainer::set_cancellation`]'s token.
pub trait Listener {
    /// Something happened.
    fn event(&mut self, event: &Event);
}

impl<F: FnMut(&Event)> Listener for F {
    fn event(&mut self, event: &Event) {
        self(event);
    }
}

/// How a training ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// All steps were taken.
    Finished,
    /// Evaluations made no progress any more.
    Stale,
    /// It was cancelled; the checkpoint to go on from.
    Stopped(PathBuf),
}

impl Trainer {
    /// Trains to the end. The folder gets `log.jsonl`, `checkpoints/`, and the best model as
    /// `model.safetensors`.
    ///
    /// # Errors
    /// `FolderHasTraining` if the folder holds another training and this one was not resumed; what a step, an
    /// evaluation or a checkpoint says. Checkpoints that were written stay.
    pub fn run(&mut self, folder: &RunFolder, listener: &mut dyn Listener) -> Result<Ending> {
        let obstacle = RunFolder::obstacle(folder.path()).filter(|_| self.is_new());
        if let Some(file) = obstacle {
            return Err(Error::FolderHasTraining { path: folder.path().to_owned(), file });
        }
        let mut run = Run {
            log: Log::open(&folder.path().join("log.jsonl"), self.progress.step)?,
            checkpoints: folder.checkpoints(),
            model: folder.path().join("model.safetensors"),
            trainer: self,
            listener,
        };
        let ending = run.epochs()?;
        // Without data to judge by, the last model is the best.
        if run.trainer.progress.best.is_none() {
            run.trainer.about.save_model(&run.model, &*run.trainer.model)?;
        }
        Ok(ending)
    }
}

struct Run<'a> {
    trainer: &'a mut Trainer,
    listener: &'a mut dyn Listener,
    log: Log,
    checkpoints: PathBuf,
    model: PathBuf,
}

impl Run<'_> {
    fn epochs(&mut self) -> Result<Ending> {
        let total = self.trainer.total_steps();
        while self.trainer.progress.step < total {
            if let Some(ending) = self.epoch(total)? {
                return Ok(ending);
            }
        }
        let wanted = self.trainer.settings.quantize.weights;
        let reached = self.trainer.progress.quantize.map_or(0, |stage| stage.bits);
        if self.trainer.quantizers.is_some() && reached < wanted {
            log::warn!(
                "the training ended with weights of {reached} bits; {wanted} were to be reached"
            );
        }
        Ok(Ending::Finished)
    }

    /// The rest of an epoch, or of the training.
    fn epoch(&mut self, total: u64) -> Result<Option<Ending>> {
        let begin = self.trainer.progress;
        // The source lends its batches while steps change the rest of the trainer.
        let source = Arc::clone(&self.trainer.train);
        let mut since = Instant::now();
        for batch in source.epoch(begin.epoch, begin.batch) {
            let patience = self.trainer.settings.train.patience;
            if patience > 0 && self.trainer.progress.stale >= patience {
                self.save()?;
                return Ok(Some(Ending::Stale));
            }
            if self.trainer.cancellation.is_cancelled() {
                return Ok(Some(Ending::Stopped(self.save()?)));
            }
            let batch = batch?;
            let bits = self.trainer.progress.quantize.map(|stage| stage.bits);
            let epoch = self.trainer.progress.epoch;
            let loss = self.trainer.step(&batch)?;
            let progress = self.trainer.progress;
            if let Some(stage) = progress.quantize.filter(|stage| bits != Some(stage.bits)) {
                let (step, bits, cause) = (progress.step, stage.bits, stage.cause);
                self.tell(Event::Precision { step, epoch, bits, cause })?;
            }
            let seconds = since.elapsed().as_secs_f64();
            since = Instant::now();
            self.tell(Event::Step {
                step: progress.step,
                epoch: progress.epoch,
                loss,
                rate: self.trainer.optimizer.groups().first().map_or(0.0, |group| group.rate),
                examples: batch.size,
                seconds,
            })?;
            let train = &self.trainer.settings.train;
            let (ends_epoch, last) = (progress.batch == 0, progress.step == total);
            let due = |every: u64| match every {
                0 => ends_epoch || last,
                every => progress.step.is_multiple_of(every) || last,
            };
            let evaluate = due(train.evaluate_every);
            // A model that is written without any checkpoint would stand against beginning again.
            let save = due(train.checkpoint_every)
                || (evaluate && Checkpoint::list(&self.checkpoints).is_empty());
            if evaluate {
                self.evaluate()?;
                since = Instant::now();
            }
            if save {
                self.save()?;
            }
            if ends_epoch || last {
                return Ok(None);
            }
        }
        let (promised, progress) = (self.trainer.train.batches(), self.trainer.progress);
        Err(Error::MissingBatch { promised, missing: progress.batch, epoch: progress.epoch })
    }

    fn evaluate(&mut self) -> Result<()> {
        let Some(found) = self.trainer.evaluate()? else { return Ok(()) };
        let progress = &mut self.trainer.progress;
        if let Some(stage) = &mut progress.quantize {
            stage.observe(found.loss);
        }
        // A score that is no number is never the best.
        let best =
            found.score().is_finite() && progress.best.is_none_or(|(best, _)| found.score() > best);
        if best {
            progress.best = Some((found.score(), progress.step));
            progress.stale = 0;
        } else {
            progress.stale += 1;
        }
        let (step, epoch) = (progress.step, progress.epoch);
        if best {
            self.trainer.about.save_model(&self.model, &*self.trainer.model)?;
        }
        let (loss, accuracy) = (found.loss, found.accuracy);
        self.tell(Event::Evaluated { step, epoch, loss, accuracy, best })
    }

    /// Writes a checkpoint, unless the model is beyond hope: those that are there are then needed.
    fn save(&mut self) -> Result<PathBuf> {
        if let Some(origin) = unusable_parameter(&*self.trainer.model) {
            let step = self.trainer.progress.step;
            return Err(Error::NotFinite { loss: f64::NAN, step, origin });
        }
        let Trainer { model, optimizer, progress, settings, about, .. } = &*self.trainer;
        let path = Checkpoint::path(&self.checkpoints, progress.step);
        Checkpoint::save(&path, &**model, &**optimizer, progress, about)?;
        Checkpoint::prune(&self.checkpoints, settings.train.keep);
        let step = progress.step;
        self.tell(Event::Saved { step, path: path.clone() })?;
        Ok(path)
    }

    fn tell(&mut self, event: Event) -> Result<()> {
        self.log.write(&event)?;
        self.listener.event(&event);
        Ok(())
    }
}
