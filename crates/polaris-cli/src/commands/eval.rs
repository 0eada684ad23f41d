//! `polaris eval`: evaluates a trained model.

use std::path::{Path, PathBuf};

use anyhow::bail;
use polaris::nn::train::{self, ConfigTable, Evaluation, ModelFile, TaskLoss, load_data};
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
    let evaluation = train::evaluate(&*model, &loader, &TaskLoss::new(data.task), &device, None)?;
    let evaluated = Evaluated {
        model: path,
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
