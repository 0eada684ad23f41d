//! `cargo xtask test`: everything that has to hold before a change is done, in one command.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::isa;

/// Comma-separated names of what must not be skipped; tests of the crates read it too.
const REQUIRE: &str = "POLARIS_REQUIRE";

/// What the random cases of property tests are drawn from.
const RANDOM_SEED: &str = "PROPTEST_RNG_SEED";

/// How a step ended, if it did not fail.
enum Done {
    Passed,
    Skipped(String),
}

/// A step: its name and what it does.
type Step = (&'static str, fn(&Path) -> Result<Done>);

/// Cheap steps come first, so that a slip in formatting does not cost a build.
const STEPS: [Step; 8] = [
    ("format", |root| cargo(root, &["fmt", "--all", "--check"])),
    ("clippy", |root| {
        cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
    }),
    ("tests", tests),
    ("documentation", documentation),
    ("gfx803 report", gfx803_report),
    ("release build", |root| cargo(root, &["build", "--release", "-p", "polaris-cli"])),
    ("trials", trials),
    ("quickstart", quickstart),
];

/// Runs all steps and stops at the first that fails; false when one did.
pub fn run() -> bool {
    let root = crate::repository();
    let mut summary = Vec::new();
    let mut passed = true;
    let mut skipped = 0;
    for (name, step) in STEPS {
        println!("==> {name}");
        let start = Instant::now();
        let result = step(&root);
        let time = seconds(start.elapsed());
        match result {
            Ok(Done::Passed) => summary.push(format!("{time}  {name}")),
            Ok(Done::Skipped(reason)) => {
                println!("SKIPPED: {name}: {reason}");
                skipped += 1;
                summary.push(format!("{time}  {name} (SKIPPED)"));
            }
            Err(error) => {
                eprintln!("FAILED: {name}: {error:#}");
                summary.push(format!("{time}  {name} (FAILED)"));
                passed = false;
                break;
            }
        }
    }
    println!("==> summary");
    for line in &summary {
        println!("{line}");
    }
    match (passed, skipped) {
        (true, 0) => println!("all steps passed"),
        (true, count) => println!("all steps passed but {count} skipped"),
        (false, _) => println!("a step failed; the ones after it did not run"),
    }
    passed
}

/// The same random cases each time: a change is refused for what it does, not for what was drawn. `cargo test`
/// by itself draws new ones.
fn tests(root: &Path) -> Result<Done> {
    let mut command = cargo_command(root);
    command.args(["test", "--workspace"]);
    if std::env::var_os(RANDOM_SEED).is_none() {
        command.env(RANDOM_SEED, "580");
    }
    execute(command)
}

fn documentation(root: &Path) -> Result<Done> {
    let mut command = cargo_command(root);
    command.args(["doc", "--no-deps", "--workspace"]).env("RUSTDOCFLAGS", "-D warnings");
    execute(command)
}

fn gfx803_report(_: &Path) -> Result<Done> {
    let toolchain = match polaris_gcn::Toolchain::find(None, isa::TARGET) {
        Ok(toolchain) => toolchain,
        Err(error) if is_required("isa", std::env::var(REQUIRE).ok().as_deref()) => {
            return Err(error).context(format!("{REQUIRE} contains isa"));
        }
        Err(error) => return Ok(Done::Skipped(error.to_string())),
    };
    println!("{toolchain}");
    match isa::run(&toolchain, &isa::Options::default())? {
        true => Ok(Done::Passed),
        false => bail!("a program does not compile, spills or uses scratch (see the table)"),
    }
}

/// The same trials each time, for the reason of [`tests`]; a machine that is busy has a minute for each process.
fn trials(root: &Path) -> Result<Done> {
    if !cfg!(unix) {
        return Ok(Done::Skipped("they need Unix".to_owned()));
    }
    let mut command = cargo_command(root);
    command.args(["run", "-p", "polaris-trials", "--", "--runs", "400", "--seed", "580"]);
    command.args(["--hang", "60", "--keep"]).arg(root.join("target/trials"));
    command.arg("--binary").arg(release_binary(root));
    execute(command)
}

/// What the release build made.
fn release_binary(root: &Path) -> PathBuf {
    let name = format!("polaris{}", std::env::consts::EXE_SUFFIX);
    target_folder(root, |name| std::env::var_os(name)).join("release").join(name)
}

fn quickstart(root: &Path) -> Result<Done> {
    let mut command = Command::new(release_binary(root));
    command.arg("quickstart").current_dir(root);
    execute(command)
}

/// Runs cargo with inherited output.
fn cargo(root: &Path, arguments: &[&str]) -> Result<Done> {
    let mut command = cargo_command(root);
    command.args(arguments);
    execute(command)
}

/// The cargo that started us, so that a `+toolchain` holds for the children too.
fn cargo_command(root: &Path) -> Command {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    command.current_dir(root);
    command
}

fn execute(mut command: Command) -> Result<Done> {
    let program = command.get_program().to_owned();
    let status = command.status().with_context(|| format!("cannot start {}", program.display()))?;
    if !status.success() {
        bail!("{} ended with {status}", Path::new(&program).display());
    }
    Ok(Done::Passed)
}

/// Whether `list`, the value of [`REQUIRE`], contains `name`.
fn is_required(name: &str, list: Option<&str>) -> bool {
    list.unwrap_or_default().split(',').any(|entry| entry.trim() == name)
}

/// Where cargo puts its output; a relative folder counts from `root`, where cargo runs.
fn target_folder(root: &Path, variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let folder = variable("CARGO_TARGET_DIR").or_else(|| variable("CARGO_BUILD_TARGET_DIR"));
    root.join(folder.unwrap_or_else(|| "target".into()))
}

fn seconds(time: Duration) -> String {
    format!("{:8.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_whole_entries() {
        assert!(is_required("isa", Some("opencl,rusticl,isa")));
        assert!(is_required("isa", Some(" isa ")));
        assert!(!is_required("isa", Some("isaac,opencl")));
        assert!(!is_required("isa", Some("")));
        assert!(!is_required("isa", None));
    }

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

    #[test]
    fn times_are_aligned() {
        assert_eq!(seconds(Duration::from_millis(1_250)), "     1.2 s");
        assert_eq!(seconds(Duration::from_secs(600)), "   600.0 s");
    }
}
