//! Tasks of this repository: `cargo xtask help`.

#![forbid(unsafe_code)]

mod benchmarks;
mod isa;
mod programs;
mod suite;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use polaris_gcn::Toolchain;

const USAGE: &str = "\
Tasks of the Polaris repository.

Usage: cargo xtask <COMMAND>

Commands:
  test    run everything that has to hold before a change is done: formatting, clippy, tests,
          documentation, the gfx803 report, a release build, trials of the binary and
          `polaris quickstart`
  isa     compile every OpenCL program for gfx803 and print what each kernel costs
  benchmarks [--check]
          make docs/benchmarks.md from bench/results, or see whether it is up to date
  help    print this text

cargo xtask isa [--json] [--clang PATH] [--keep DIR] [FILTER]
  FILTER        only programs whose name contains this text
  --json        print one JSON object instead of a table
  --clang PATH  use this compiler (otherwise: clang-15 to clang-20, clang)
  --keep DIR    leave each program's source and assembly in DIR
  Columns: work group, registers, bytes of local memory (a + where a __local argument adds to it)
  and of scratch, spilled registers, waves a SIMD holds, bytes of code.
  It needs clang and AMD's device libraries (Debian: clang-15 rocm-device-libs).

Environment:
  POLARIS_REQUIRE   what `test` must not skip, for example opencl,rusticl,isa,onnx
  PROPTEST_RNG_SEED what `test` draws random cases from: 580 unless given
  POLARIS_ONNX_DATA the test data of the ONNX standard (otherwise: below target/onnx-data)
  ROCM_DEVICE_LIBS  folder of the device libraries (with opencl.bc)

Exit status: 0 all is well; 1 a step failed, or a program does not compile, spills or uses
scratch; 2 wrong usage.
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next();
    let rest: Vec<String> = arguments.collect();
    if matches!(command.as_deref(), Some("help" | "--help" | "-h"))
        || rest.iter().any(|argument| argument == "--help" || argument == "-h")
    {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match command.as_deref() {
        Some("isa") => match isa::Options::parse(rest) {
            Ok(options) => run_isa(&options),
            Err(message) => usage_error(&message),
        },
        Some("benchmarks") => match benchmarks::Mode::parse(&rest) {
            Ok(mode) => report(benchmarks::run(mode)),
            Err(message) => usage_error(&message),
        },
        Some("test") => match rest.first() {
            Some(argument) => usage_error(&format!("test takes no argument: {argument}")),
            None => exit_code(suite::run()),
        },
        Some(other) => usage_error(&format!("unknown command {other}")),
        None => usage_error("a command is missing"),
    }
}

fn run_isa(options: &isa::Options) -> ExitCode {
    let result = Toolchain::find(options.clang.as_deref(), isa::TARGET)
        .map_err(anyhow::Error::from)
        .and_then(|toolchain| isa::run(&toolchain, options));
    report(result)
}

/// The exit code of a task that tells whether all is well, or why it could not be done.
fn report(result: anyhow::Result<bool>) -> ExitCode {
    match result {
        Ok(clean) => exit_code(clean),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(1)
        }
    }
}

fn exit_code(success: bool) -> ExitCode {
    ExitCode::from(if success { 0 } else { 1 })
}

fn usage_error(message: &str) -> ExitCode {
    eprintln!("error: {message}\n\n{USAGE}");
    ExitCode::from(2)
}

/// The folder of the workspace.
fn repository() -> PathBuf {
    // Cargo sets the variable for `cargo run`; the built-in path serves a binary started by hand.
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map(Path::to_owned).expect("xtask should lie in the workspace")
}
