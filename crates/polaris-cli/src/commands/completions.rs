//! `polaris completions`: a completion script for a shell.

use clap::CommandFactory;
use clap_complete::Shell;
use serde::Serialize;

use crate::arguments::{Arguments, Completions, Global};
use crate::{exit, output};

#[derive(Serialize)]
struct Script {
    shell: String,
    script: String,
}

pub fn run(global: &Global, options: &Completions) -> anyhow::Result<u8> {
    let shell = Shell::from(options.shell);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "polaris", &mut script);
    let script = String::from_utf8(script)?;
    if global.json {
        output::print_json("polaris.completions/1", &Script { shell: shell.to_string(), script })?;
    } else {
        output::print_line(script.trim_end())?;
    }
    Ok(exit::OK)
}
