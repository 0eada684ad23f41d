//! `polaris check`: tests every operation against its reference, on the user's devices.

use std::collections::BTreeMap;
use std::time::Duration;

use polaris::runtime::opencl::ProgramCounts;
use polaris_testkit::supervise::CheckedDevice;
use polaris_testkit::{Coverage, Level, Scope};

use crate::arguments::{Check, Global};
use crate::checks::{self, Checked, QUICK_LIMIT};
use crate::exit;
use crate::output::{self, Table};
use crate::session::Session;

pub fn run(global: Global, options: &Check) -> anyhow::Result<u8> {
    if options.worker {
        return checks::work(global);
    }
    let json = global.json;
    let mut session = Session::new(global)?;
    let level = match (options.quick, options.full) {
        (true, _) => Level::Quick,
        (_, true) => Level::Full,
        (false, false) => Level::Standard,
    };
    let limit = options.limit.map(|seconds| Duration::from_secs(seconds.into()));
    let limit = limit.or(options.quick.then_some(QUICK_LIMIT));
    let scope = Scope { level, operations: options.operations.clone() };
    let checked = checks::check(&mut session, &scope, limit)?;
    if json {
        output::print_json("polaris.check/1", &checked)?;
    } else {
        print(&checked)?;
    }
    let cancelled = checked.devices.iter().any(|device| device.report.cancelled);
    Ok(match (cancelled, checked.ok) {
        (true, _) => exit::INTERRUPTED,
        (_, true) => exit::OK,
        (_, false) => exit::FOUND_WRONG,
    })
}

/// Prints a table per device, and the wrong kernels.
pub fn print(checked: &Checked) -> anyhow::Result<()> {
    for device in &checked.devices {
        output::print_line(&format!(
            "{} {} (driver {})",
            device.device, device.name, device.driver
        ))?;
        let mut sums: BTreeMap<&str, (usize, usize, f64)> = BTreeMap::new();
        for kernel in &device.report.kernels {
            let (runs, wrong, worst) = sums.entry(kernel.suite).or_default();
            *runs += kernel.passed + kernel.failed;
            *wrong += usize::from(kernel.failed > 0);
            *worst = worst.max(kernel.worst);
        }
        let mut table = Table::new(&[
            "operation",
            ">kernels",
            ">runs",
            ">wrong",
            ">worst error / allowed",
            "result",
        ]);
        for Coverage { suite, kernels_run, kernels_exist } in &device.report.suites {
            let (runs, wrong, worst) = sums.get(suite).copied().unwrap_or_default();
            let result = match (runs, wrong) {
                (0, _) => "-",
                (_, 0) => "pass",
                (_, _) => "FAIL",
            };
            table.row(vec![
                (*suite).into(),
                format!("{kernels_run} of {kernels_exist}"),
                runs.to_string(),
                wrong.to_string(),
                format!("{worst:.2}"),
                result.into(),
            ]);
        }
        table.print()?;
        print_failures(device)?;
    }
    let ProgramCounts { built, from_disk } = checked.programs;
    output::print_line(&format!("programs: {built} built, {from_disk} from disk"))
}

fn print_failures(device: &CheckedDevice) -> anyhow::Result<()> {
    let report = &device.report;
    for kernel in report.failures() {
        let way = match kernel.worked_around {
            Some(true) => "quarantined; results are correct without it",
            Some(false) => "quarantined, and results are STILL WRONG without it",
            None if device.report.cancelled => "quarantined",
            None => "nothing can replace it",
        };
        let reason = kernel.reason.as_deref().unwrap_or_default();
        output::print_line(&format!("  {}: {way}\n    {reason}", kernel.kernel))?;
    }
    let rest = match (report.left_out, report.cancelled) {
        (0, _) => String::new(),
        (n, true) => format!("; stopped, {n} cases were skipped"),
        (n, false) => format!("; {n} cases were skipped for time (`--limit SECONDS` allows more)"),
    };
    output::print_line(&format!(
        "  {} of {} kernels, {} cases in {:.1} s{rest}",
        report.kernels_run, report.kernels_exist, report.cases, device.seconds
    ))
}
