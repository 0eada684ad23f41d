//! `polaris onnx-test`: runs the test data of the ONNX standard.

use std::collections::BTreeMap;

use polaris::graph::conformance::Planned;
use polaris::onnx::conformance::{Outcome, Status, find_cases, run_case};
use serde::Serialize;

use super::options;
use crate::arguments::{Global, OnnxTest};
use crate::exit;
use crate::interrupt;
use crate::output::{self, Table, print_line, progress};
use crate::session::Session;

#[derive(Serialize)]
struct Result {
    mode: &'static str,
    device: String,
    total: usize,
    passed: usize,
    failed: usize,
    unsupported: usize,
    wholly_on_device: usize,
    folders: Vec<Folder>,
    cases: Vec<Outcome>,
}

#[derive(Serialize)]
struct Folder {
    folder: String,
    total: usize,
    passed: usize,
    failed: usize,
    unsupported: usize,
    wholly_on_device: usize,
}

pub fn run(global: Global, arguments: &OnnxTest) -> anyhow::Result<u8> {
    let json = global.json;
    let mut session = Session::for_mode(global, arguments.mode)?;
    let options = options(&mut session, arguments.mode, &arguments.passes)?;
    let mut sets = Vec::new();
    for folder in &arguments.folders {
        let mut cases = find_cases(folder)?;
        cases.retain(|case| case.name.contains(&arguments.only));
        sets.push((folder, cases));
    }
    let total: usize = sets.iter().map(|(_, cases)| cases.len()).sum();
    let bar = progress(total, "tests");
    let side =
        |device: &Option<polaris::DeviceRef>| device.as_ref().map(|device| device.id().to_string());
    let mut result = Result {
        mode: if options.mode == polaris::graph::Mode::Cpu { "cpu" } else { "gpu" },
        device: side(&options.device).unwrap_or_default(),
        total,
        passed: 0,
        failed: 0,
        unsupported: 0,
        wholly_on_device: 0,
        folders: Vec::new(),
        cases: Vec::new(),
    };
    let mut engine = Planned { runtime: &session.runtime, options };
    // A panic is an outcome here; its message would break the progress bar.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    for (folder, cases) in &sets {
        let mut outcomes = Vec::with_capacity(cases.len());
        for case in cases {
            if interrupt::requested() {
                break;
            }
            outcomes.push(run_case(case, &mut engine));
            bar.inc(1);
        }
        let count =
            |status: Status| outcomes.iter().filter(|outcome| outcome.status == status).count();
        result.folders.push(Folder {
            folder: folder.display().to_string(),
            total: outcomes.len(),
            passed: count(Status::Passed),
            failed: count(Status::Failed),
            unsupported: count(Status::Unsupported),
            wholly_on_device: outcomes.iter().filter(|outcome| outcome.wholly_on_device).count(),
        });
        result.cases.extend(outcomes);
    }
    std::panic::set_hook(hook);
    bar.finish_and_clear();
    if interrupt::requested() {
        return Err(polaris::runtime::Error::Interrupted.into());
    }
    for folder in &result.folders {
        result.passed += folder.passed;
        result.failed += folder.failed;
        result.unsupported += folder.unsupported;
        result.wholly_on_device += folder.wholly_on_device;
    }
    let failed = result.failed;
    match json {
        true => output::print_json("polaris.onnx-test/1", &result)?,
        false => print(&result)?,
    }
    Ok(if failed > 0 { exit::FOUND_WRONG } else { exit::OK })
}

fn print(result: &Result) -> anyhow::Result<()> {
    for case in result.cases.iter().filter(|case| case.status == Status::Failed) {
        print_line(&format!("failed: {}: {}", case.name, case.reason))?;
    }
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for case in result.cases.iter().filter(|case| case.status == Status::Unsupported) {
        reasons.entry(&case.reason).or_default().push(&case.name);
    }
    for (reason, cases) in reasons {
        print_line(&format!("{reason} ({} tests, such as {})", cases.len(), cases[0]))?;
    }
    let mut table = Table::new(&[
        "folder",
        ">tests",
        ">passed",
        ">failed",
        ">unsupported",
        ">entirely on device",
        ">share",
    ]);
    for folder in &result.folders {
        let share = 100.0 * folder.passed as f64 / folder.total.max(1) as f64;
        table.row(vec![
            folder.folder.clone(),
            folder.total.to_string(),
            folder.passed.to_string(),
            folder.failed.to_string(),
            folder.unsupported.to_string(),
            folder.wholly_on_device.to_string(),
            format!("{share:.1} %"),
        ]);
    }
    table.print()
}
