//! Runs the test binaries side by side. `cargo test` runs one after the other, and OpenCL compilers in one process take
//! turns, so that a binary alone leaves cores idle.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cargo;

/// Packages whose tests take longest, and in how many processes they run; they begin first.
const LONGEST: [(&str, usize); 5] = [
    ("polaris-testkit", 4),
    ("polaris-llm", 2),
    ("polaris-cli", 3),
    ("polaris-graph", 2),
    ("polaris-tensor", 1),
];

/// The modules of these that take longest. Each has a process of its own, the first of its package: begun late, it would
/// leave all cores but one without work at the end.
const LONGEST_MODULES: [&str; 1] = ["coverage"];

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

/// The tests of a long binary in several processes.
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
    let part = |names| Tests { names, ..tests.clone() };
    Ok(deal(&names, count).into_iter().map(part).collect())
}

/// Deals tests out to at most `count` processes. Those of a module stay together, since they share what a process makes
/// once: the list of all kernels alone takes 4 seconds of a processor. The largest modules go first, each to the
/// process with the fewest tests; the longest come before them and have theirs alone.
fn deal(names: &[&str], count: usize) -> Vec<Vec<String>> {
    let mut modules = BTreeMap::<&str, Vec<String>>::new();
    for name in names {
        let module = name.split_once("::").map_or("", |(module, _)| module);
        modules.entry(module).or_default().push((*name).to_owned());
    }
    let longest: Vec<_> = LONGEST_MODULES.iter().filter_map(|name| modules.remove(name)).collect();
    let mut modules: Vec<_> = modules.into_values().collect();
    modules.sort_by_key(|tests| Reverse(tests.len()));
    let mut parts = vec![Vec::new(); count.saturating_sub(longest.len()).max(1)];
    for tests in modules {
        if let Some(part) = parts.iter_mut().min_by_key(|part| part.len()) {
            part.extend(tests);
        }
    }
    // A process that is given no names would run all tests.
    longest.into_iter().chain(parts).filter(|part| !part.is_empty()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_is_dealt_out_once_and_modules_stay_together() {
        let names = ["a::one", "a::two", "b::deep::one", "b::two", "c::one", "plain"];
        let parts = deal(&names, 2);
        assert_eq!(parts, [["a::one", "a::two", "plain"], ["b::deep::one", "b::two", "c::one"]]);
        let mut all = parts.concat();
        all.sort_unstable();
        assert_eq!(all, names);
    }

    #[test]
    fn the_longest_modules_begin_first_and_alone() {
        let names = ["a::one", "a::two", "b::one", "coverage::one", "coverage::two"];
        let parts = deal(&names, 3);
        assert_eq!(parts[0], ["coverage::one", "coverage::two"]);
        assert_eq!(parts[1..], [vec!["a::one", "a::two"], vec!["b::one"]]);
    }

    #[test]
    fn no_process_is_without_tests() {
        assert_eq!(deal(&["a::one", "a::two"], 3), [["a::one", "a::two"]]);
        assert!(deal(&[], 3).is_empty());
    }
}
