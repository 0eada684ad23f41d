//! Collects the events of the jobs of a check.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::check::Event;
use crate::plan::{Level, Listed, Planned, Unit, cases, select};
use polaris_ops::FAMILIES;
use polaris_ops::suite::kernel_of;

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

/// How many kernels of a suite were run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// The suite.
    pub suite: &'static str,
    /// Kernels that were run.
    pub kernels_run: usize,
    /// Kernels that a full check runs on this device.
    pub kernels_exist: usize,
}

/// How a device did.
#[derive(Debug, Clone, Serialize)]
pub struct CheckReport {
    /// Each kernel that was run.
    pub kernels: Vec<KernelResult>,
    /// How many kernels were run, over all suites.
    pub kernels_run: usize,
    /// How many there are.
    pub kernels_exist: usize,
    /// The same for each suite.
    pub suites: Vec<Coverage>,
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
    cases: Vec<Planned>,
    listed: BTreeMap<usize, Listed>,
    /// What is still to be run.
    left: Vec<Unit>,
    /// Cases of which something was run.
    run: BTreeSet<usize>,
    kernels: BTreeMap<(usize, String), KernelResult>,
    /// Kernels that failed, by the cases they failed in.
    wrong: BTreeMap<usize, Vec<String>>,
    under_way: Option<Unit>,
    planned: usize,
    cancelled: bool,
    crashes: usize,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            cases: cases(),
            listed: BTreeMap::new(),
            left: Vec::new(),
            run: BTreeSet::new(),
            kernels: BTreeMap::new(),
            wrong: BTreeMap::new(),
            under_way: None,
            planned: 0,
            cancelled: false,
            crashes: 0,
        }
    }
}

impl Tally {
    /// Chooses what is run, once the kernels are listed.
    pub fn choose(&mut self, level: Level) {
        self.left = select(level, &self.cases, &self.listed);
        self.planned = self.left.len();
    }

    /// Takes note of an event.
    pub fn add(&mut self, event: Event) {
        match event {
            Event::Listed { case, listed } => {
                self.listed.insert(case, listed);
            }
            Event::Begin { case, kernel } => self.under_way = Some(Unit { case, kernel }),
            Event::Finding { case, kernel, outcome } => {
                self.under_way = None;
                self.left.retain(|unit| (unit.case, &unit.kernel) != (case, &kernel));
                self.found(case, kernel, outcome);
            }
            Event::Verified { case, problem } => {
                self.under_way = None;
                self.verified(case, problem.is_none());
            }
            Event::End { cancelled } => self.cancelled |= cancelled,
        }
    }

    /// Takes note of an event of a job that runs alongside others. What fails there may be the fault of another,
    /// which brought the device down: it is still to be run.
    pub fn add_beside_others(&mut self, event: Event) {
        if !matches!(event, Event::Finding { outcome: Err(_), .. }) {
            self.add(event);
        }
    }

    /// What is still to be run, in order.
    pub fn left(&self) -> &[Unit] {
        &self.left
    }

    /// Whether a kernel has begun and not ended.
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Takes note that jobs side by side have ended, or that one of them died or hung: whose kernel
    /// it was is not known. What was under way is still to be run.
    pub fn ended_beside_others(&mut self) {
        self.under_way = None;
    }

    /// Takes note that the process of the only job died or hung: the kernel under way did it, and
    /// is not run again. Returns the case.
    pub fn crashed(&mut self, how: &str) -> Option<usize> {
        self.crashes += 1;
        let Unit { case, kernel } = self.under_way.take()?;
        if kernel.is_empty() {
            self.verified(case, false);
        } else {
            self.left.retain(|unit| unit.kernel != kernel);
            self.found(case, kernel, Err(how.to_owned()));
        }
        Some(case)
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

    /// How many kernels were run in how many cases, of how many, and the operation that is next.
    pub fn progress(&self) -> (usize, usize, &'static str) {
        let next = self.left.first();
        let suite = next.map_or("", |unit| FAMILIES[self.cases[unit.case].suite].name);
        (self.planned - self.left.len(), self.planned, suite)
    }

    /// What was found.
    pub fn into_report(self) -> CheckReport {
        let suites = self.coverage();
        let left: BTreeSet<usize> = self.left.iter().map(|unit| unit.case).collect();
        CheckReport {
            kernels_run: suites.iter().map(|suite| suite.kernels_run).sum(),
            kernels_exist: suites.iter().map(|suite| suite.kernels_exist).sum(),
            suites,
            cases: self.run.len(),
            left_out: left.difference(&self.run).count(),
            cancelled: self.cancelled,
            crashes: self.crashes,
            kernels: self.kernels.into_values().collect(),
        }
    }

    fn coverage(&self) -> Vec<Coverage> {
        let mut exist = vec![BTreeSet::new(); FAMILIES.len()];
        for (&case, listed) in self.listed.iter().filter(|(_, listed)| listed.computes) {
            let suite = self.cases[case].suite;
            exist[suite].extend(listed.kernels.iter().map(|name| kernel_of(name)));
        }
        let run: BTreeSet<_> =
            self.kernels.keys().map(|(suite, name)| (*suite, kernel_of(name))).collect();
        let of_suite = |(number, exist): (usize, BTreeSet<String>)| Coverage {
            suite: FAMILIES[number].name,
            kernels_run: run.iter().filter(|(suite, _)| *suite == number).count(),
            kernels_exist: exist.len(),
        };
        // Without a kernel are those that were not asked for.
        let listed = exist.into_iter().enumerate().filter(|(_, exist)| !exist.is_empty());
        listed.map(of_suite).collect()
    }

    fn found(&mut self, case: usize, kernel: String, outcome: Result<f64, String>) {
        let Some(planned) = self.cases.get(case) else {
            return;
        };
        self.run.insert(case);
        let result =
            self.kernels.entry((planned.suite, kernel.clone())).or_insert_with(|| KernelResult {
                suite: FAMILIES[planned.suite].name,
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
        let Some(planned) = self.cases.get(case) else {
            return;
        };
        for kernel in self.wrong.get(&case).into_iter().flatten() {
            if let Some(result) = self.kernels.get_mut(&(planned.suite, kernel.clone())) {
                result.worked_around = Some(right && result.worked_around != Some(false));
            }
        }
    }
}
