//! The arguments of `polaris tune`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use polaris::DType;
use polaris_bench::gemm::cases::parse_dimension;
use polaris_bench::gemm::{Dims, Numbers, Transpose};
use polaris_tune::ProblemKey;
use polaris_tuner::Budget;
use polaris_tuner::problems::{self, MatrixLayout};

use super::bench::{numbers, transposes};
use super::parse_seconds;

/// Options of `tune`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Tune {
    #[command(subcommand)]
    pub what: Option<TuneWhat>,

    /// List every tuned shape with its number of measurements and the best; the default
    #[arg(long)]
    pub list: bool,

    /// Explain which configuration a matmul uses, and why
    #[arg(long, value_name = "M,N,K", value_parser = parse_explained)]
    pub explain: Option<Dims>,

    /// Write all measurements to this file, replacing it
    #[arg(long, value_name = "FILE.jsonl")]
    pub export: Option<PathBuf>,

    /// Add the measurements of this file, without duplicates
    #[arg(long, value_name = "FILE.jsonl")]
    pub import: Option<PathBuf>,

    /// Answer requests from stdin: the process that takes a driver's crashes
    #[arg(long, hide = true)]
    pub worker: bool,
}

/// The operations that can be tuned.
#[derive(Debug, Subcommand)]
pub enum TuneWhat {
    /// Tune matmul
    ///
    /// Once there are 200 measurements, a predictor is trained on them, and again whenever they have grown by a tenth. Its
    /// choices serve the shapes between the measured ones.
    #[command(after_help = "Examples:
  polaris tune gemm --budget 60s
  polaris tune gemm --device gpu --shapes 512x512x512,128x768x3072 --budget 200evals
  polaris tune gemm --around 1280 --strategy annealing --seed 7 --json
  polaris tune gemm --sizes 1024 --report tuned.html
  polaris tune gemm --target gfx803 --sizes 1024,4096")]
    Gemm(TuneGemm),

    /// Tune products of up to eight vectors with a matrix
    #[command(after_help = "Examples:
  polaris tune gemv --budget 60s
  polaris tune gemv --shapes 1x4096x4096,8x4096x11008 --layout dots --json")]
    Gemv(TuneGemv),

    /// Tune reductions (sum, mean, min, max) of dense rows
    #[command(after_help = "Examples:
  polaris tune reduce --budget 60s
  polaris tune reduce --shapes 1x16777216,4096x4096 --device gpu")]
    Reduce(TuneReduce),

    /// Tune transpositions
    #[command(after_help = "Examples:
  polaris tune permute --budget 60s
  polaris tune permute --shapes 1x4096x4096,64x128x768 --device gpu")]
    Permute(TunePermute),

    /// Evaluate search strategies and predictors on stored measurements
    ///
    /// Measures nothing. It replays the strategies on shapes of which every configuration was measured (`--strategy
    /// exhaustive`), and cross-validates the predictor on held-out shapes.
    #[command(after_help = "Examples:
  polaris tune gemm --sizes 256,512 --strategy exhaustive --budget 1h
  polaris tune study --seeds 10 --json")]
    Study(TuneStudy),
}

/// How to search.
#[derive(Debug, Args)]
pub struct TuneSearch {
    /// Search with this strategy: bayesian, annealing, genetic, random, exhaustive, or guided (by the predictor)
    #[arg(long, value_name = "NAME", default_value = "bayesian")]
    pub strategy: String,

    /// Search this long: a time for all shapes together (60s, 5m, 1h), or evaluations for each shape (200evals)
    #[arg(long, value_name = "BUDGET", default_value = "60s")]
    pub budget: Budget,

    /// Time each configuration this many times, at different moments, and keep the fastest
    ///
    /// More than once is for busy machines, and for recordings that serve as a reference.
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_count)]
    pub passes: usize,

    /// Seed the search; the same seed and measurements repeat it
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// Allow this many seconds for a build and a first run before it counts as hung
    #[arg(long, value_name = "S", default_value = "60", value_parser = parse_seconds)]
    pub patience: f64,

    /// Build in this many processes at the same time; only one at a time is measured
    #[arg(long, value_name = "N", default_value = "2", value_parser = parse_count)]
    pub workers: usize,

    /// Write the course of the search, the importance of the parameters and the predictions as self-contained HTML
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

/// Options of `tune gemm`.
#[derive(Debug, Args)]
pub struct TuneGemm {
    /// Tune matmuls of these shapes [default: squares of 256, 512 and 1024]
    #[arg(long, value_name = "MxNxK,...", value_delimiter = ',')]
    pub shapes: Vec<Dims>,

    /// Tune square matmuls of these sizes
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = parse_dimension)]
    pub sizes: Vec<usize>,

    /// Tune square matmuls of this size, and of sizes a fortieth smaller and larger
    #[arg(long, value_name = "N", value_parser = parse_dimension)]
    pub around: Option<usize>,

    /// Use operands of this type
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = numbers())]
    pub dtype: Numbers,

    /// Store A and B as they are (n) or transposed (t)
    #[arg(long, value_name = "AB", default_value = "nn", value_parser = transposes())]
    pub transpose: Transpose,

    /// Predict for a card that is not installed, from its machine code: gfx803
    ///
    /// Nothing runs: clang compiles the candidates, and docs/gcn-model.md describes the model that predicts their times.
    #[arg(long, value_name = "CHIP", conflicts_with_all = ["report", "passes"])]
    pub target: Option<String>,

    /// Write the predictions for the target to this file of decisions
    #[arg(long, value_name = "FILE.json", requires = "target")]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    pub search: TuneSearch,
}

/// Options of `tune gemv`.
#[derive(Debug, Args)]
pub struct TuneGemv {
    /// Tune these shapes: vectors, lines of the matrix, and their length
    #[arg(
        long,
        value_name = "VxLxK,...",
        value_delimiter = ',',
        default_value = "1x1024x1024,1x4096x4096"
    )]
    pub shapes: Vec<Dims>,

    /// Store the matrix along k (dots) or along its results (columns)
    #[arg(long, value_name = "LAYOUT", default_value = "dots")]
    pub layout: LayoutName,

    /// Use operands of this type
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = numbers())]
    pub dtype: Numbers,

    #[command(flatten)]
    pub search: TuneSearch,
}

/// Options of `tune reduce`.
#[derive(Debug, Args)]
pub struct TuneReduce {
    /// Tune these shapes: rows, and the elements of each
    #[arg(long, value_name = "RxN,...", value_delimiter = ',', default_value = "1x4194304,1024x4096", value_parser = parse_pair)]
    pub shapes: Vec<[usize; 2]>,

    /// Use elements of this type: f32, f16, bf16 or f64
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = parse_float)]
    pub dtype: DType,

    #[command(flatten)]
    pub search: TuneSearch,
}

/// Options of `tune permute`.
#[derive(Debug, Args)]
pub struct TunePermute {
    /// Tune these shapes: matrices, and the rows and columns of each as it is stored
    #[arg(
        long,
        value_name = "BxRxC,...",
        value_delimiter = ',',
        default_value = "1x2048x2048,64x128x768"
    )]
    pub shapes: Vec<Dims>,

    /// Use elements of this type: f32, f16, bf16 or f64
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = parse_float)]
    pub dtype: DType,

    #[command(flatten)]
    pub search: TuneSearch,
}

/// Options of `tune study`.
#[derive(Debug, Args)]
pub struct TuneStudy {
    /// Replay each strategy with this many seeds
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,

    /// Split the shapes into this many parts for cross-validation
    #[arg(long, value_name = "N", default_value = "5", value_parser = parse_count)]
    pub folds: usize,
}

/// The memory layout of the matrix of `tune gemv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LayoutName {
    Dots,
    Columns,
}

impl TuneGemm {
    /// All matmuls, without duplicates.
    pub fn problems(&self) -> Vec<ProblemKey> {
        let around = self.around.into_iter().flat_map(problems::around);
        let sizes = self.sizes.iter().copied().chain(around).map(Dims::square);
        let mut shapes: Vec<Dims> = self.shapes.iter().copied().chain(sizes).collect();
        if shapes.is_empty() {
            shapes.extend([256, 512, 1024].map(Dims::square));
        }
        problems::products(&shapes, self.dtype, self.transpose)
    }
}

impl TuneGemv {
    pub fn problems(&self) -> Vec<ProblemKey> {
        let layout = match self.layout {
            LayoutName::Dots => MatrixLayout::Dots,
            LayoutName::Columns => MatrixLayout::Columns,
        };
        problems::vector_products(&self.shapes, self.dtype, layout)
    }
}

impl TuneReduce {
    pub fn problems(&self) -> Vec<ProblemKey> {
        problems::reductions(&self.shapes, self.dtype)
    }
}

impl TunePermute {
    pub fn problems(&self) -> Vec<ProblemKey> {
        problems::permutations(&self.shapes, self.dtype)
    }
}

fn parse_explained(text: &str) -> polaris_bench::Result<Dims> {
    text.replace(',', "x").parse()
}

fn parse_pair(text: &str) -> Result<[usize; 2], String> {
    let bad = || format!("{text:?} is not a shape; expected ROWSxELEMENTS, as in 1024x4096");
    let (rows, elements) = text.split_once('x').ok_or_else(bad)?;
    let size = |text: &str| parse_dimension(text).map_err(|error| error.to_string());
    Ok([size(rows)?, size(elements)?])
}

fn parse_float(text: &str) -> Result<DType, String> {
    let types = [DType::F32, DType::F16, DType::BF16, DType::F64];
    let found = types.into_iter().find(|dtype| dtype.name() == text);
    found.ok_or_else(|| format!("{text:?} is not a type; expected f32, f16, bf16 or f64"))
}

fn parse_count(text: &str) -> Result<usize, String> {
    let count = text.parse::<usize>().ok().filter(|count| (1..=64).contains(count));
    count.ok_or_else(|| format!("{text:?} is out of range; expected a number from 1 to 64"))
}
