//! The options of `polaris tune`.

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

    /// Show what was tuned; this is what happens if nothing else is asked for
    #[arg(long)]
    pub list: bool,

    /// Say what is taken for a product, and why
    #[arg(long, value_name = "M,N,K", value_parser = parse_explained)]
    pub explain: Option<Dims>,

    /// Write all measurements to a file
    #[arg(long, value_name = "FILE.jsonl")]
    pub export: Option<PathBuf>,

    /// Add the measurements of a file
    #[arg(long, value_name = "FILE.jsonl")]
    pub import: Option<PathBuf>,

    /// Answer requests from stdin: the process that takes a driver's crashes
    #[arg(long, hide = true)]
    pub worker: bool,
}

/// What can be tuned.
#[derive(Debug, Subcommand)]
pub enum TuneWhat {
    /// Matrix products
    #[command(after_help = "Examples:
  polaris tune gemm --budget 60s
  polaris tune gemm --device gpu --shapes 512x512x512,128x768x3072 --budget 200evals
  polaris tune gemm --around 1280 --strategy annealing --seed 7 --json
  polaris tune gemm --sizes 1024 --report tuned.html
  polaris tune gemm --target gfx803 --sizes 1024,4096")]
    Gemm(TuneGemm),

    /// Products of a few vectors with a matrix
    #[command(after_help = "Examples:
  polaris tune gemv --budget 60s
  polaris tune gemv --shapes 1x4096x4096,8x4096x11008 --layout dots --json")]
    Gemv(TuneGemv),

    /// Sums, means, minima and maxima of dense rows
    #[command(after_help = "Examples:
  polaris tune reduce --budget 60s
  polaris tune reduce --shapes 1x16777216,4096x4096 --device gpu")]
    Reduce(TuneReduce),

    /// Transpositions
    #[command(after_help = "Examples:
  polaris tune permute --budget 60s
  polaris tune permute --shapes 1x4096x4096,64x128x768 --device gpu")]
    Permute(TunePermute),

    /// How good strategies and predictions are on what was measured; measures nothing
    #[command(after_help = "Examples:
  polaris tune gemm --sizes 256,512 --strategy exhaustive --budget 1h
  polaris tune study --seeds 10 --json")]
    Study(TuneStudy),
}

/// How to search.
#[derive(Debug, Args)]
pub struct TuneSearch {
    /// How to search: exhaustive, random, annealing, genetic, bayesian, guided
    #[arg(long, value_name = "NAME", default_value = "bayesian")]
    pub strategy: String,

    /// How long: a time for all shapes together (60s, 5m), or evaluations for each (200evals)
    #[arg(long, value_name = "BUDGET", default_value = "60s")]
    pub budget: Budget,

    /// How often to time what was found, at different moments; the fastest counts. More than once
    /// is for machines that are not at rest, and for recordings that others are judged by
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_count)]
    pub passes: usize,

    /// The same seed makes the same search
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// Seconds that a build and a first run may take
    #[arg(long, value_name = "S", default_value = "60", value_parser = parse_seconds)]
    pub patience: f64,

    /// Processes that build at the same time
    #[arg(long, value_name = "N", default_value = "2", value_parser = parse_count)]
    pub workers: usize,

    /// Write a page with the search, the parameters and the predictions
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

/// Options of `tune gemm`.
#[derive(Debug, Args)]
pub struct TuneGemm {
    /// Products of an m x k matrix with a k x n one; 256, 512 and 1024 if nothing else is named
    #[arg(long, value_name = "MxNxK,...", value_delimiter = ',')]
    pub shapes: Vec<Dims>,

    /// Sizes of square products
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = parse_dimension)]
    pub sizes: Vec<usize>,

    /// Square products of this size and of sizes a little smaller and larger
    #[arg(long, value_name = "N", value_parser = parse_dimension)]
    pub around: Option<usize>,

    /// The type of the operands
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = numbers())]
    pub dtype: Numbers,

    /// Whether A and B are stored as they are (n) or as their transposes (t)
    #[arg(long, value_name = "AB", default_value = "nn", value_parser = transposes())]
    pub transpose: Transpose,

    /// Predict for a card that is not there, from its machine code: gfx803
    #[arg(long, value_name = "CHIP", conflicts_with_all = ["report", "passes"])]
    pub target: Option<String>,

    /// Put the predictions for the target into a file of decisions
    #[arg(long, value_name = "FILE.json", requires = "target")]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    pub search: TuneSearch,
}

/// Options of `tune gemv`.
#[derive(Debug, Args)]
pub struct TuneGemv {
    /// Vectors, lines of the matrix, and their length
    #[arg(
        long,
        value_name = "VxLxK,...",
        value_delimiter = ',',
        default_value = "1x1024x1024,1x4096x4096"
    )]
    pub shapes: Vec<Dims>,

    /// Whether neighbours in the matrix are multiplied with neighbours in the vector (dots) or
    /// belong to neighbouring results (columns)
    #[arg(long, value_name = "LAYOUT", default_value = "dots")]
    pub layout: LayoutName,

    /// The type of the operands
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = numbers())]
    pub dtype: Numbers,

    #[command(flatten)]
    pub search: TuneSearch,
}

/// Options of `tune reduce`.
#[derive(Debug, Args)]
pub struct TuneReduce {
    /// Rows, and the elements of each
    #[arg(long, value_name = "RxN,...", value_delimiter = ',', default_value = "1x4194304,1024x4096", value_parser = parse_pair)]
    pub shapes: Vec<[usize; 2]>,

    /// The type of the elements
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = parse_float)]
    pub dtype: DType,

    #[command(flatten)]
    pub search: TuneSearch,
}

/// Options of `tune permute`.
#[derive(Debug, Args)]
pub struct TunePermute {
    /// Matrices, and the rows and columns of each as it is stored
    #[arg(
        long,
        value_name = "BxRxC,...",
        value_delimiter = ',',
        default_value = "1x2048x2048,64x128x768"
    )]
    pub shapes: Vec<Dims>,

    /// The type of the elements
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = parse_float)]
    pub dtype: DType,

    #[command(flatten)]
    pub search: TuneSearch,
}

/// Options of `tune study`.
#[derive(Debug, Args)]
pub struct TuneStudy {
    /// Searches of each strategy
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,

    /// Parts into which the shapes are cut for cross-validation
    #[arg(long, value_name = "N", default_value = "5", value_parser = parse_count)]
    pub folds: usize,
}

/// How the matrix of a product with vectors lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LayoutName {
    Dots,
    Columns,
}

impl TuneGemm {
    /// All products, each once.
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
    let bad = || format!("{text:?} is not ROWSxELEMENTS, as in 1024x4096");
    let (rows, elements) = text.split_once('x').ok_or_else(bad)?;
    let size = |text: &str| parse_dimension(text).map_err(|error| error.to_string());
    Ok([size(rows)?, size(elements)?])
}

fn parse_float(text: &str) -> Result<DType, String> {
    let types = [DType::F32, DType::F16, DType::BF16, DType::F64];
    let found = types.into_iter().find(|dtype| dtype.name() == text);
    found.ok_or_else(|| format!("{text:?} is none of f32, f16, bf16, f64"))
}

fn parse_count(text: &str) -> Result<usize, String> {
    let count = text.parse::<usize>().ok().filter(|count| (1..=64).contains(count));
    count.ok_or_else(|| format!("{text:?} is not a number from 1 to 64"))
}
