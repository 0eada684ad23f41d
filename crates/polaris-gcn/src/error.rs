//! The errors of compiling for AMD cards and predicting times.

use std::path::PathBuf;
use std::time::Duration;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of compiling or predicting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no usable compiler.
    #[error(
        "no clang compiles OpenCL C for {target}:\n{}\ninstall the Debian packages clang-15 and rocm-device-libs, or set ROCM_DEVICE_LIBS to a folder with opencl.bc",
        indented(tried)
    )]
    NoCompiler {
        /// What it should have compiled for.
        target: String,
        /// What was tried, and why it failed.
        tried: Vec<String>,
    },
    /// The compiler or its device libraries do not know the target.
    #[error(
        "this compiler and its device libraries do not know the target {target:?}:\n{}\nan RX 470 to RX 590, a Fury or a Nano is gfx803",
        indented(tried)
    )]
    UnknownTarget {
        /// What was requested.
        target: String,
        /// The compilers and libraries that do not know it.
        tried: Vec<String>,
    },
    /// The compiler could not be run.
    #[error("cannot run {clang}: {source}", clang = clang.display())]
    Run {
        /// Which compiler.
        clang: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The compiler was stopped because it took too long.
    #[error(
        "{name}: clang was stopped after {} s; allow more time or unroll less",
        limit.as_secs_f64()
    )]
    TimedOut {
        /// The program.
        name: String,
        /// How long it had.
        limit: Duration,
    },
    /// The compiler rejected the program.
    #[error("clang: {status}\n{log}")]
    Rejected {
        /// How it ended.
        status: std::process::ExitStatus,
        /// Its output.
        log: String,
    },
    /// The assembly is not in the form that clang writes.
    #[error("the assembly cannot be read: {what}")]
    Assembly {
        /// What is missing or wrong in it.
        what: String,
    },
    /// A program with no kernel, or with several where one is expected.
    #[error("the program has {found} kernels; one is expected")]
    Kernels {
        /// How many there are.
        found: usize,
    },
    /// The model does not cover this kernel or problem.
    #[error("no prediction for {kernel}: {why}")]
    Model {
        /// The kernel.
        kernel: String,
        /// What the model does not cover.
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
