//! The arguments of commands that run imported models.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::llm::CacheTypeName;

/// A model and where it runs.
#[derive(Debug, Args)]
pub struct ModelChoice {
    /// The ONNX file
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// Run on the CPU, on an OpenCL device, on both, or on a GPU if there is one
    ///
    /// `--device` chooses the device; a mode that cannot run there is an error. docs/onnx.md describes the modes.
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub mode: ModeName,

    /// Set a symbolic dimension of the model, as in batch=4; may be repeated [default: 1 for each]
    #[arg(long, value_name = "NAME=N")]
    pub dim: Vec<Named<usize>>,

    #[command(flatten)]
    pub passes: PassChoice,
}

impl ModelChoice {
    /// The dimensions that were given, by name.
    pub fn lengths(&self) -> Vec<(String, usize)> {
        self.dim.iter().map(|given| (given.name.clone(), given.value)).collect()
    }
}

/// How a graph is prepared.
#[derive(Debug, Default, Args)]
pub struct PassChoice {
    /// Skip this graph pass, or `all` of them; may be repeated. docs/onnx.md lists them
    #[arg(long, value_name = "NAME")]
    pub no_pass: Vec<String>,

    /// How activations are multiplied with weights of 4 and 8 bits that stay packed
    #[arg(long, value_name = "HOW", default_value = "full")]
    pub precision: PrecisionName,
}

/// How activations are multiplied with packed weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum PrecisionName {
    /// As they are
    #[default]
    Full,
    /// Rounded to 8 bits, in groups of 32 with a scale each; on CPUs that is faster
    Int8,
}

/// Where a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModeName {
    /// On the CPU
    Cpu,
    /// On an OpenCL device, as far as it supports the operators
    Gpu,
    /// On both: each node where measured times predict the shortest run
    Hybrid,
    /// On a GPU if there is one, otherwise on the CPU
    Auto,
}

/// Options of `run`.
#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub choice: ModelChoice,

    /// Read an input from an NPY file, as in tokens=ids.npy; may be repeated
    #[arg(long, value_name = "NAME=FILE.npy")]
    pub input: Vec<Named<PathBuf>>,

    /// Use an image (PNG, JPEG, BMP, TIFF, WebP or PNM) as the input `[N, 3, H, W]`
    ///
    /// Scales the shorter side to 256/224 of the input's, crops the centre and normalises colours as ImageNet models
    /// expect.
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,

    /// Read class names from this file, one per line, and print the five most probable classes
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,

    /// Fill all other inputs with random values
    #[arg(long)]
    pub random_inputs: bool,

    /// Seed the random inputs
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,

    /// Run this many times, and print the time of the first run and the median of the others
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,

    /// Write each output to this folder as NAME.npy
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,

    /// Profile each instruction, print the longest, and write a trace of one run to this file
    ///
    /// Profiles 5 runs, or as many as `--repeat` says, after the ordinary ones. The trace-event format has a track for
    /// each device; chrome://tracing and ui.perfetto.dev show it. `--json` lists all instructions. Polaris waits for the
    /// device after each instruction, so short instructions take longer than in an ordinary run. A device without a
    /// stored measurement is measured first.
    #[arg(long, value_name = "FILE.json")]
    pub profile: Option<PathBuf>,
}

/// Options of `bench model`.
#[derive(Debug, Args)]
pub struct BenchModel {
    #[command(flatten)]
    pub choice: ModelChoice,

    /// Measure this many runs, after the first one and two warm-up runs
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,

    /// Seed the random inputs
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,

    /// Profile each instruction afterwards, and write a trace of one run to this file
    #[arg(long, value_name = "FILE.json")]
    pub profile: Option<PathBuf>,
}

/// Options of `info`.
#[derive(Debug, Args)]
pub struct Info {
    #[command(flatten)]
    pub choice: ModelChoice,

    /// Count the memory of this many tokens of context, for language models [default: the model's context, at most 4096]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub context: Option<u32>,

    /// Count cached keys and values in this type, for language models
    #[arg(long, value_name = "TYPE", default_value = "f16")]
    pub cache_type: CacheTypeName,
}

/// Options of `plan`.
#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    pub choice: ModelChoice,

    /// Write the plan and a picture of the arena as self-contained HTML
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
}

/// Options of `onnx-test`.
#[derive(Debug, Args)]
pub struct OnnxTest {
    /// Folders with tests, or with folders of tests
    #[arg(value_name = "DIR", required = true)]
    pub folders: Vec<PathBuf>,

    /// Run on the CPU, on an OpenCL device, on both, or on a GPU if there is one
    #[arg(long, value_name = "MODE", default_value = "cpu")]
    pub mode: ModeName,

    /// Run only tests whose name contains this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub only: String,

    #[command(flatten)]
    pub passes: PassChoice,
}

/// A `NAME=VALUE` pair.
#[derive(Debug, Clone)]
pub struct Named<T> {
    pub name: String,
    pub value: T,
}

impl<T: FromStr> FromStr for Named<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
        if name.is_empty() {
            return Err("the name before `=` is missing".to_owned());
        }
        let value =
            value.parse().map_err(|_| format!("`{value}` is not a valid value after `{name}=`"))?;
        Ok(Self { name: name.to_owned(), value })
    }
}
