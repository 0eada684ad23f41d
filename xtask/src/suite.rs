//! `cargo xtask test`: everything that has to hold before a change is done, in one command.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{binaries, cargo};

/// Comma-separated names of what must not be skipped; tests of the crates read it too.
const REQUIRE: &str = "POLARIS_REQUIRE";

/// What the random cases of property tests are drawn from.
const RANDOM_SEED: &str = "PROPTEST_RNG_SEED";

/// Says that the longest tests shall run in full; the tests read it.
const LONG: &str = "POLARIS_TEST_LONG";

/// The exit code by which `polaris-tasks isa` says that there is no compiler.
const NO_COMPILER: u8 = 3;

/// What steps are given.
struct Setting {
    root: PathBuf,
    /// Whether the longest tests run in full.
    long: bool,
}

/// How a step ended, if it did not fail.
enum Done {
    Passed,
    Skipped(String),
}

/// A step: its name and what it does.
type Step = (&'static str, fn(&Setting) -> Result<Done>);

/// Cheap steps come first, so that a slip in formatting does not cost a build.
const STEPS: [Step; 12] = [
    ("format", |setting| cargo(setting, &["fmt", "--all", "--check"])),
    ("clippy", |setting| {
        cargo(setting, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
    }),
    ("features", features),
    ("build", build),
    ("tests", tests),
    ("examples", examples),
    ("examples in documentation", documentation_tests),
    ("documentation", documentation),
    ("gfx803 report", gfx803_report),
    (RELEASE_BUILD, |setting| cargo(setting, &["build", "--release", "-p", "polaris-cli"])),
    ("trials", trials),
    ("quickstart", quickstart),
];

/// The step that `--long` has alone: it compiles everything once more, and the tests run without it.
const RELEASE_BUILD: &str = "release build";

/// Runs all steps and stops at the first that fails; false when one did.
pub fn run(long: bool) -> bool {
    let setting = Setting { root: crate::repository(), long };
    let mut summary = Vec::new();
    let mut passed = true;
    let mut skipped = 0;
    for (name, step) in STEPS.into_iter().filter(|(name, _)| long || *name != RELEASE_BUILD) {
        println!("==> {name}");
        let start = Instant::now();
        let result = step(&setting);
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

/// The examples of the library, which are run as well.
const EXAMPLES: [&str; 5] = ["kernel", "onnx", "tensor", "tools", "train"];

/// The tests, and the programs that later steps start: asked for together, they share every crate.
fn build(setting: &Setting) -> Result<Done> {
    let programs = ["polaris", "polaris-tasks", "polaris-trials"];
    let programs = programs.iter().flat_map(|name| ["--bin", name]);
    let examples = EXAMPLES.iter().flat_map(|name| ["--example", name]);
    let arguments = ["build", "--workspace", "--tests"].into_iter().chain(programs).chain(examples);
    cargo(setting, &arguments.collect::<Vec<_>>())
}

/// The library without features, and with those that gate the others' code.
fn features(setting: &Setting) -> Result<Done> {
    for features in ["", "train", "image", "llm"] {
        let arguments =
            ["clippy", "-p", "polaris", "--no-default-features", "--features", features];
        cargo(setting, &[&arguments[..], &["--", "-D", "warnings"]].concat())?;
    }
    Ok(Done::Passed)
}

fn examples(setting: &Setting) -> Result<Done> {
    for name in EXAMPLES {
        let mut command = Command::new(cargo::binary(&setting.root, "debug/examples", name));
        command.current_dir(&setting.root);
        variables(setting, &mut command);
        cargo::execute(command)?;
    }
    Ok(Done::Passed)
}

fn tests(setting: &Setting) -> Result<Done> {
    binaries::run(&setting.root, |command| variables(setting, command)).map(|()| Done::Passed)
}

fn documentation_tests(setting: &Setting) -> Result<Done> {
    let mut command = cargo::command(&setting.root);
    command.args(["test", "--workspace", "--doc"]);
    variables(setting, &mut command);
    cargo::execute(command).map(|()| Done::Passed)
}

/// What tests read. The random cases are the same each time: a change is refused for what it does, not for what was
/// drawn. `cargo test` by itself draws new ones.
fn variables(setting: &Setting, command: &mut Command) {
    if std::env::var_os(RANDOM_SEED).is_none() {
        command.env(RANDOM_SEED, "580");
    }
    if setting.long {
        command.env(LONG, "1");
    }
    command.env("POLARIS_TEST_DIR", test_folder(&setting.root));
    share_kernels_of_pocl(command, &setting.root);
}

fn documentation(setting: &Setting) -> Result<Done> {
    let mut command = cargo::command(&setting.root);
    command.args(["doc", "--no-deps", "--workspace"]).env("RUSTDOCFLAGS", "-D warnings");
    cargo::execute(command).map(|()| Done::Passed)
}

/// All programs, or only those that differ from the table of the repository and a sample of the others.
fn gfx803_report(setting: &Setting) -> Result<Done> {
    let check = (!setting.long).then_some("--check");
    let arguments: Vec<String> =
        check.into_iter().chain(["--verbose"]).map(str::to_owned).collect();
    match cargo::task(&setting.root, "isa", &arguments)? {
        0 => Ok(Done::Passed),
        NO_COMPILER if is_required("isa", std::env::var(REQUIRE).ok().as_deref()) => {
            bail!("there is no compiler for gfx803, and {REQUIRE} contains isa");
        }
        NO_COMPILER => Ok(Done::Skipped("there is no compiler for gfx803".to_owned())),
        _ => bail!("a program does not compile, spills, uses scratch, or is not as in the table"),
    }
}

/// The same trials each time, for the reason of [`variables`]; a machine that is busy has a minute for each
/// process.
fn trials(setting: &Setting) -> Result<Done> {
    if !cfg!(unix) {
        return Ok(Done::Skipped("they need Unix".to_owned()));
    }
    let root = &setting.root;
    let mut command = Command::new(cargo::binary(root, "debug", "polaris-trials"));
    command.current_dir(root).args(["--runs", "400", "--seed", "580"]);
    command.args(["--hang", "60", "--keep"]).arg(root.join("target/trials"));
    command.arg("--binary").arg(polaris(setting));
    cargo::execute(command).map(|()| Done::Passed)
}

/// As on a machine that has not seen Polaris before, but for programs that the tests have built.
fn quickstart(setting: &Setting) -> Result<Done> {
    let root = &setting.root;
    let folder = test_folder(root);
    let data = folder.join("quickstart");
    if data.exists() {
        std::fs::remove_dir_all(&data)
            .with_context(|| format!("cannot remove {}", data.display()))?;
    }
    let mut command = Command::new(polaris(setting));
    command.arg("quickstart").current_dir(root);
    command.env("POLARIS_DATA_DIR", data).env("POLARIS_CACHE_DIR", folder.join("cache"));
    share_kernels_of_pocl(&mut command, root);
    cargo::execute(command).map(|()| Done::Passed)
}

/// The command that trials and the quickstart start: what is shipped, or what was built for the tests.
fn polaris(setting: &Setting) -> PathBuf {
    cargo::binary(&setting.root, if setting.long { "release" } else { "debug" }, "polaris")
}

/// PoCL compiles a kernel when it is launched first, and keeps it in the user's folder unless told otherwise. For a
/// binary it compiles a form for any grid; without specialisation it launches that form too, and compiles no other.
fn share_kernels_of_pocl(command: &mut Command, root: &Path) {
    let folder = test_folder(root).join("pocl");
    let settings = [
        ("POCL_CACHE_DIR", folder.into_os_string()),
        ("POCL_WORK_GROUP_SPECIALIZATION", "0".into()),
    ];
    for (name, value) in settings {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
}

/// What tests write beside temporary files; `.cargo/config.toml` names it too.
fn test_folder(root: &Path) -> PathBuf {
    root.join("target/test")
}

/// Runs cargo with inherited output.
fn cargo(setting: &Setting, arguments: &[&str]) -> Result<Done> {
    cargo::run(&setting.root, arguments).map(|()| Done::Passed)
}

/// Whether `list`, the value of [`REQUIRE`], contains `name`.
fn is_required(name: &str, list: Option<&str>) -> bool {
    list.unwrap_or_default().split(',').any(|entry| entry.trim() == name)
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
    fn times_are_aligned() {
        assert_eq!(seconds(Duration::from_millis(1_250)), "     1.2 s");
        assert_eq!(seconds(Duration::from_secs(600)), "   600.0 s");
    }
}
