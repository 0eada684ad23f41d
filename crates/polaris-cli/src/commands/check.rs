//! `polaris check`: every operation against its reference, on the user's own devices.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use polaris::runtime::machine::{CheckRecord, CheckStatus, QuarantinedKernel};
use polaris::runtime::opencl::ProgramCounts;
use polaris::{DeviceId, DeviceRef};
use polaris_testkit::{CheckReport, Coverage, Level, check_device};
use serde::Serialize;

use crate::arguments::{Check, Global};
use crate::output::{self, Table};
use crate::session::Session;
use crate::supervisor::{Limits, supervise};
use crate::{exit, interrupt, supervisor};

/// What a check of some devices found.
#[derive(Serialize)]
pub struct Checked {
    /// Whether every kernel was right.
    pub ok: bool,
    /// Each device.
    pub devices: Vec<CheckedDevice>,
    /// How programs came to be, over all devices.
    pub programs: ProgramCounts,
}

/// What a check of a device found.
#[derive(Serialize)]
pub struct CheckedDevice {
    pub device: DeviceId,
    pub name: String,
    pub driver: String,
    pub seconds: f64,
    /// Whether results are right, be it by leaving kernels out.
    pub results_are_right: bool,
    #[serde(flatten)]
    pub report: CheckReport,
}

/// The quick check begins no case after this: with what comes before and after it stays under
/// five seconds.
const QUICK_LIMIT: Duration = Duration::from_secs(2);

pub fn run(global: Global, options: &Check) -> anyhow::Result<u8> {
    if options.worker {
        return supervisor::work(global);
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
    let checked = check(&mut session, level, limit)?;
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

/// The check of a device that is seen for the first time.
pub fn first_check(session: &mut Session, device: &DeviceRef) -> anyhow::Result<CheckedDevice> {
    check_one(session, device, Level::Quick, Some(QUICK_LIMIT), &mut ProgramCounts::default())
}

/// Checks the chosen devices and remembers what was found.
pub fn check(
    session: &mut Session,
    level: Level,
    limit: Option<Duration>,
) -> anyhow::Result<Checked> {
    let mut devices = Vec::new();
    let mut programs = ProgramCounts::default();
    for device in session.devices()? {
        let checked = check_one(session, &device, level, limit, &mut programs)?;
        let cancelled = checked.report.cancelled;
        devices.push(checked);
        if cancelled {
            break;
        }
    }
    let ok = devices.iter().all(|device| device.report.failures().next().is_none());
    Ok(Checked { ok, devices, programs })
}

fn check_one(
    session: &mut Session,
    device: &DeviceRef,
    level: Level,
    limit: Option<Duration>,
    programs: &mut ProgramCounts,
) -> anyhow::Result<CheckedDevice> {
    let start = Instant::now();
    let bar = output::progress(0, &format!("checking {}", device.id()));
    let mut progress = |tally: &polaris_testkit::Tally| {
        let (done, total, suite) = tally.progress();
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        bar.set_message(suite);
    };
    let report = match device.as_opencl() {
        // Drivers crash and hang: another process takes the risk.
        Some(opencl) => {
            let limits = Limits { whole: limit, ..Limits::default() };
            let supervised = supervise(&session.global, device, level, limits, &mut progress)?;
            for counts in [supervised.programs, opencl.program_counts()] {
                programs.built += counts.built;
                programs.from_disk += counts.from_disk;
            }
            supervised.report
        }
        None => check_device(device, level, &interrupt::requested, &mut progress),
    };
    bar.finish_and_clear();
    remember(session, device, level, &report);
    Ok(CheckedDevice {
        device: device.id(),
        name: device.info().name.clone(),
        driver: device.info().driver.clone(),
        seconds: start.elapsed().as_secs_f64(),
        results_are_right: report.results_are_right(),
        report,
    })
}

fn remember(session: &mut Session, device: &DeviceRef, level: Level, report: &CheckReport) {
    let quarantine: Vec<QuarantinedKernel> = report
        .failures()
        // The CPU has no other way to go, so nothing can be kept out of its way.
        .filter(|_| device.as_opencl().is_some())
        .map(|kernel| QuarantinedKernel {
            kernel: kernel.kernel.clone(),
            reason: kernel.reason.clone().unwrap_or_default(),
        })
        .collect();
    let status =
        match (report.cancelled, report.results_are_right(), report.failures().next().is_none()) {
            (true, ..) => CheckStatus::Cancelled,
            (_, false, _) => CheckStatus::Unusable,
            (_, _, true) => CheckStatus::Passed,
            (_, _, false) => CheckStatus::Failed,
        };
    let passed = report.kernels.iter().filter(|kernel| kernel.failed == 0);
    let tested: Vec<String> = passed.map(|kernel| kernel.kernel.clone()).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let record = CheckRecord {
        status,
        quick: level == Level::Quick || report.left_out > 0,
        passed: tested.len(),
        failed: report.failures().count(),
        polaris: env!("CARGO_PKG_VERSION").to_owned(),
        unix_time: now.map_or(0, |time| time.as_secs()),
    };
    session.remember(device.as_ref(), |profile| {
        // A check that came to nothing says nothing.
        if record.passed + record.failed > 0 || report.cancelled {
            profile.check = Some(record.clone());
        }
        // What was run now is judged by it; what was not keeps its earlier verdict. A check that
        // was broken off may have broken what it was at.
        if report.cancelled {
            return;
        }
        profile.quarantine.retain(|old| {
            !tested.contains(&old.kernel) && quarantine.iter().all(|new| new.kernel != old.kernel)
        });
        profile.quarantine.extend(quarantine.iter().cloned());
    });
}

/// Prints a table per device, and what was wrong.
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
            Some(true) => "quarantined; without it results are right",
            Some(false) => "quarantined, and results are STILL WRONG without it",
            None if device.report.cancelled => "quarantined",
            None => "there is nothing to take its place",
        };
        let reason = kernel.reason.as_deref().unwrap_or_default();
        output::print_line(&format!("  {}: {way}\n    {reason}", kernel.kernel))?;
    }
    let rest = match (report.left_out, report.cancelled) {
        (0, _) => String::new(),
        (n, true) => format!("; stopped, {n} cases were left out"),
        (n, false) => format!("; {n} cases were left out for time (`--limit SECONDS` gives more)"),
    };
    output::print_line(&format!(
        "  {} of {} kernels, {} cases in {:.1} s{rest}",
        report.kernels_run, report.kernels_exist, report.cases, device.seconds
    ))
}
