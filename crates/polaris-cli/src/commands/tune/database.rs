//! `polaris tune --list`, `--explain`, `--export` and `--import`.

use std::path::Path;

use polaris_tune::Database;
use polaris_tuner::{Explained, Listing, explain, list, tuning_folder};
use serde::Serialize;

use crate::arguments::{Global, Tune};
use crate::exit;
use crate::output::{self, Table, print_line, say};
use crate::session::Session;

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
    let Some(folder) = tuning_folder(&session.runtime) else {
        anyhow::bail!(
            "there is no data folder, since the home folder is unknown; set POLARIS_DATA_DIR"
        );
    };
    if let Some(file) = &options.import {
        import(&folder, file, json)?;
    } else if let Some(file) = &options.export {
        export(&folder, file, json)?;
    } else if let Some(dims) = options.explain {
        let shape = [dims.m, dims.n, dims.k];
        print_explained(explain(&session.runtime, &session.chosen, shape)?, json)?;
    } else {
        print_list(list(&folder)?, json)?;
    }
    Ok(exit::OK)
}

fn import(folder: &Path, file: &Path, json: bool) -> anyhow::Result<()> {
    let imported = Database::open(folder).import(file)?;
    if json {
        return output::print_json("polaris.tune.import/1", &Moved { file, counts: imported });
    }
    say!(
        "note: added {} measurements; {} were already there, {} lines are damaged, {} are of another version",
        imported.added,
        imported.already_there,
        imported.unreadable,
        imported.other_schema
    );
    Ok(())
}

fn export(folder: &Path, file: &Path, json: bool) -> anyhow::Result<()> {
    let measurements = Database::open(folder).export(file)?;
    if json {
        let counts = Exported { measurements };
        return output::print_json("polaris.tune.export/1", &Moved { file, counts });
    }
    say!("note: wrote {measurements} measurements to {}", file.display());
    Ok(())
}

fn print_list(listing: Listing, json: bool) -> anyhow::Result<()> {
    if json {
        return output::print_json("polaris.tune.list/1", &listing);
    }
    if listing.problems.is_empty() {
        return print_line("nothing is tuned yet; start with `polaris tune gemm --budget 60s`");
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
    for one in listing.problems {
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
    table.print()
}

/// Prints which configuration a matmul uses, and why.
fn print_explained(explained: Vec<Explained>, json: bool) -> anyhow::Result<()> {
    if json {
        #[derive(Serialize)]
        struct All {
            explained: Vec<Explained>,
        }
        return output::print_json("polaris.tune.explain/1", &All { explained });
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
    Ok(())
}
