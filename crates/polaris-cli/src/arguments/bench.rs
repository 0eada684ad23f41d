//! The arguments of benchmarks.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use polaris_bench::gemm::cases::parse_dimension;
use polaris_bench::gemm::{Dims, EpilogueName, Numbers, Sweep, Transpose, VariantChoice};
use polaris_bench::modes::workload_names;

use super::parse_seconds;

/// Options of `bench modes`.
#[derive(Debug, Args)]
pub struct BenchModes {
    /// Few rounds, and nothing that takes long
    #[arg(long)]
    pub quick: bool,

    /// Only these workloads
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(workload_names())
    )]
    pub only: Vec<String>,

    /// Write a page with plots
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
}

/// Options of `bench memory`.
#[derive(Debug, Args)]
pub struct Memory {
    /// Size of each array
    #[arg(long, default_value = "64MiB", value_parser = parse_size)]
    pub size: u64,
}

/// Options of `bench gemm`.
#[derive(Debug, Args)]
pub struct Gemm {
    /// Sizes of square products; 512,1024,2048 if nothing else is named
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = parse_dimension)]
    pub sizes: Vec<usize>,

    /// Products of an m x k matrix with a k x n one
    #[arg(long, value_name = "MxNxK,...", value_delimiter = ',')]
    pub shapes: Vec<Dims>,

    /// Square products of sizes at equal distances
    #[arg(long, value_name = "FROM:TO:STEP")]
    pub sweep: Option<Sweep>,

    /// Types of the operands
    #[arg(long, value_name = "TYPE,...", value_delimiter = ',', default_value = "f32", value_parser = numbers())]
    pub dtypes: Vec<Numbers>,

    /// Whether A and B are stored as they are (n) or as their transposes (t)
    #[arg(long, value_name = "AB,...", value_delimiter = ',', default_value = "nn", value_parser = transposes())]
    pub transpose: Vec<Transpose>,

    /// Kernels of OpenCL devices: default, all, or names
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "default")]
    pub variants: Vec<VariantChoice>,

    /// Measure other libraries beside, where they are installed
    #[arg(long)]
    pub peers: bool,

    /// Measure what follows a product too, fused and as operations of its own
    #[arg(long, value_name = "NAME", value_parser = epilogues())]
    pub epilogue: Option<EpilogueName>,

    /// Time for each case, all its contenders together
    #[arg(long, value_name = "S", default_value = "1", value_parser = parse_seconds)]
    pub seconds: f64,

    /// Pause after each sample: a card at its power limit changes its clock unless it rests
    #[arg(long, value_name = "S", default_value = "0", value_parser = parse_seconds)]
    pub rest: f64,

    /// Write a page with plots
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,

    /// Keep the results as data, a file for each device
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
}

impl Gemm {
    /// All sizes that were named, in the order of the options.
    pub fn dims(&self) -> Vec<Dims> {
        let mut all: Vec<Dims> = self.sizes.iter().copied().map(Dims::square).collect();
        all.extend(&self.shapes);
        all.extend(self.sweep.into_iter().flat_map(Sweep::products));
        all
    }
}

/// Types of operands, by their names.
pub fn numbers() -> impl TypedValueParser<Value = Numbers> {
    let value = |numbers: Numbers| match numbers {
        Numbers::Tf32 => {
            PossibleValue::new(numbers.name()).help("f32, multiplied as tf32 where the device can")
        }
        _ => PossibleValue::new(numbers.name()),
    };
    PossibleValuesParser::new(Numbers::ALL.map(value)).try_map(|name| name.parse::<Numbers>())
}

/// Transposes, by their names.
pub fn transposes() -> impl TypedValueParser<Value = Transpose> {
    let names = Transpose::ALL.map(Transpose::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Transpose>())
}

fn epilogues() -> impl TypedValueParser<Value = EpilogueName> {
    let name = EpilogueName::BiasGelu.name();
    let value = PossibleValue::new(name).help("A bias for each column, then GELU");
    PossibleValuesParser::new([value]).try_map(|name| name.parse::<EpilogueName>())
}

fn parse_size(text: &str) -> Result<u64, String> {
    polaris::runtime::parse_bytes(text)
        .filter(|&bytes| bytes >= 4096)
        .ok_or_else(|| "not a size of at least 4096 bytes; write it as in 64MiB".to_owned())
}
