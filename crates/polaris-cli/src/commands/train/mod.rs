//! `polaris train`: from a configuration to a model, with progress, checkpoints and a report.

mod config_file;
mod listener;
mod report;

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use polaris::DeviceRef;
use polaris::nn;
use polaris::nn::train::{
    self, Checkpoint, Config, Ending, Evaluation, ModelFile, RunFolder, Trainer,
};
use polaris::runtime::Bytes;
use serde::Serialize;

pub use config_file::changed;

use self::config_file::ConfigFile;
use self::listener::Shown;
use crate::arguments::{Global, Train};
use crate::output::{self, print_line};
use crate::session::Session;
use crate::{exit, interrupt};

#[derive(Serialize)]
struct Trained {
    folder: PathBuf,
    model: PathBuf,
    report: PathBuf,
    device: String,
    parameters: usize,
    steps: u64,
    epochs: u64,
    seconds: f64,
    /// The most memory of the device that was in use at once.
    peak_bytes: u64,
    ended: &'static str,
    /// The checkpoint to go on from, if it was stopped.
    checkpoint: Option<PathBuf>,
    /// The best model on what it did not learn from.
    evaluation: Option<Evaluation>,
    /// The last model on that, which was not chosen by it.
    last: Option<Evaluation>,
}

pub fn run(mut global: Global, options: &Train) -> anyhow::Result<u8> {
    let json = global.json;
    let ConfigFile { mut config, name } = config_file::read(&options.config, &options.set)?;
    if global.device.is_empty() {
        global.device.push(config.train.device.parse()?);
    }
    let mut session = Session::new(global)?;
    let device = chosen_device(&mut session, &config.train.device)?;
    config.train.device = device.id().to_string();
    let out = options.out.clone().unwrap_or_else(|| Path::new("runs").join(name));
    // Asked before data are read, which may take long, and again once no other process can change the answer. A
    // folder is not made for a configuration that turns out to be wrong.
    may_begin(&out, options.resume)?;
    let (resumed, locked) = match options.resume {
        true => {
            let folder = RunFolder::open(&out).map_err(with_hint)?;
            (newest_checkpoint(&folder, &config)?, Some(folder))
        }
        false => (None, None),
    };
    let begin = std::time::Instant::now();
    let mut trainer = Trainer::from_config(&config, &device)?;
    trainer.set_cancellation(interrupt::token());
    let run_folder = locked.map_or_else(|| RunFolder::open(&out), Ok).map_err(with_hint)?;
    match &resumed {
        Some(path) => trainer.resume(path)?,
        None => may_begin(&out, false)?,
    }
    let text = config.to_toml()?;
    nn::tensors_file::write_atomically(&out.join("config.toml"), text.as_bytes())?;
    if !json {
        introduce(&trainer, &device, resumed.as_deref())?;
    }
    let mut shown = Shown::new(&trainer, json);
    let ending = trainer.run(&run_folder, &mut shown);
    shown.finish();
    let ending = ending.map_err(with_hint)?;
    if let Ending::Stopped(path) = &ending
        && !json
    {
        // Said at once: what follows takes a while.
        print_line(&format!("saved {}", path.display()))?;
        let shown = out.display();
        let hint = format!("polaris train '{shown}/config.toml' --out '{shown}' --resume");
        print_line(&format!("go on with: {hint}"))?;
    }
    let peak_bytes = device.allocator().memory_use().peak;
    let (model, page) = (out.join("model.safetensors"), out.join("report.html"));
    let evaluation = best(&trainer, &model, &device)?;
    let last = trainer.evaluate()?;
    report::write(&page, &out, &trainer, &text, evaluation.as_ref())?;
    let progress = trainer.progress();
    let trained = Trained {
        folder: out.clone(),
        model,
        report: page,
        device: device.id().to_string(),
        parameters: trainer.parameter_count(),
        steps: progress.step,
        epochs: progress.epoch,
        seconds: begin.elapsed().as_secs_f64(),
        peak_bytes,
        ended: match &ending {
            Ending::Finished => "finished",
            Ending::Stale => "no progress any more",
            Ending::Stopped(_) => "stopped",
        },
        checkpoint: match &ending {
            Ending::Stopped(path) => Some(path.clone()),
            _ => None,
        },
        evaluation,
        last,
    };
    match json {
        true => output::print_json("polaris.train/1", &trained)?,
        false => print(&trained)?,
    }
    Ok(if matches!(ending, Ending::Stopped(_)) { exit::INTERRUPTED } else { exit::OK })
}

/// Whether there is a checkpoint to go on from, if that is wanted, or nothing that would be lost otherwise.
fn may_begin(out: &Path, resume: bool) -> anyhow::Result<()> {
    let shown = out.display();
    if resume {
        if Checkpoint::list(&out.join("checkpoints")).is_empty() {
            bail!("{shown}: there is no checkpoint to go on from; leave --resume out to begin");
        }
        return Ok(());
    }
    match RunFolder::obstacle(out) {
        Some(path) => bail!(
            "{shown} has a training already ({}); go on with --resume, or give another folder with --out",
            path.display()
        ),
        None => Ok(()),
    }
}

/// The checkpoint to go on from, which must be of this training.
fn newest_checkpoint(folder: &RunFolder, config: &Config) -> anyhow::Result<Option<PathBuf>> {
    let newest = Checkpoint::newest(&folder.checkpoints()).with_context(|| {
        let folder = folder.path().display();
        format!("{folder}: no checkpoint can be read; name another folder with --out to begin anew")
    })?;
    let Some((path, before)) = newest else { return Ok(None) };
    before.check_config(config, &path).map_err(with_hint)?;
    Ok(Some(path))
}

/// An error with the option that helps, where one does.
fn with_hint(error: nn::Error) -> anyhow::Error {
    let hint = match &error {
        nn::Error::BatchTooLarge { fits: Some(batch), .. } => {
            format!(" (--set train.batch={batch})")
        }
        nn::Error::FolderInUse { .. } => " (--out)".to_owned(),
        nn::Error::OtherTraining { .. } => {
            ". Give another folder with --out to begin a new one".to_owned()
        }
        _ => return error.into(),
    };
    anyhow!("{error}{hint}")
}

/// The device of the command line, or that of the configuration.
pub fn chosen_device(session: &mut Session, configured: &str) -> anyhow::Result<DeviceRef> {
    let id = match session.chosen.first() {
        Some(&id) => id,
        None => session.runtime.select(&configured.parse()?)?.id(),
    };
    session.chosen = vec![id];
    session.check_new_devices()?;
    Ok(session.runtime.device(id)?.clone())
}

/// The best model, evaluated.
fn best(trainer: &Trainer, path: &Path, device: &DeviceRef) -> anyhow::Result<Option<Evaluation>> {
    let Some(validation) = trainer.validation_data().filter(|_| path.exists()) else {
        return Ok(None);
    };
    let (_, model) = ModelFile::load(path, device)?;
    Ok(Some(train::evaluate(&*model, validation, trainer.loss(), device, None)?))
}

fn introduce(trainer: &Trainer, device: &DeviceRef, resumed: Option<&Path>) -> anyhow::Result<()> {
    print_line(&format!(
        "{} parameters on {}; {} examples to learn from, {} to test with; {} steps",
        trainer.parameter_count(),
        device.id(),
        trainer.training_data().examples(),
        trainer.validation_data().map_or(0, |data| data.examples()),
        trainer.total_steps()
    ))?;
    match resumed {
        Some(path) => print_line(&format!("going on from {}", path.display())),
        None => Ok(()),
    }
}

fn print(trained: &Trained) -> anyhow::Result<()> {
    let Trained { steps, seconds, ended, model, report, .. } = trained;
    let peak = Bytes(trained.peak_bytes);
    print_line(&format!("{ended} after {steps} steps, {seconds:.1} s; at most {peak} at once"))?;
    if let Some(evaluation) = &trained.evaluation {
        print_line(&format!("best model: {}", in_words(evaluation)))?;
    }
    if let Some(evaluation) = &trained.last {
        print_line(&format!("last model: {}", in_words(evaluation)))?;
    }
    print_line(&format!("model {}\nreport {}", model.display(), report.display()))
}

/// An evaluation in a line.
pub fn in_words(evaluation: &Evaluation) -> String {
    let accuracy = evaluation
        .accuracy
        .map_or(String::new(), |accuracy| format!(", {:.2} % right", 100.0 * accuracy));
    format!("loss {:.4}{accuracy} on {} examples", evaluation.loss, evaluation.examples)
}
