//! The command line, and a run from its settings to its report.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;

use crate::families::{ALL, Family};
use crate::fixtures::Fixtures;
use crate::pool;
use crate::process::Patience;
use crate::reference::Reference;
use crate::report::Report;
use crate::trial::Settings;

/// The user that has no files: the binary runs as this one where the harness is root.
const NOBODY: u32 = 65534;

/// Attack the polaris binary with hostile inputs, limits and signals, and report whatever is not a documented outcome
#[derive(Debug, Parser)]
#[command(
    name = "polaris-trials",
    after_help = "Families: bytes, fields, graphs, training, kills, special, limits, embed, gguf, templates.
Exit codes: 0 no fault, 1 faults, 2 wrong usage, 3 the trials could not be made."
)]
struct Arguments {
    /// The binary under trial
    #[arg(long, value_name = "PATH")]
    binary: PathBuf,

    /// Decides what each trial does
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Trials of all families together
    #[arg(long, value_name = "N", default_value_t = 400)]
    runs: u64,

    /// Only this family; may be repeated
    #[arg(long, value_name = "NAME")]
    family: Vec<String>,

    /// Only this trial of the family
    #[arg(long, value_name = "I", requires = "family")]
    index: Option<u64>,

    /// Trials at the same time [default: the processors there are]
    #[arg(long, value_name = "J")]
    jobs: Option<usize>,

    /// Keep failing trials there: inputs, and a script with the commands
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// A Python with onnxruntime and onnx: random graphs are compared with them
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,

    /// Also run some random graphs on an OpenCL device
    #[arg(long)]
    gpu: bool,

    /// Seconds after which a process counts as hung
    #[arg(long, value_name = "S", default_value_t = 20)]
    hang: u64,

    /// Print JSON on stdout instead of text
    #[arg(long)]
    json: bool,
}

pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => error.exit(),
    };
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(3)
        }
    }
}

/// Whether no fault was found.
fn run(arguments: &Arguments) -> Result<bool> {
    let families = chosen(&arguments.family)?;
    let folder = tempfile::Builder::new().prefix("polaris-trials-").tempdir()?;
    // Others must be able to pass through it, but not to list it.
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o711))?;
    let binary = folder.path().join("polaris");
    let given = &arguments.binary;
    std::fs::copy(given, &binary).with_context(|| format!("--binary {}", given.display()))?;
    std::fs::set_permissions(&binary, PermissionsExt::from_mode(0o755))?;
    let uid = is_root(folder.path())?.then_some(NOBODY);
    let kill = Duration::from_secs(arguments.hang.max(2));
    let settings = Settings {
        binary,
        seed: arguments.seed,
        uid,
        patience: Patience { ask: kill / 4, kill },
        gpu: arguments.gpu,
        work: folder.path().to_owned(),
        reference: arguments.python.as_deref().map(Reference::start).transpose()?,
        fixtures: Fixtures::default(),
        stop: stop_flag()?,
    };
    let trials = match (arguments.index, families.as_slice()) {
        (Some(index), &[family]) => vec![(family, index)],
        (Some(_), _) => bail!("--index needs one --family"),
        (None, families) => pool::schedule(families, arguments.runs),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = arguments.jobs.unwrap_or(cores);
    let report = Mutex::new(Report::new(given, arguments.seed, arguments.keep.clone()));
    pool::run(&settings, &trials, jobs, &report)?;
    let report = report.into_inner().expect("no thread should panic");
    println!("{}", if arguments.json { report.json()? } else { report.text() });
    Ok(report.is_clean())
}

/// Is set by Ctrl-C and SIGTERM, so that the folder is removed; the second one ends the harness at once.
fn stop_flag() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

fn chosen(names: &[String]) -> Result<Vec<&'static Family>> {
    if names.is_empty() {
        return Ok(ALL.iter().collect());
    }
    let find = |name: &String| {
        let known = || ALL.iter().map(|family| family.name).collect::<Vec<_>>().join(", ");
        ALL.iter()
            .find(|family| family.name == name)
            .with_context(|| format!("there is no family `{name}`; there are {}", known()))
    };
    names.iter().map(find).collect()
}

/// A folder that was just made belongs to the user who made it.
fn is_root(own: &Path) -> Result<bool> {
    Ok(std::fs::metadata(own)?.uid() == 0)
}
