//! Cargo, and the programs that it builds.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The cargo that started us, so that a `+toolchain` holds for the children too.
pub fn command(root: &Path) -> Command {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    command.current_dir(root);
    command
}

/// Runs cargo with inherited output.
pub fn run(root: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = command(root);
    command.args(arguments);
    execute(command)
}

/// Runs a command; an error if it does not succeed.
pub fn execute(mut command: Command) -> Result<()> {
    let program = command.get_program().to_owned();
    let status = command.status().with_context(|| format!("cannot start {}", program.display()))?;
    if !status.success() {
        bail!("{} ended with {status}", Path::new(&program).display());
    }
    Ok(())
}

/// A program that was built in a profile's folder (`debug`, `release`).
pub fn binary(root: &Path, profile: &str, name: &str) -> PathBuf {
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    target_folder(root, |name| std::env::var_os(name)).join(profile).join(name)
}

/// Builds `polaris-tasks` and runs a task in the user's folder; returns its exit code.
pub fn task(root: &Path, task: &str, arguments: &[String]) -> Result<u8> {
    // Features are chosen for the whole workspace: with those of one package alone, every crate would be compiled
    // again.
    run(root, &["build", "--quiet", "--workspace", "--bin", "polaris-tasks"])?;
    let program = binary(root, "debug", "polaris-tasks");
    let status = Command::new(&program)
        .arg(task)
        .args(arguments)
        .status()
        .with_context(|| format!("cannot start {}", program.display()))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Where cargo puts its output; a relative folder counts from `root`, where cargo runs.
pub fn target_folder(root: &Path, variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let folder = variable("CARGO_TARGET_DIR").or_else(|| variable("CARGO_BUILD_TARGET_DIR"));
    root.join(folder.unwrap_or_else(|| "target".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_folder_follows_cargo() {
        let folder = |set: &'static str, value: &'static str| {
            target_folder(Path::new("/repo"), move |name| (name == set).then(|| value.into()))
        };
        assert_eq!(folder("NONE", ""), Path::new("/repo/target"));
        assert_eq!(folder("CARGO_TARGET_DIR", "/out"), Path::new("/out"));
        assert_eq!(folder("CARGO_TARGET_DIR", "out"), Path::new("/repo/out"));
        assert_eq!(folder("CARGO_BUILD_TARGET_DIR", "/out"), Path::new("/out"));
    }
}
