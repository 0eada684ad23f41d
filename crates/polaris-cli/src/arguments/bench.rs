//! The arguments of benchmarks that are not about one operation.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::commands::bench_modes::workload_names;

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
