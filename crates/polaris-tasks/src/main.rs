//! Tasks of this repository that need its crates: `cargo xtask isa` and `cargo xtask benchmarks`, which start
//! this.

#![forbid(unsafe_code)]

mod benchmarks;
mod isa;
#[cfg(test)]
mod map;
mod programs;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use polaris_gcn::Toolchain;

const USAGE: &str = include_str!("../../../xtask/src/usage.txt");

/// The exit code where the compiler is missing, by which `cargo xtask test` tells a skip from a failure.
const NO_COMPILER: u8 = 3;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next();
    let rest: Vec<String> = arguments.collect();
    match command.as_deref() {
        Some("isa") => match isa::Options::parse(rest) {
            Ok(options) => run_isa(&options),
            Err(message) => usage_error(&message),
        },
        Some("benchmarks") => match benchmarks::Mode::parse(&rest) {
            Ok(mode) => report(benchmarks::run(mode)),
            Err(message) => usage_error(&message),
        },
        _ => usage_error("a command is missing: isa or benchmarks"),
    }
}

fn run_isa(options: &isa::Options) -> ExitCode {
    match Toolchain::find(options.clang.as_deref(), isa::TARGET) {
        Ok(toolchain) => report(isa::run(&toolchain, options)),
        Err(error) => {
            eprintln!("error: {error}\n--clang PATH names another compiler");
            ExitCode::from(NO_COMPILER)
        }
    }
}

/// The exit code of a task that tells whether all is well, or why it could not be done.
fn report(result: anyhow::Result<bool>) -> ExitCode {
    match result {
        Ok(clean) => ExitCode::from(if clean { 0 } else { 1 }),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(1)
        }
    }
}

fn usage_error(message: &str) -> ExitCode {
    eprintln!("error: {message}\n\n{USAGE}");
    ExitCode::from(2)
}

/// The folder of the workspace. The path that is built in holds: cargo builds again where it is another.
fn repository() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).map(Path::to_owned).expect("the crate should lie in `crates`")
}

/// A text file of the repository.
fn read_text(path: &Path) -> anyhow::Result<String> {
    const LIMIT: u64 = 64 << 20;
    polaris_files::read_text(path, LIMIT).with_context(|| format!("cannot read {}", path.display()))
}
