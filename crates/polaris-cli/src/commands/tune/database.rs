//! The database on the command line: what is in it, and moving it between machines.

use polaris_tune::{Database, Outcome, Record};
use serde::Serialize;

use super::tuning_folder;
use crate::arguments::{Global, Tune};
use crate::exit;
use crate::output::{self, Table, print_line};
use crate::session::Session;
use polaris_tune::choices::Choices;

#[derive(Debug, Serialize)]
struct Listed {
    chip: String,
    driver: String,
    operation: String,
    dtype: String,
    layout: String,
    shape: Vec<u64>,
    measurements: usize,
    failed: usize,
    best_gflops: Option<f64>,
}

pub fn run(global: Global, options: &Tune) -> anyhow::Result<u8> {
    let json = global.json;
    let session = Session::new(global)?;
    let Some(folder) = tuning_folder(&session) else {
        anyhow::bail!("there is no home folder; name a folder in POLARIS_DATA_DIR");
    };
    let database = Database::open(&folder);
    if let Some(file) = &options.import {
        let imported = database.import(file)?;
        eprintln!(
            "note: {} measurements were added, {} were there, {} lines were damaged, {} are of another version",
            imported.added, imported.already_there, imported.unreadable, imported.other_schema
        );
        return Ok(exit::OK);
    }
    if let Some(file) = &options.export {
        let count = database.export(file)?;
        eprintln!("note: {count} measurements are in {}", file.display());
        return Ok(exit::OK);
    }
    let loaded = database.load_all()?;
    if let Some(dims) = options.explain {
        return explain(&session, &folder, &loaded.records, [dims.m, dims.n, dims.k], json);
    }
    let mut listed: Vec<Listed> = Vec::new();
    for record in &loaded.records {
        add(&mut listed, record);
    }
    if json {
        #[derive(Serialize)]
        struct List {
            folder: String,
            problems: Vec<Listed>,
            unreadable: usize,
            other_schema: usize,
        }
        let (unreadable, other_schema) = (loaded.unreadable, loaded.other_schema);
        let folder = folder.display().to_string();
        output::print_json(
            "polaris.tune.list/1",
            &List { folder, problems: listed, unreadable, other_schema },
        )?;
        return Ok(exit::OK);
    }
    if listed.is_empty() {
        print_line("nothing was tuned yet; `polaris tune gemm --budget 60s` begins")?;
        return Ok(exit::OK);
    }
    let mut table = Table::new(&[
        "chip",
        "operation",
        "type",
        "layout",
        "shape",
        ">measurements",
        ">failed",
        ">best GFLOPS",
    ]);
    for one in listed {
        let shape: Vec<String> = one.shape.iter().map(u64::to_string).collect();
        table.row(vec![
            one.chip,
            one.operation,
            one.dtype,
            one.layout,
            shape.join("x"),
            one.measurements.to_string(),
            one.failed.to_string(),
            one.best_gflops.map_or("-".to_owned(), |best| format!("{best:.1}")),
        ]);
    }
    table.print()?;
    Ok(exit::OK)
}

fn add(listed: &mut Vec<Listed>, record: &Record) {
    let (device, problem) = (&record.device, &record.problem);
    let same = |one: &Listed| {
        one.chip == device.chip
            && one.driver == device.driver
            && one.operation == problem.operation
            && one.dtype == problem.dtype
            && one.layout == problem.layout
            && one.shape == problem.shape
    };
    let place = listed.iter().position(same).unwrap_or(listed.len());
    if place == listed.len() {
        listed.push(Listed {
            chip: device.chip.clone(),
            driver: device.driver.clone(),
            operation: problem.operation.clone(),
            dtype: problem.dtype.clone(),
            layout: problem.layout.clone(),
            shape: problem.shape.clone(),
            measurements: 0,
            failed: 0,
            best_gflops: None,
        });
    }
    let one = &mut listed[place];
    one.measurements += 1;
    one.failed += usize::from(matches!(record.outcome, Outcome::Failed { .. }));
    if let Some(seconds) = record.outcome.seconds() {
        let sizes = problem.shape.iter().map(|&size| size as f64);
        let gflops = 2.0 * sizes.product::<f64>() / seconds / 1e9;
        one.best_gflops = Some(one.best_gflops.map_or(gflops, |best| best.max(gflops)));
    }
}

/// What is known of a shape, and what will be taken for it.
fn explain(
    session: &Session,
    folder: &std::path::Path,
    records: &[Record],
    shape: [usize; 3],
    json: bool,
) -> anyhow::Result<u8> {
    #[derive(Serialize)]
    struct Explained {
        device: String,
        chip: String,
        measurements: usize,
        choice: Option<polaris_tune::choices::Choice>,
        reason: String,
    }
    let mut explained = Vec::new();
    for device in session.devices()?.iter().filter(|device| device.as_opencl().is_some()) {
        let chip = &device.info().chip.key;
        let wanted = shape.map(|size| size as u64);
        let of_chip =
            records.iter().filter(|r| r.device.chip == *chip && r.problem.shape == wanted);
        let choices = Choices::load(&Choices::file(folder, chip)).choices;
        let choice = choices.into_iter().find(|choice| choice.problem.shape == wanted);
        let reason = match &choice {
            Some(choice) if choice.config.is_some() => format!(
                "measured: {:.2} times as fast as the default",
                choice.default_seconds / choice.seconds
            ),
            Some(_) => "measured: nothing was faster than the default".to_owned(),
            None => "this shape was not tuned; a near one is taken where there is one, else the \
                     cost model's choice"
                .to_owned(),
        };
        let (device, measurements) = (device.id().to_string(), of_chip.count());
        explained.push(Explained { device, chip: chip.clone(), measurements, choice, reason });
    }
    if json {
        #[derive(Serialize)]
        struct All {
            explained: Vec<Explained>,
        }
        output::print_json("polaris.tune.explain/1", &All { explained })?;
        return Ok(exit::OK);
    }
    for one in explained {
        print_line(&format!(
            "{} ({}): {} measurements; {}",
            one.device, one.chip, one.measurements, one.reason
        ))?;
        if let Some(config) = one.choice.and_then(|choice| choice.config) {
            for (name, value) in config {
                print_line(&format!("    {name} = {value}"))?;
            }
        }
    }
    Ok(exit::OK)
}
