//! The database on the command line: what is in it, and moving it between machines.

use std::path::Path;

use polaris::DType;
use polaris::ops::matmul::{self, Explanation};
use polaris_tune::choices::{Choice, Choices};
use polaris_tune::{Database, Outcome, Record};
use serde::Serialize;

use super::subject::{Work, subject};
use super::{device_key, tuning_folder};
use crate::arguments::{Global, Tune};
use crate::exit;
use crate::output::{self, Table, print_line, say};
use crate::session::Session;

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
    /// Where operations are counted.
    best_gflops: Option<f64>,
    /// Where bytes are.
    best_gbs: Option<f64>,
}

/// Measurements that were read from a file or written to one.
#[derive(Debug, Serialize)]
struct Moved<'a, C> {
    file: &'a Path,
    #[serde(flatten)]
    counts: C,
}

#[derive(Debug, Serialize)]
struct Exported {
    measurements: usize,
}

pub fn run(global: Global, options: &Tune) -> anyhow::Result<u8> {
    let json = global.json;
    // Files are read and written without a device; `--explain` asks one.
    let session = match options.explain {
        Some(_) => Session::new(global)?,
        None => Session::on_cpu(global)?,
    };
    let Some(folder) = tuning_folder(&session) else {
        anyhow::bail!("there is no home folder; name a folder in POLARIS_DATA_DIR");
    };
    let database = Database::open(&folder);
    if let Some(file) = &options.import {
        let imported = database.import(file)?;
        if json {
            output::print_json("polaris.tune.import/1", &Moved { file, counts: imported })?;
        } else {
            say!(
                "note: {} measurements were added, {} were there, {} lines were damaged, {} are of another version",
                imported.added,
                imported.already_there,
                imported.unreadable,
                imported.other_schema
            );
        }
        return Ok(exit::OK);
    }
    if let Some(file) = &options.export {
        let count = database.export(file)?;
        if json {
            let counts = Exported { measurements: count };
            output::print_json("polaris.tune.export/1", &Moved { file, counts })?;
        } else {
            say!("note: {count} measurements are in {}", file.display());
        }
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
        ">best",
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
            match (one.best_gflops, one.best_gbs) {
                (Some(best), _) => format!("{best:.1} GFLOPS"),
                (_, Some(best)) => format!("{best:.1} GB/s"),
                _ => "-".to_owned(),
            },
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
            best_gbs: None,
        });
    }
    let one = &mut listed[place];
    one.measurements += 1;
    one.failed += usize::from(matches!(record.outcome, Outcome::Failed { .. }));
    // Operations of another version are counted, but what they do is not known.
    if let (Some(seconds), Ok(subject)) = (record.outcome.seconds(), subject(&problem.operation)) {
        let work = subject.work(problem);
        let best = match work {
            Work::Operations(_) => &mut one.best_gflops,
            Work::Bytes(_) => &mut one.best_gbs,
        };
        *best = Some(best.unwrap_or(0.0).max(work.rate(seconds)));
    }
}

/// What is known of a product, and what will be taken for it.
fn explain(
    session: &Session,
    folder: &Path,
    records: &[Record],
    shape: [usize; 3],
    json: bool,
) -> anyhow::Result<u8> {
    #[derive(Serialize)]
    struct Explained {
        device: String,
        chip: String,
        measurements: usize,
        /// The tile that will be taken.
        kernel: Option<String>,
        choice: Option<Choice>,
        reason: String,
    }
    let mut explained = Vec::new();
    for device in session.devices()? {
        let Some(opencl) = device.as_opencl() else { continue };
        let chip = &device.info().chip.key;
        let wanted = shape.map(|size| size as u64);
        let of_chip =
            records.iter().filter(|r| r.device.chip == *chip && r.problem.shape == wanted);
        let found = matmul::explain(opencl, DType::F32, "nn", shape);
        let choices = Choices::load(&Choices::file(folder, chip)).choices;
        let choice = found.as_ref().and_then(|found| {
            let sizes = found.sizes.map(|size| size as u64);
            choices.into_iter().find(|choice| choice.problem.shape == sizes)
        });
        let aligned = shape.iter().all(|size| size.is_multiple_of(4));
        let default = matmul::default_tile(opencl, DType::F32, shape, aligned);
        let tile = found.as_ref().and_then(|found| found.tile).or(default);
        let driver = device_key(device.as_ref()).driver;
        explained.push(Explained {
            device: device.id().to_string(),
            chip: chip.clone(),
            measurements: of_chip.count(),
            kernel: tile.map(|tile| tile.name()),
            reason: reason(found.as_ref(), choice.as_ref(), shape, &driver),
            choice,
        });
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
        let kernel = one.kernel.as_deref().unwrap_or("no tile");
        print_line(&format!(
            "{} ({}): {kernel}: {}; {} measurements of this shape",
            one.device, one.chip, one.reason, one.measurements
        ))?;
        if let Some(config) = one.choice.and_then(|choice| choice.config) {
            for (name, value) in config {
                print_line(&format!("    {name} = {value}"))?;
            }
        }
    }
    Ok(exit::OK)
}

/// Why it is taken, in words.
fn reason(
    found: Option<&Explanation>,
    choice: Option<&Choice>,
    shape: [usize; 3],
    driver: &str,
) -> String {
    let Some(found) = found else {
        return "no shape like this was tuned, so the cost model chooses".to_owned();
    };
    let how = if found.predicted { "predicted" } else { "measured" };
    let place = match found.shipped_for {
        Some(chip) => format!("in the choices for {chip} that come with Polaris"),
        None => "on this machine".to_owned(),
    };
    let mut text = format!("{how} {place}");
    if found.sizes != shape {
        let [m, n, k] = found.sizes;
        text += &format!(" at {m}x{n}x{k}, the nearest shape");
    }
    match choice {
        Some(choice) if found.tile.is_some() => {
            let times = choice.default_seconds / choice.seconds;
            text += &format!(", {times:.2} times as fast as the default");
        }
        _ if found.tile.is_none() => text += ", nothing was faster than the default",
        _ => {}
    }
    if choice.is_some_and(|choice| choice.driver != driver && found.shipped_for.is_none()) {
        text += "; that was with another driver, so it may be worth tuning again";
    }
    text
}
