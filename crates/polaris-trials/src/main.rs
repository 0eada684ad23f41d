//! `polaris-trials`: hostile inputs, limits and signals for the `polaris` binary. See docs/trials.md.

#![forbid(unsafe_code)]

#[cfg(unix)]
mod damage;
#[cfg(unix)]
mod decoders;
#[cfg(unix)]
mod families;
#[cfg(unix)]
mod fixtures;
#[cfg(unix)]
mod formats;
#[cfg(unix)]
mod gguf;
#[cfg(unix)]
mod json_damage;
#[cfg(unix)]
mod judge;
#[cfg(unix)]
mod models;
#[cfg(unix)]
mod pool;
#[cfg(unix)]
mod process;
#[cfg(unix)]
mod random;
#[cfg(unix)]
mod reference;
#[cfg(unix)]
mod report;
#[cfg(unix)]
mod run;
#[cfg(unix)]
mod trial;

use std::process::ExitCode;

#[cfg(unix)]
fn main() -> ExitCode {
    run::main()
}

#[cfg(not(unix))]
fn main() -> ExitCode {
    eprintln!("error: the trials need Unix: signals, FIFOs and limits of processes");
    ExitCode::from(3)
}
