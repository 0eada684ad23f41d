//! What can go wrong.

use std::path::PathBuf;
use std::time::Duration;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no compiler that could be used, whatever the target.
    #[error(
        "no clang that compiles OpenCL C for {target}:\n{}\ninstall the Debian packages clang-15 and rocm-device-libs, or name other places with --clang PATH and the environment variable ROCM_DEVICE_LIBS (a folder with opencl.bc)",
        indented(tried)
    )]
    NoCompiler {
        /// What it should have compiled for.
        target: String,
        /// What was tried, and why it was no use.
        tried: Vec<String>,
    },
    /// A compiler or its libraries are there, but do not know the target.
    #[error(
        "{target:?} is no target that this compiler and its device libraries know:\n{}\nan RX 470 to RX 590, a Fury or a Nano is gfx803",
        indented(tried)
    )]
    UnknownTarget {
        /// What was asked for.
        target: String,
        /// Who does not know it.
        tried: Vec<String>,
    },
    /// The compiler could not be run.
    #[error("cannot run {clang}: {source}", clang = clang.display())]
    Run {
        /// Which compiler.
        clang: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The compiler was stopped because it took too long.
    #[error(
        "{name}: clang was stopped after {} s; give it more time, or the program less to unroll",
        limit.as_secs_f64()
    )]
    TimedOut {
        /// The program.
        name: String,
        /// How long it had.
        limit: Duration,
    },
    /// The compiler does not take the program.
    #[error("clang: {status}\n{log}")]
    Rejected {
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it said.
        log: String,
    },
    /// The assembly text is not what clang writes.
    #[error("the assembly cannot be read: {what}")]
    Assembly {
        /// What is missing or wrong in it.
        what: String,
    },
    /// A program with no kernel, or with several where one is expected.
    #[error("the program has {found} kernels, and one is expected")]
    Kernels {
        /// How many there are.
        found: usize,
    },
    /// The model cannot say anything about this kernel and this problem.
    #[error("no prediction for {kernel}: {why}")]
    Model {
        /// The kernel.
        kernel: String,
        /// What does not fit.
        why: String,
    },
}

impl Error {
    /// An assembly that cannot be read.
    pub(crate) fn assembly(what: impl Into<String>) -> Self {
        Self::Assembly { what: what.into() }
    }
}

fn indented(lines: &[String]) -> String {
    lines.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
