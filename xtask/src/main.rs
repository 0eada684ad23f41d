//! Tasks of this repository: `cargo xtask help`.

#![forbid(unsafe_code)]

mod binaries;
mod cargo;
mod suite;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = include_str!("usage.txt");

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
        Some(task @ ("isa" | "benchmarks")) => run_task(task, &rest),
        Some("docs") => match rest.first() {
            None => report(write_reference()),
            Some(argument) => usage_error(&format!("docs takes no argument, found {argument}")),
        },
        Some("test") => match rest.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => exit_code(suite::run(false)),
            ["--long"] => exit_code(suite::run(true)),
            [argument, ..] => usage_error(&format!("test takes only --long, found {argument}")),
        },
        Some(other) => usage_error(&format!("unknown command {other}")),
        None => usage_error("a command is missing"),
    }
}

/// Builds and starts `polaris-tasks`. It tells the user what is wrong; of its exit codes, 0 and 2 are ours too.
fn run_task(task: &str, arguments: &[String]) -> ExitCode {
    match cargo::task(&repository(), task, arguments) {
        Ok(code @ (0 | 2)) => ExitCode::from(code),
        Ok(_) => ExitCode::from(1),
        Err(error) => report(Err(error)),
    }
}

/// Rewrites docs/cli.md. The arguments are part of the `polaris` binary, so one of its tests writes the page.
fn write_reference() -> anyhow::Result<()> {
    let mut command = cargo::command(&repository());
    command.args(["test", "--quiet", "--workspace", "--bin", "polaris", "reference"]);
    command.env("POLARIS_WRITE_DOCS", "1");
    cargo::execute(command)
}

fn report(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
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
