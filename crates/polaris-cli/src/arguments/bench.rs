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
    /// Run three rounds instead of seven, and skip what takes long
    ///
    /// Skips calls that are expected to take longer than a second, and the mode hybrid where placement takes longer than
    /// 5 s; the table says which.
    #[arg(long)]
    pub quick: bool,

    /// Run only these workloads [default: all]
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(workload_names())
    )]
    pub only: Vec<String>,

    /// Write plots, all figures, the machine and the workloads as self-contained HTML
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
}

/// Options of `bench memory`.
#[derive(Debug, Args)]
pub struct Memory {
    /// Use arrays of this size, at least 4096 bytes
    #[arg(long, default_value = "64MiB", value_parser = parse_size)]
    pub size: u64,
}

/// Options of `bench gemm`.
#[derive(Debug, Args)]
pub struct Gemm {
    /// Measure square matmuls, m = n = k [default: 512,1024,2048 without --shapes and --sweep]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = parse_dimension)]
    pub sizes: Vec<usize>,

    /// Measure matmuls of these shapes: rows and columns of the result, and k
    #[arg(long, value_name = "MxNxK,...", value_delimiter = ',')]
    pub shapes: Vec<Dims>,

    /// Measure square matmuls of every size from FROM to TO, at most 10000
    #[arg(long, value_name = "FROM:TO:STEP")]
    pub sweep: Option<Sweep>,

    /// Use operands of these types; i8 accumulates in i32
    #[arg(long, value_name = "TYPE,...", value_delimiter = ',', default_value = "f32", value_parser = numbers())]
    pub dtypes: Vec<Numbers>,

    /// Store A and B as they are (n) or transposed (t)
    #[arg(long, value_name = "AB,...", value_delimiter = ',', default_value = "nn", value_parser = transposes())]
    pub transpose: Vec<Transpose>,

    /// Measure these kernels of OpenCL devices: default (what Polaris chooses), all, or names
    ///
    /// docs/gemm.md lists the names, and so does the error for an unknown one. `fp16-mixed`, `fused`, `recursive` and
    /// `streamed` need f32 or tf32. `all` skips variants that take longer than `--seconds` for one call, with a note. The
    /// CPU has only its default.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "default")]
    pub variants: Vec<VariantChoice>,

    /// Measure other libraries in the same turns, where they are installed
    #[arg(long)]
    pub peers: bool,

    /// Also measure this epilogue, fused into the matmul and as separate operations
    #[arg(long, value_name = "NAME", value_parser = epilogues())]
    pub epilogue: Option<EpilogueName>,

    /// Spend this many seconds on each case, from 0 to 3600, all contenders together
    #[arg(long, value_name = "S", default_value = "1", value_parser = parse_seconds)]
    pub seconds: f64,

    /// Pause this many seconds after each sample
    ///
    /// A card at its power limit lowers its clock by changing amounts; with a pause of 0.02 it runs at its full clock.
    #[arg(long, value_name = "S", default_value = "0", value_parser = parse_seconds)]
    pub rest: f64,

    /// Write plots of speed and roofline, the tables, the machine and the command as self-contained HTML
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,

    /// Store the results in this folder as data, a file for each chip and driver
    ///
    /// A new result replaces an old one of the same case. `cargo xtask benchmarks` generates docs/benchmarks.md from
    /// those in bench/results.
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
}

impl Gemm {
    /// All sizes, in the order of the options.
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
        Numbers::Tf32 => PossibleValue::new(numbers.name())
            .help("f32, rounded to eleven significant bits where the device has tensor cores"),
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
    let value = PossibleValue::new(name).help("a bias for each column, then GELU");
    PossibleValuesParser::new([value]).try_map(|name| name.parse::<EpilogueName>())
}

fn parse_size(text: &str) -> Result<u64, String> {
    polaris::runtime::parse_bytes(text)
        .filter(|&bytes| bytes >= 4096)
        .ok_or_else(|| "expected a size of at least 4096 bytes, as in 64MiB".to_owned())
}
