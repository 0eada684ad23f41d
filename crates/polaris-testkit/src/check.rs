//! Checking a device: every kernel against the reference, and what to do about those that fail.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use polaris_runtime::DeviceRef;
use serde::Serialize;

use crate::case::Case;
use crate::suites::{CaseParameters, SUITES};

/// How much is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// A few cases of what is used most, in a few seconds.
    Quick,
    /// Every operation and type once, with the kernel that is chosen for it: half a minute on a
    /// driver that compiles slowly.
    Standard,
    /// Every kernel in every kind of layout.
    Full,
}

/// How a check runs.
pub struct CheckOptions<'a> {
    /// How much is checked.
    pub level: Level,
    /// No case is begun after this long.
    pub time_limit: Option<Duration>,
    /// Whether the user wants it to end.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
    /// Told how many cases are done, of how many, and what is next.
    pub progress: &'a mut dyn FnMut(usize, usize, &str),
}

/// How one kernel did.
#[derive(Debug, Clone, Serialize)]
pub struct KernelResult {
    /// The operation's suite.
    pub suite: &'static str,
    /// The kernel.
    pub kernel: String,
    /// Cases it was right in.
    pub passed: usize,
    /// Cases it was wrong in, or failed.
    pub failed: usize,
    /// The largest share of the allowed error that it used.
    pub worst: f64,
    /// What was wrong first.
    pub reason: Option<String>,
    /// If it was wrong: whether results are right with the kernel left out.
    pub worked_around: Option<bool>,
}

/// How a device did.
#[derive(Debug, Clone, Serialize)]
pub struct CheckReport {
    /// Each kernel that was run.
    pub kernels: Vec<KernelResult>,
    /// Cases that were run.
    pub cases: usize,
    /// Cases that the time limit or the user left out.
    pub left_out: usize,
    /// Whether the user ended it.
    pub cancelled: bool,
}

impl CheckReport {
    /// The kernels that were wrong.
    pub fn failures(&self) -> impl Iterator<Item = &KernelResult> {
        self.kernels.iter().filter(|kernel| kernel.failed > 0)
    }

    /// Whether results are right on this device: each kernel was, or could be left out.
    pub fn results_are_right(&self) -> bool {
        self.failures().all(|kernel| kernel.worked_around == Some(true))
    }
}

/// Runs the suites on a device. Kernels that are wrong are quarantined in this process, and their
/// cases run again without them.
pub fn check_device(device: &DeviceRef, options: CheckOptions<'_>) -> CheckReport {
    let CheckOptions { level, time_limit, cancelled, progress } = options;
    let start = Instant::now();
    // What was quarantined earlier gets a new chance: the driver may have been mended.
    if let Some(opencl) = device.as_opencl() {
        opencl.clear_quarantine();
    }
    let planned = plan(level);
    let mut kernels: BTreeMap<(usize, String), KernelResult> = BTreeMap::new();
    let mut wrong: Vec<(usize, Vec<String>, Case)> = Vec::new();
    let mut done = 0;
    let mut was_cancelled = false;
    for &(suite, variant, ref parameters) in &planned {
        was_cancelled = cancelled();
        if was_cancelled || time_limit.is_some_and(|limit| start.elapsed() >= limit) {
            break;
        }
        progress(done, planned.len(), SUITES[suite].name);
        let case = (SUITES[suite].case)(variant, parameters);
        let mut failed = Vec::new();
        let findings = match level {
            Level::Standard => case.run_chosen_kernel(device),
            _ => case.run_all_kernels(device),
        };
        for finding in findings {
            let result =
                kernels.entry((suite, finding.kernel.clone())).or_insert_with(|| KernelResult {
                    suite: SUITES[suite].name,
                    kernel: finding.kernel.clone(),
                    passed: 0,
                    failed: 0,
                    worst: 0.0,
                    reason: None,
                    worked_around: None,
                });
            match finding.outcome {
                Ok(used) => {
                    result.passed += 1;
                    result.worst = result.worst.max(used);
                }
                Err(reason) => {
                    result.failed += 1;
                    result.reason.get_or_insert(reason);
                    failed.push(finding.kernel);
                }
            }
        }
        if !failed.is_empty() {
            wrong.push((suite, failed, case));
        }
        done += 1;
    }
    work_around(device, &mut kernels, &wrong);
    let left_out = planned.len() - done;
    CheckReport {
        kernels: kernels.into_values().collect(),
        cases: done,
        left_out,
        cancelled: was_cancelled,
    }
}

/// Quarantines what was wrong, and runs the cases in which it was again.
fn work_around(
    device: &DeviceRef,
    kernels: &mut BTreeMap<(usize, String), KernelResult>,
    wrong: &[(usize, Vec<String>, Case)],
) {
    let Some(opencl) = device.as_opencl() else {
        return;
    };
    for kernel in kernels.values().filter(|kernel| kernel.failed > 0) {
        opencl.quarantine(&kernel.kernel);
    }
    for (suite, failed, case) in wrong {
        let right = case.run(device).is_ok();
        for kernel in failed {
            if let Some(result) = kernels.get_mut(&(*suite, kernel.clone())) {
                result.worked_around = Some(right && result.worked_around != Some(false));
            }
        }
    }
}

/// Which cases are run, in order: what is used most first, so that a check that is cut short has
/// seen a bit of everything.
fn plan(level: Level) -> Vec<(usize, usize, CaseParameters)> {
    let fixed = CaseParameters::fixed();
    let mut cases = Vec::new();
    for (layout, parameters) in fixed.iter().enumerate() {
        for (suite, description) in SUITES.iter().enumerate() {
            for variant in 0..(description.variants)() {
                let every = |n: usize| (variant + layout).is_multiple_of(n);
                let wanted = match (level, layout) {
                    (Level::Full, _) => true,
                    (Level::Standard, FIRST_LAYOUT) => {
                        (description.is_essential)(variant) || every(9)
                    }
                    (Level::Standard, TRANSPOSED_LAYOUT) => every(9),
                    (Level::Quick, FIRST_LAYOUT | TRANSPOSED_LAYOUT) => every(11),
                    _ => false,
                };
                if wanted {
                    cases.push((suite, variant, parameters.clone()));
                }
            }
        }
    }
    cases
}

/// Places in `CaseParameters::fixed`: a dense one with special values, and a transposed one.
const FIRST_LAYOUT: usize = 0;
const TRANSPOSED_LAYOUT: usize = 7;
