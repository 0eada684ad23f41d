//! Checking a device: its kernels against the reference, and what to do about those that fail.
//!
//! A check is a job that reports events. Drivers crash and hang, so whoever runs it on one should
//! do so in another process, and add up the events in a [`Tally`]: the last kernel that was begun
//! is the one that did it, and the next job goes on without it.

use std::time::{Duration, Instant};

use polaris_runtime::DeviceRef;
use serde::{Deserialize, Serialize};

use crate::plan::{Level, Listed, Planned, Scope, Unit, cases};
use crate::tally::{CheckReport, Tally};
use polaris_ops::FAMILIES;
use polaris_ops::suite::Case;

/// What to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Task {
    /// Say which kernels could run each case of these operations. Nothing is launched and no program is built.
    List(Scope),
    /// Run kernels.
    Run(Vec<Unit>),
    /// Run cases as a user would, with the kernels that are left out quarantined.
    Verify(Vec<usize>),
}

/// What to do, and how.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// What to do.
    pub task: Task,
    /// Kernels that nothing may take, since they are wrong.
    pub skip: Vec<String>,
    /// No case is begun after this long.
    pub time_limit: Option<Duration>,
    /// Whether programs that are built stay on disk.
    pub keep_programs: bool,
}

/// What happens while a job runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Event {
    /// The kernels that could run a case.
    Listed {
        /// The case.
        case: usize,
        /// The kernels.
        listed: Listed,
    },
    /// A kernel is about to run.
    Begin {
        /// The case.
        case: usize,
        /// The kernel.
        kernel: String,
    },
    /// A kernel has run.
    Finding {
        /// The case.
        case: usize,
        /// The kernel.
        kernel: String,
        /// The share of the allowed error that it used, or what was wrong.
        outcome: Result<f64, String>,
    },
    /// A case has run as a user would.
    Verified {
        /// The case.
        case: usize,
        /// What was wrong, if anything.
        problem: Option<String>,
    },
    /// The job has ended.
    End {
        /// Whether the user ended it.
        cancelled: bool,
    },
}

/// Runs a job on a device.
pub fn run_job(
    device: &DeviceRef,
    job: &Job,
    cancelled: &dyn Fn() -> bool,
    emit: &mut dyn FnMut(Event),
) {
    let cases = cases();
    if let Some(opencl) = device.as_opencl() {
        // What was quarantined earlier gets a new chance: the driver may have been mended.
        opencl.clear_quarantine();
        opencl.keep_programs(job.keep_programs);
        job.skip.iter().for_each(|kernel| opencl.quarantine(kernel));
    }
    let stopped = match &job.task {
        Task::List(scope) => list(device, &cases, scope, cancelled, emit),
        Task::Run(units) => run_units(device, &cases, units, job.time_limit, cancelled, emit),
        Task::Verify(wrong) => {
            for &case in wrong {
                emit(Event::Begin { case, kernel: String::new() });
                let problem = cases.get(case).and_then(|case| case.case().run(device).err());
                emit(Event::Verified { case, problem });
            }
            false
        }
    };
    emit(Event::End { cancelled: stopped });
}

/// Returns whether the user ended it.
fn list(
    device: &DeviceRef,
    cases: &[Planned],
    scope: &Scope,
    cancelled: &dyn Fn() -> bool,
    emit: &mut dyn FnMut(Event),
) -> bool {
    let of_scope = |(_, planned): &(usize, &Planned)| scope.contains(FAMILIES[planned.suite].name);
    for (number, planned) in cases.iter().enumerate().filter(of_scope) {
        if cancelled() {
            return true;
        }
        let case = planned.case();
        // No room for the arrays is not a kernel's fault: the case is left out, as on a smaller card.
        if let Ok(kernels) = case.kernels(device) {
            let listed = Listed { kernels, computes: case.computes() };
            emit(Event::Listed { case: number, listed });
        }
    }
    false
}

/// Returns whether the user ended it.
fn run_units(
    device: &DeviceRef,
    cases: &[Planned],
    units: &[Unit],
    time_limit: Option<Duration>,
    cancelled: &dyn Fn() -> bool,
    emit: &mut dyn FnMut(Event),
) -> bool {
    let start = Instant::now();
    let mut last: Option<(usize, Case, Vec<String>)> = None;
    for Unit { case, kernel } in units.iter().cloned() {
        if cancelled() {
            return true;
        }
        if time_limit.is_some_and(|limit| start.elapsed() >= limit) {
            return false;
        }
        let Some(planned) = cases.get(case) else { continue };
        if last.as_ref().is_none_or(|last| last.0 != case) {
            let made = planned.case();
            let kernels = made.kernels(device).unwrap_or_default();
            last = Some((case, made, kernels));
        }
        let Some((_, made, kernels)) = &last else { continue };
        emit(Event::Begin { case, kernel: kernel.clone() });
        let outcome = match kernels.iter().position(|known| *known == kernel) {
            Some(index) => made.run_kernel(device, index),
            None => Err("the device no longer offers it".to_owned()),
        };
        emit(Event::Finding { case, kernel, outcome });
    }
    false
}

/// Checks a device in this process: for the CPU, and for drivers that tests trust not to crash.
/// Kernels that are wrong are quarantined, and their cases run again without them.
pub fn check_device(
    device: &DeviceRef,
    scope: &Scope,
    cancelled: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(&Tally),
) -> CheckReport {
    let mut tally = Tally::default();
    let task = Task::List(scope.clone());
    let mut job = Job { task, skip: Vec::new(), time_limit: None, keep_programs: true };
    run_job(device, &job, cancelled, &mut |event| tally.add(event));
    tally.choose(match (scope.level, device.as_cpu()) {
        // There is nothing to build, so that all of it takes seconds.
        (Level::Standard, Some(_)) => Level::Full,
        (level, _) => level,
    });
    job.task = Task::Run(tally.left().to_vec());
    run_job(device, &job, cancelled, &mut |event| {
        tally.add(event);
        progress(&tally);
    });
    if device.as_opencl().is_some() && !tally.wrong_cases().is_empty() {
        job.task = Task::Verify(tally.wrong_cases());
        job.skip = tally.wrong_kernels();
        run_job(device, &job, cancelled, &mut |event| tally.add(event));
    }
    tally.into_report()
}
