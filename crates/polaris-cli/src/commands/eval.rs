//! `polaris eval`: evaluates a trained model.

use std::path::{Path, PathBuf};

use anyhow::bail;
use polaris::DeviceRef;
use polaris::graph::{Mode, Options, RunOptions, Session as Engine, SessionValue};
use polaris::nn::train::{self, ConfigTable, Evaluation, ModelFile, TaskLoss, load_data};
use polaris::nn::{Layer, Module, Parts, Pass};
use polaris::tensor::Tensor;
use serde::Serialize;

use super::train::{changed, chosen_device, in_words};
use crate::arguments::{Eval, Global};
use crate::exit;
use crate::output::{self, Table, print_line};
use crate::session::Session;

#[derive(Serialize)]
struct Evaluated<'a> {
    model: PathBuf,
    device: String,
    classes: &'a [String],
    #[serde(flatten)]
    evaluation: Evaluation,
}

pub fn run(global: Global, options: &Eval) -> anyhow::Result<u8> {
    let json = global.json;
    let path = model_path(&options.model)?;
    let mut session = Session::on_cpu(global)?;
    let device = chosen_device(&mut session, "cpu")?;
    let (about, model) = ModelFile::load(&path, &device)?;
    let config = changed(&ConfigTable::of(&about.config)?, &options.set)?;
    let data = load_data(&config, Some(&about))?;
    let loader = if options.all { Some(data.all()?) } else { data.validation };
    let Some(loader) = loader else {
        bail!("the data has no validation examples; try --all or --set data.validation=0.2");
    };
    let exported = options.exported.as_deref().map(|path| Exported::open(&session, path, &device));
    let exported = exported.transpose()?;
    let module: &dyn Module = exported.as_ref().map_or(&*model, |exported| exported);
    let evaluation = train::evaluate(module, &loader, &TaskLoss::new(data.task), &device, None)?;
    let evaluated = Evaluated {
        model: options.exported.clone().unwrap_or(path),
        device: device.id().to_string(),
        classes: &about.classes,
        evaluation,
    };
    match json {
        true => output::print_json("polaris.eval/1", &evaluated)?,
        false => print(&evaluated)?,
    }
    Ok(exit::OK)
}

/// A file that was exported from a model, in the model's place.
struct Exported {
    session: Engine,
    input: String,
}

impl Exported {
    fn open(session: &Session, path: &Path, device: &DeviceRef) -> anyhow::Result<Self> {
        let mode = if device.as_opencl().is_some() { Mode::Gpu } else { Mode::Cpu };
        let cancellation = Some(crate::interrupt::token());
        let device = Some(device.clone());
        let options = Options { mode, device, cancellation, ..Options::default() };
        let engine = Engine::open(&session.runtime, path, &options)?;
        let input = match engine.inputs()[..] {
            [(name, _)] => name.to_owned(),
            ref inputs => bail!(
                "{}: it has {} inputs, and what `polaris export` writes has one",
                path.display(),
                inputs.len()
            ),
        };
        Ok(Self { session: engine, input })
    }
}

impl Layer for Exported {
    fn visit(&self, _parts: &mut Parts) {}
}

impl Module for Exported {
    fn forward(&self, x: &Tensor, _pass: &Pass<'_>) -> polaris::nn::Result<Tensor> {
        let given = [(self.input.as_str(), SessionValue::from(x.array().clone()))];
        let found = self.session.run_on_device(&given, &RunOptions::default());
        let found = found.map_err(polaris::nn::Error::other)?.into_iter().next();
        let missing = || polaris::nn::Error::other("the exported model has no output");
        Ok(Tensor::new(found.ok_or_else(missing)?.1))
    }
}

/// The model file: the path itself, or the one in the folder of a training run.
pub fn model_path(path: &Path) -> anyhow::Result<PathBuf> {
    let path = if path.is_dir() { path.join("model.safetensors") } else { path.to_owned() };
    if !path.exists() {
        bail!(
            "{}: there is no model; name a file or folder that `polaris train` wrote",
            path.display()
        );
    }
    Ok(path)
}

fn print(evaluated: &Evaluated<'_>) -> anyhow::Result<()> {
    print_line(&in_words(&evaluated.evaluation))?;
    if evaluated.evaluation.confusion.len() < evaluated.classes.len() {
        return Ok(());
    }
    let mut table = Table::new(&["class", ">examples", ">recall", ">precision"]);
    let confusion = &evaluated.evaluation.confusion;
    for (class, name) in evaluated.classes.iter().enumerate() {
        let examples: u64 = confusion[class].iter().sum();
        let taken: u64 = confusion.iter().map(|row| row[class]).sum();
        let right = confusion[class][class];
        let share = |of: u64| match of {
            0 => "-".to_owned(),
            of => format!("{:.1} %", 100.0 * right as f64 / of as f64),
        };
        table.row(vec![name.clone(), examples.to_string(), share(examples), share(taken)]);
    }
    table.print()
}
