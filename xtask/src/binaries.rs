//! Runs the test binaries side by side. `cargo test` runs one after the other, and OpenCL compilers in one process take
//! turns, so that a binary alone leaves cores idle.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cargo;

/// Packages whose tests take longest, and in how many processes they run; they begin first.
const LONGEST: [(&str, usize); 4] =
    [("polaris-testkit", 4), ("polaris-cli", 3), ("polaris-graph", 2), ("polaris-tensor", 1)];

/// A test binary, and the folder of its package, where it runs.
#[derive(Clone)]
struct Tests {
    package: String,
    binary: PathBuf,
    folder: PathBuf,
    /// Some of its tests by name; all, if there is none.
    names: Vec<String>,
}

/// Builds what is missing, and runs all test binaries with these variables.
pub fn run(root: &Path, set: impl Fn(&mut Command) + Sync) -> Result<()> {
    let mut all = Vec::new();
    for tests in binaries(root)? {
        all.extend(parts(tests)?);
    }
    let rank = |tests: &Tests| {
        LONGEST.iter().position(|(name, _)| *name == tests.package).unwrap_or(LONGEST.len())
    };
    all.sort_by_key(rank);
    all.reverse();
    let waiting = Mutex::new(all);
    let failed = Mutex::new(Vec::new());
    let work = || {
        loop {
            let next = waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop();
            let Some(tests) = next else { break };
            let start = Instant::now();
            let output = one(&tests, &set);
            let is_right = report(&tests, output, start.elapsed());
            if !is_right {
                let mut failed = failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                failed.push(tests.binary.display().to_string());
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    std::thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let failed = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !failed.is_empty() {
        bail!("tests failed in {}", failed.join(", "));
    }
    Ok(())
}

/// What cargo has built, by what it says about it.
fn binaries(root: &Path) -> Result<Vec<Tests>> {
    let mut command = cargo::command(root);
    command.args(["test", "--workspace", "--tests", "--no-run", "--message-format=json"]);
    let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("cargo ended with {}", output.status);
    }
    let mut all = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line).context("not a message of cargo")?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let is_test = message["profile"]["test"] == true;
        let (Some(binary), Some(manifest), true) =
            (text(&message["executable"]), text(&message["manifest_path"]), is_test)
        else {
            continue;
        };
        let folder = Path::new(&manifest).parent().unwrap_or(root).to_owned();
        let package = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        all.push(Tests { package, binary: binary.into(), folder, names: Vec::new() });
    }
    Ok(all)
}

/// The tests of a long binary in several processes. Its tests are dealt out in turn, so that neighbours, which take about
/// as long, go to different ones.
fn parts(tests: Tests) -> Result<Vec<Tests>> {
    let count =
        LONGEST.iter().find(|(name, _)| *name == tests.package).map_or(1, |(_, count)| *count);
    if count == 1 {
        return Ok(vec![tests]);
    }
    let output = Command::new(&tests.binary).args(["--list", "--format=terse"]).output();
    let output = output.with_context(|| format!("cannot start {}", tests.binary.display()))?;
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    let names: Vec<&str> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    if !output.status.success() || names.len() < 2 * count {
        return Ok(vec![tests]);
    }
    let part = |number: usize| Tests {
        names: names.iter().skip(number).step_by(count).map(|name| (*name).to_owned()).collect(),
        ..tests.clone()
    };
    Ok((0..count).map(part).collect())
}

fn one(tests: &Tests, set: &(impl Fn(&mut Command) + Sync)) -> Result<Output> {
    let mut command = Command::new(&tests.binary);
    command.current_dir(&tests.folder).env("CARGO_MANIFEST_DIR", &tests.folder);
    if !tests.names.is_empty() {
        command.arg("--exact").args(&tests.names);
    }
    set(&mut command);
    command.output().with_context(|| format!("cannot start {}", tests.binary.display()))
}

/// Prints a binary's output as a whole; returns whether its tests passed.
fn report(tests: &Tests, output: Result<Output>, time: Duration) -> bool {
    let mut text = format!("--- {} ({:.1} s)\n", tests.package, time.as_secs_f64());
    let is_right = match output {
        Ok(output) => {
            text.push_str(&String::from_utf8_lossy(&output.stdout));
            text.push_str(&String::from_utf8_lossy(&output.stderr));
            output.status.success()
        }
        Err(error) => {
            text.push_str(&format!("{error:#}\n"));
            false
        }
    };
    print!("{text}");
    is_right
}
