//! The arguments of running models of others.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

/// A model and where it runs.
#[derive(Debug, Args)]
pub struct ModelChoice {
    /// An ONNX file
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// Where to run: on the CPU, on an OpenCL device, on both, or on a GPU if there is one
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub mode: ModeName,

    /// A length that the model leaves open, as in batch=4; may be repeated. Others are 1
    #[arg(long, value_name = "NAME=N")]
    pub dim: Vec<Named<usize>>,

    #[command(flatten)]
    pub passes: PassChoice,
}

impl ModelChoice {
    /// The lengths that were given, by name.
    pub fn lengths(&self) -> Vec<(String, usize)> {
        self.dim.iter().map(|given| (given.name.clone(), given.value)).collect()
    }
}

/// What is not rewritten.
#[derive(Debug, Args)]
pub struct PassChoice {
    /// A graph pass that shall not run, or `all`; may be repeated. docs/onnx.md lists them
    #[arg(long, value_name = "NAME")]
    pub no_pass: Vec<String>,
}

/// Where a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModeName {
    /// On the CPU
    Cpu,
    /// On an OpenCL device, as far as it has the operations
    Gpu,
    /// On both: each part where measured times say that all is done soonest
    Hybrid,
    /// On a GPU if there is one, otherwise on the CPU
    Auto,
}

/// Options of `run`.
#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub choice: ModelChoice,

    /// An input from an NPY file, as in tokens=ids.npy; may be repeated
    #[arg(long, value_name = "NAME=FILE.npy")]
    pub input: Vec<Named<PathBuf>>,

    /// A PNG or JPEG as the model's image: scaled, cropped and normalised as ImageNet's models expect
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,

    /// Names of classes, one a line: the likeliest are printed
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,

    /// Inputs that are not given are random numbers
    #[arg(long)]
    pub random_inputs: bool,

    /// Decides the random numbers
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,

    /// Run it so many times, and say how long a run takes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,

    /// Write each output there as NAME.npy
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,

    /// Take the time of each instruction, print where it goes, and write a trace of a run there
    #[arg(long, value_name = "FILE.json")]
    pub profile: Option<PathBuf>,
}

/// Options of `bench model`.
#[derive(Debug, Args)]
pub struct BenchModel {
    #[command(flatten)]
    pub choice: ModelChoice,

    /// Runs that are measured, after the first one and two to warm up
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,

    /// Decides the random inputs
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,

    /// Take the time of each instruction afterwards, and write a trace of a run there
    #[arg(long, value_name = "FILE.json")]
    pub profile: Option<PathBuf>,
}

/// Options of `info`.
#[derive(Debug, Args)]
pub struct Info {
    #[command(flatten)]
    pub choice: ModelChoice,
}

/// Options of `plan`.
#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    pub choice: ModelChoice,

    /// Write a page that draws it
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
}

/// Options of `onnx-test`.
#[derive(Debug, Args)]
pub struct OnnxTest {
    /// Folders of tests, or of folders of tests
    #[arg(value_name = "DIR", required = true)]
    pub folders: Vec<PathBuf>,

    /// Where to run
    #[arg(long, value_name = "MODE", default_value = "cpu")]
    pub mode: ModeName,

    /// Only tests whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub only: String,

    #[command(flatten)]
    pub passes: PassChoice,
}

/// A name and what belongs to it.
#[derive(Debug, Clone)]
pub struct Named<T> {
    pub name: String,
    pub value: T,
}

impl<T: FromStr> FromStr for Named<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
        if name.is_empty() {
            return Err("the name before `=` is missing".to_owned());
        }
        let value = value.parse().map_err(|_| format!("`{value}` is not what belongs there"))?;
        Ok(Self { name: name.to_owned(), value })
    }
}
