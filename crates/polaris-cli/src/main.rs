//! The `polaris` command: arguments, output, exit codes and Ctrl-C around the library.

#![forbid(unsafe_code)]
// Text for people goes through `output`, which makes it safe for a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod arguments;
mod checks;
mod commands;
mod exit;
mod hints;
mod interrupt;
mod notes;
mod output;
mod session;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Bench, Command};

/// Ends the process with a documented exit code when the smallest allocation fails.
#[global_allocator]
static ALLOCATOR: polaris::runtime::LastResort<{ exit::FAILED as i32 }> =
    polaris::runtime::LastResort;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are results, everything else is wrong usage.
            let code = if error.use_stderr() { exit::USAGE } else { exit::OK };
            // Arguments may be file names from a shell pattern, with any characters.
            let text = error.render().to_string();
            match polaris::printable_lines(&text) {
                std::borrow::Cow::Borrowed(_) => drop(error.print()),
                std::borrow::Cow::Owned(_) => output::say_line(text.trim_end()),
            }
            return ExitCode::from(code);
        }
    };
    notes::install();
    interrupt::install();
    let json = arguments.global.json;
    let code = match run(arguments) {
        Ok(code) => code,
        Err(error) => {
            // A driver's compiler may fail because of the signal; the user's request is the cause.
            let error = if interrupt::requested() {
                polaris::runtime::Error::Interrupted.into()
            } else {
                error
            };
            let code = exit::code_of(&error);
            output::report_error(&error, code, json);
            code
        }
    };
    polaris::runtime::exit_without_handlers(code)
}

fn run(arguments: Arguments) -> anyhow::Result<u8> {
    let global = arguments.global;
    match arguments.command {
        Command::Quickstart => commands::quickstart::run(global),
        Command::Run(options) => commands::model::run::run(global, &options),
        Command::Embed(options) => commands::embed::run(global, &options),
        Command::Chat(options) => commands::llm::chat::run(global, &options),
        Command::Perplexity(options) => commands::llm::perplexity::run(global, &options),
        Command::Compare(options) => commands::compare::run(global, &options),
        Command::Quantize(options) => commands::quantize::run(global, &options),
        Command::Imatrix(options) => commands::imatrix::run(global, &options),
        Command::Tokenize(options) => commands::llm::tokenize::run(&global, &options),
        Command::Info(options) => commands::model::info::run(global, &options),
        Command::Plan(options) => commands::model::plan::run(global, &options),
        Command::OnnxTest(options) => commands::model::onnx_test::run(global, &options),
        Command::Devices(options) => commands::devices::run(global, &options),
        Command::Check(options) => commands::check::run(global, &options),
        Command::Bench { what: Bench::Memory(options) } => {
            commands::bench_memory::run(global, &options)
        }
        Command::Bench { what: Bench::Gemm(options) } => {
            commands::bench_gemm::run(global, &options)
        }
        Command::Bench { what: Bench::Model(options) } => {
            commands::model::bench::run(global, &options)
        }
        Command::Bench { what: Bench::Llm(options) } => commands::llm::bench::run(global, &options),
        Command::Bench { what: Bench::Modes(options) } => {
            commands::bench_modes::run(global, &options)
        }
        Command::Bench { what: Bench::Launch } => commands::bench_launch::run(global),
        Command::Bench { what: Bench::Select } => commands::bench_select::run(global),
        Command::Tune(options) => commands::tune::run(global, &options),
        Command::Train(options) => commands::train::run(global, &options),
        Command::Eval(options) => commands::eval::run(global, &options),
        Command::Export(options) => commands::export::run(global, &options),
        Command::Generate(options) => commands::generate::run(global, &options),
        Command::Cache(options) => commands::cache::run(global, &options),
        Command::Completions(options) => commands::completions::run(&global, &options),
    }
}
