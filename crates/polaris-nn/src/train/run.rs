//! The loop over epochs and batches, with evaluations and checkpoints.

use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;

use super::checkpoint::Checkpoint;
use super::folder::RunFolder;
use super::log::Log;
use super::origin::unusable_parameter;
use super::trainer::Trainer;
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

/// Sees what happens, and may end it.
pub trait Listener {
    /// Something happened.
    fn event(&mut self, event: &Event);

    /// Whether to stop, with a checkpoint, before the next step.
    fn should_stop(&self) -> bool {
        false
    }
}

/// How a training ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// All steps were taken.
    Finished,
    /// Evaluations made no progress any more.
    Stale,
    /// The listener wanted it; the checkpoint to go on from.
    Stopped(PathBuf),
}

/// Trains to the end. The folder gets `log.jsonl`, `checkpoints/`, and the best model as
/// `model.safetensors`.
///
/// # Errors
/// What a step, an evaluation or a checkpoint says; checkpoints that were written stay.
pub fn run(
    trainer: &mut Trainer,
    folder: &RunFolder,
    listener: &mut dyn Listener,
) -> Result<Ending> {
    let mut run = Run {
        log: Log::open(&folder.path().join("log.jsonl"), trainer.progress.step)?,
        checkpoints: folder.checkpoints(),
        model: folder.path().join("model.safetensors"),
        trainer,
        listener,
    };
    let ending = run.epochs()?;
    // Without data to judge by, the last model is the best.
    if run.trainer.progress.best.is_none() {
        run.trainer.model_file().save(&run.model, &*run.trainer.model)?;
    }
    Ok(ending)
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
        let patience = self.trainer.config.train.patience;
        while self.trainer.progress.step < total {
            let progress = &self.trainer.progress;
            let batches = self.trainer.data.train.epoch(progress.epoch, progress.batch);
            let mut since = Instant::now();
            for batch in batches {
                if patience > 0 && self.trainer.progress.stale >= patience {
                    self.save()?;
                    return Ok(Ending::Stale);
                }
                if self.listener.should_stop() {
                    return Ok(Ending::Stopped(self.save()?));
                }
                let batch = batch?;
                let loss = self.trainer.step(&batch)?;
                let ends_epoch = self.advance();
                let progress = self.trainer.progress;
                let seconds = since.elapsed().as_secs_f64();
                since = Instant::now();
                self.tell(Event::Step {
                    step: progress.step,
                    epoch: progress.epoch,
                    loss,
                    rate: self.trainer.optimizer.groups()[0].rate,
                    examples: batch.size,
                    seconds,
                })?;
                let train = &self.trainer.config.train;
                let last = progress.step == total;
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
                if last {
                    break;
                }
            }
        }
        Ok(Ending::Finished)
    }

    /// Counts a step, and says whether it was the last of its epoch.
    fn advance(&mut self) -> bool {
        let batches = self.trainer.data.train.batches();
        let progress = &mut self.trainer.progress;
        progress.step += 1;
        progress.batch += 1;
        let ends = progress.batch == batches;
        if ends {
            (progress.epoch, progress.batch) = (progress.epoch + 1, 0);
        }
        ends
    }

    fn evaluate(&mut self) -> Result<()> {
        let Some(found) = self.trainer.evaluate()? else { return Ok(()) };
        let progress = &mut self.trainer.progress;
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
            self.trainer.model_file().save(&self.model, &*self.trainer.model)?;
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
        let Trainer { model, optimizer, progress, config, .. } = &*self.trainer;
        let path = Checkpoint::path(&self.checkpoints, progress.step);
        let about = self.trainer.model_file();
        Checkpoint::save(&path, &**model, &**optimizer, progress, &about)?;
        Checkpoint::prune(&self.checkpoints, config.train.keep);
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
