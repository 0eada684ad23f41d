//! Checking a device: every kernel against the reference, and what to do about those that fail.
//!
//! A check is a job that reports events. Drivers crash and hang, so whoever runs it on one should
//! do so in another process, and add up the events here: the last kernel that was begun is the
//! one that did it, and the next job goes on without it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use polaris_runtime::DeviceRef;
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::suites::{CaseParameters, SUITES};

/// How much is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A few cases of what is used most, in a few seconds.
    Quick,
    /// Every operation once, with the kernel that is chosen for it: half a minute on a driver
    /// that compiles slowly.
    Standard,
    /// Every kernel in every kind of layout.
    Full,
}

/// What to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// How much is checked.
    pub level: Level,
    /// The case to begin with.
    pub from: usize,
    /// Kernels to leave out, since they crash.
    pub skip: Vec<String>,
    /// Cases to run as a user would, with the kernels in `skip` quarantined, instead of the check.
    pub verify: Option<Vec<usize>>,
    /// No case is begun after this long.
    pub time_limit: Option<Duration>,
}

/// What happens while a job runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Event {
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
        /// The first case that was not begun.
        next: usize,
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
    let start = Instant::now();
    let planned = plan(job.level);
    if let Some(opencl) = device.as_opencl() {
        // What was quarantined earlier gets a new chance: the driver may have been mended.
        opencl.clear_quarantine();
        job.skip.iter().for_each(|kernel| opencl.quarantine(kernel));
    }
    if let Some(cases) = &job.verify {
        for &case in cases {
            emit(Event::Begin { case, kernel: String::new() });
            let problem = planned.get(case).and_then(|planned| planned.case().run(device).err());
            emit(Event::Verified { case, problem });
        }
        return emit(Event::End { next: planned.len(), cancelled: false });
    }
    for (case, planned_case) in planned.iter().enumerate().skip(job.from) {
        let stop = cancelled();
        if stop || job.time_limit.is_some_and(|limit| start.elapsed() >= limit) {
            return emit(Event::End { next: case, cancelled: stop });
        }
        run_case(device, job, case, &planned_case.case(), emit);
    }
    emit(Event::End { next: planned.len(), cancelled: false });
}

fn run_case(
    device: &DeviceRef,
    job: &Job,
    number: usize,
    case: &Case,
    emit: &mut dyn FnMut(Event),
) {
    // No room for the arrays is no kernel's fault: the case is left out, as on a smaller card.
    let Ok(kernels) = case.kernels(device) else {
        return;
    };
    // The chosen kernel comes first, then what would take its place.
    let most = match job.level {
        Level::Quick => 2,
        Level::Standard => 1,
        Level::Full => usize::MAX,
    };
    for (index, kernel) in kernels.into_iter().enumerate().take(most) {
        if !job.skip.contains(&kernel) {
            emit(Event::Begin { case: number, kernel: kernel.clone() });
            let outcome = case.run_kernel(device, index);
            emit(Event::Finding { case: number, kernel, outcome });
        }
    }
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
    /// How often the driver crashed or hung.
    pub crashes: usize,
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

/// Adds up the events of a check's jobs.
#[derive(Debug)]
pub struct Tally {
    planned: Vec<Planned>,
    kernels: BTreeMap<(usize, String), KernelResult>,
    /// Kernels that failed, by the cases they failed in.
    wrong: BTreeMap<usize, Vec<String>>,
    under_way: Option<(usize, String)>,
    next: usize,
    cancelled: bool,
    crashes: usize,
}

impl Tally {
    /// Of a check that is about to begin.
    pub fn new(level: Level) -> Self {
        Self {
            planned: plan(level),
            kernels: BTreeMap::new(),
            wrong: BTreeMap::new(),
            under_way: None,
            next: 0,
            cancelled: false,
            crashes: 0,
        }
    }

    /// Takes note of an event.
    pub fn add(&mut self, event: Event) {
        match event {
            Event::Begin { case, kernel } => self.under_way = Some((case, kernel)),
            Event::Finding { case, kernel, outcome } => {
                self.under_way = None;
                self.next = case + 1;
                self.found(case, kernel, outcome);
            }
            Event::Verified { case, problem } => {
                self.under_way = None;
                self.verified(case, problem.is_none());
            }
            Event::End { next, cancelled } => {
                self.next = self.next.max(next);
                self.cancelled |= cancelled;
            }
        }
    }

    /// Whether a kernel has begun and not ended.
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Takes note that the process of a job died or hung, and returns the case to go on with.
    pub fn crashed(&mut self, how: &str) -> usize {
        self.crashes += 1;
        match self.under_way.take() {
            Some((case, kernel)) if !kernel.is_empty() => {
                self.found(case, kernel, Err(how.to_owned()));
                case
            }
            Some((case, _)) => {
                self.verified(case, false);
                case + 1
            }
            None => self.next,
        }
    }

    /// Takes note that the user ended it.
    pub fn cancel(&mut self) {
        self.cancelled = true;
    }

    /// Kernels that were wrong so far.
    pub fn wrong_kernels(&self) -> Vec<String> {
        self.kernels
            .values()
            .filter(|kernel| kernel.failed > 0)
            .map(|kernel| kernel.kernel.clone())
            .collect()
    }

    /// Cases in which a kernel was wrong.
    pub fn wrong_cases(&self) -> Vec<usize> {
        self.wrong.keys().copied().collect()
    }

    /// Which case is under way, of how many, and its operation.
    pub fn progress(&self) -> (usize, usize, &'static str) {
        let suite = self.planned.get(self.next).map_or("", |planned| SUITES[planned.suite].name);
        (self.next, self.planned.len(), suite)
    }

    /// What was found.
    pub fn into_report(self) -> CheckReport {
        CheckReport {
            kernels: self.kernels.into_values().collect(),
            cases: self.next,
            left_out: self.planned.len() - self.next,
            cancelled: self.cancelled,
            crashes: self.crashes,
        }
    }

    fn found(&mut self, case: usize, kernel: String, outcome: Result<f64, String>) {
        let Some(planned) = self.planned.get(case) else {
            return;
        };
        let result =
            self.kernels.entry((planned.suite, kernel.clone())).or_insert_with(|| KernelResult {
                suite: SUITES[planned.suite].name,
                kernel: kernel.clone(),
                passed: 0,
                failed: 0,
                worst: 0.0,
                reason: None,
                worked_around: None,
            });
        match outcome {
            Ok(used) => {
                result.passed += 1;
                result.worst = result.worst.max(used);
            }
            Err(reason) => {
                result.failed += 1;
                result.reason.get_or_insert(reason);
                self.wrong.entry(case).or_default().push(kernel);
            }
        }
    }

    fn verified(&mut self, case: usize, right: bool) {
        let Some(planned) = self.planned.get(case) else {
            return;
        };
        for kernel in self.wrong.get(&case).into_iter().flatten() {
            if let Some(result) = self.kernels.get_mut(&(planned.suite, kernel.clone())) {
                result.worked_around = Some(right && result.worked_around != Some(false));
            }
        }
    }
}

/// Checks a device in this process: for the CPU, and for drivers that tests trust not to crash.
/// Kernels that are wrong are quarantined, and their cases run again without them.
pub fn check_device(
    device: &DeviceRef,
    level: Level,
    cancelled: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(&Tally),
) -> CheckReport {
    let mut tally = Tally::new(level);
    let job = Job { level, from: 0, skip: Vec::new(), verify: None, time_limit: None };
    run_job(device, &job, cancelled, &mut |event| {
        tally.add(event);
        progress(&tally);
    });
    if device.as_opencl().is_some() && !tally.wrong_cases().is_empty() {
        let verify = Some(tally.wrong_cases());
        let job = Job { skip: tally.wrong_kernels(), verify, ..job };
        run_job(device, &job, cancelled, &mut |event| tally.add(event));
    }
    tally.into_report()
}

/// A case of the plan.
#[derive(Debug)]
struct Planned {
    suite: usize,
    variant: usize,
    parameters: CaseParameters,
}

impl Planned {
    fn case(&self) -> Case {
        (SUITES[self.suite].case)(self.variant, &self.parameters)
    }
}

/// Which cases are run, in order: what is used most first, so that a check that is cut short has
/// seen a bit of everything.
fn plan(level: Level) -> Vec<Planned> {
    let fixed = CaseParameters::fixed();
    let mut cases = Vec::new();
    for (layout, parameters) in fixed.iter().enumerate() {
        for (suite, description) in SUITES.iter().enumerate() {
            for variant in 0..(description.variants)() {
                let every = |n: usize| (variant + layout).is_multiple_of(n);
                let wanted = match (level, layout) {
                    (Level::Full, _) => (description.takes)(variant, layout),
                    (Level::Standard, FIRST_LAYOUT) => {
                        (description.is_essential)(variant) || every(9)
                    }
                    (Level::Standard, LONG_LAYOUT) => (description.is_essential)(variant),
                    (Level::Standard, TRANSPOSED_LAYOUT) => every(9),
                    (Level::Quick, FIRST_LAYOUT | TRANSPOSED_LAYOUT) => every(11),
                    // The variants of the first layout: most of their programs are there already.
                    (Level::Quick, LONG_LAYOUT) => variant.is_multiple_of(11),
                    _ => false,
                };
                if wanted {
                    cases.push(Planned { suite, variant, parameters: parameters.clone() });
                }
            }
        }
    }
    cases
}

/// Places in `CaseParameters::fixed`: a dense one with special values, one that is long enough to
/// be reduced in segments, and a transposed one.
const FIRST_LAYOUT: usize = 0;
const LONG_LAYOUT: usize = 5;
const TRANSPOSED_LAYOUT: usize = 7;
