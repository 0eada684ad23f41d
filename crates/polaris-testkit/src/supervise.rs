//! Checks in a process of their own: a driver that crashes or hangs takes only that one down, the
//! kernel that was running is remembered, and the check goes on without it.

mod process;

use std::io::{self, Read, Write};
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use polaris_core::CancellationToken;
use polaris_runtime::machine::{CheckRecord, CheckStatus, QuarantinedKernel};
use polaris_runtime::opencl::ProgramCounts;
use polaris_runtime::{DeviceId, DeviceRef, Runtime};
use serde::{Deserialize, Serialize};

use crate::check::{Event, Job, Task, check_device, run_job};
use crate::plan::{Level, Scope};
use crate::tally::{CheckReport, Tally};

pub use process::{WorkerProcess, listen, was_stopped};

use process::read_lines;

/// Why a device could not be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No process.
    #[error("cannot start a check worker: {0}")]
    Start(io::Error),
    /// No thread beside it.
    #[error("cannot start a thread that listens to a worker: {0}")]
    Listen(io::Error),
    /// A process that cannot be waited for.
    #[error("cannot wait for a worker: {0}")]
    Wait(io::Error),
    /// A job that cannot be read or written.
    #[error("no job on stdin: {0}")]
    Job(serde_json::Error),
    /// A driver that takes every process down.
    #[error("{device}: {how} before any kernel ran; update or remove the driver")]
    Unusable {
        /// The device.
        device: DeviceId,
        /// What it does.
        how: String,
    },
}

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// No case is begun after this long.
    pub whole: Option<Duration>,
    /// A worker that says nothing for this long hangs. Compilers take their time.
    pub silence: Duration,
    /// A driver that crashes more often is not worth more time.
    pub crashes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { whole: None, silence: Duration::from_secs(60), crashes: 64 }
    }
}

/// What a supervised check found.
#[derive(Debug)]
pub struct Supervised {
    /// What each kernel did.
    pub report: CheckReport,
    /// How the workers' programs came to be.
    pub programs: ProgramCounts,
}

/// What a check of a device found.
#[derive(Debug, Serialize)]
pub struct CheckedDevice {
    /// The device.
    pub device: DeviceId,
    /// What its driver calls it.
    pub name: String,
    /// The driver's version.
    pub driver: String,
    /// How long it took.
    pub seconds: f64,
    /// Whether results are right, be it by leaving kernels out.
    pub results_are_right: bool,
    /// What each kernel did.
    #[serde(flatten)]
    pub report: CheckReport,
    /// How programs came to be.
    #[serde(skip)]
    pub programs: ProgramCounts,
}

/// Checks a device: the CPU in this process, others by `worker`, a process that [`work`]s on the same device.
///
/// # Errors
/// If no worker can be started, or if the driver takes every one down before it runs anything.
pub fn check(
    device: &DeviceRef,
    scope: &Scope,
    limit: Option<Duration>,
    worker: Command,
    cancellation: &CancellationToken,
    progress: &mut dyn FnMut(&Tally),
) -> Result<CheckedDevice, Error> {
    let start = Instant::now();
    let (report, programs) = match device.as_opencl() {
        // Drivers crash and hang: another process takes the risk.
        Some(opencl) => {
            let limits = Limits { whole: limit, ..Limits::default() };
            let found = supervise(device, scope, limits, worker, cancellation, progress)?;
            let own = opencl.program_counts();
            let built = found.programs.built + own.built;
            let from_disk = found.programs.from_disk + own.from_disk;
            (found.report, ProgramCounts { built, from_disk })
        }
        None => {
            let report = check_device(device, scope, &|| cancellation.is_cancelled(), progress);
            (report, ProgramCounts::default())
        }
    };
    Ok(CheckedDevice {
        device: device.id(),
        name: device.info().name.clone(),
        driver: device.info().driver.clone(),
        seconds: start.elapsed().as_secs_f64(),
        results_are_right: report.results_are_right(),
        report,
        programs,
    })
}

/// Puts what a check found into the machine's profile: kernels that are wrong are quarantined, others released.
///
/// # Errors
/// If the profile cannot be written; what was found is known to this runtime all the same.
pub fn remember(
    runtime: &mut Runtime,
    device: &DeviceRef,
    scope: &Scope,
    report: &CheckReport,
) -> polaris_runtime::Result<()> {
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
        quick: scope.is_partial() || report.left_out > 0,
        passed: tested.len(),
        failed: report.failures().count(),
        polaris: env!("CARGO_PKG_VERSION").to_owned(),
        unix_time: now.map_or(0, |time| time.as_secs()),
    };
    runtime.remember(device.as_ref(), |profile| {
        // A check that came to nothing says nothing, one of some operations nothing of the others.
        let says_something = record.passed + record.failed > 0 || report.cancelled;
        if scope.operations.is_empty() && says_something {
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
    })
}

/// A line of a worker: an event, and how many programs there are by then.
#[derive(Serialize, Deserialize)]
struct Line {
    event: Event,
    built: usize,
    from_disk: usize,
}

/// Workers at once, at most: what takes long is compiling, which few drivers do on several cores.
const MOST_WORKERS: usize = 8;

/// Its binaries cost a compilation more, and it keeps a cache of its own.
const POCL: &str = "Portable Computing Language";

/// Checks a device by workers: first one lists the kernels, then several run what was chosen.
///
/// # Errors
/// If no worker can be started, or if the driver takes every one down before it runs anything.
pub fn supervise(
    device: &DeviceRef,
    scope: &Scope,
    limits: Limits,
    worker: Command,
    cancellation: &CancellationToken,
    progress: &mut dyn FnMut(&Tally),
) -> Result<Supervised, Error> {
    let mut supervisor = Supervisor {
        worker: WorkerProcess::new(worker),
        device: device.id(),
        limits,
        cancellation,
        progress,
        tally: Tally::default(),
        programs: ProgramCounts::default(),
    };
    // A quick check fills the cache with what a first run needs.
    let keep_programs = scope.level == Level::Quick || device.info().platform != POCL;
    let task = Task::List(scope.clone());
    let job = Job { task, skip: Vec::new(), time_limit: None, keep_programs };
    if let Ending::Crashed(how) = supervisor.run(std::slice::from_ref(&job))? {
        return Err(supervisor.unusable(&how));
    }
    supervisor.tally.choose(scope.level);
    let mut workers = match scope.level {
        Level::Quick => 1,
        _ => std::thread::available_parallelism().map_or(1, |n| n.get().min(MOST_WORKERS)),
    };
    let start = Instant::now();
    let mut patience = supervisor.limits.crashes;
    while patience > 0 && !cancellation.is_cancelled() && !supervisor.tally.left().is_empty() {
        let left = supervisor.tally.left();
        let count = workers.min(left.len());
        let share = |n: usize| left.iter().skip(n).step_by(count).cloned().collect();
        let whole = supervisor.limits.whole;
        let job = Job {
            skip: supervisor.tally.wrong_kernels(),
            time_limit: whole.map(|whole| whole.saturating_sub(start.elapsed())),
            ..job.clone()
        };
        let jobs = (0..count).map(|n| Job { task: Task::Run(share(n)), ..job.clone() });
        let jobs: Vec<Job> = jobs.collect();
        match supervisor.run(&jobs)? {
            // What failed beside others runs again alone.
            ending if count > 1 => {
                if let Ending::Crashed(how) = ending {
                    log::info!("{}: {how}; the rest runs in one worker", device.id());
                }
                supervisor.tally.ended_beside_others();
                workers = 1;
            }
            Ending::Regular => break,
            Ending::Crashed(how) => {
                if supervisor.tally.crashed(&how).is_none() {
                    // It died before it ran anything: another one would too.
                    return Err(supervisor.unusable(&how));
                }
                patience -= 1;
            }
        }
    }
    supervisor.verify(job)?;
    Ok(Supervised { programs: supervisor.programs, report: supervisor.tally.into_report() })
}

struct Supervisor<'a> {
    worker: WorkerProcess,
    device: DeviceId,
    limits: Limits,
    cancellation: &'a CancellationToken,
    progress: &'a mut dyn FnMut(&Tally),
    tally: Tally,
    programs: ProgramCounts,
}

enum Ending {
    /// All said that they are done, or the user ended it.
    Regular,
    /// One died or hung, in these words.
    Crashed(String),
}

/// A worker of a round.
struct Worker {
    process: Child,
    counts: ProgramCounts,
    last_word: Instant,
    is_done: bool,
}

impl Supervisor<'_> {
    fn unusable(&self, how: &str) -> Error {
        Error::Unusable { device: self.device, how: how.to_owned() }
    }

    /// Runs the cases in which a kernel was wrong as a user would, without the wrong kernels. It
    /// should not crash then; where it does, that case is not right.
    fn verify(&mut self, job: Job) -> Result<(), Error> {
        let skip = self.tally.wrong_kernels();
        let mut left = self.tally.wrong_cases();
        while !left.is_empty() && !self.cancellation.is_cancelled() {
            let task = Task::Verify(left.clone());
            let Ending::Crashed(how) =
                self.run(&[Job { task, skip: skip.clone(), ..job.clone() }])?
            else {
                break;
            };
            let Some(crashed) = self.tally.crashed(&how) else {
                break;
            };
            left.retain(|&case| case > crashed);
        }
        Ok(())
    }

    /// Runs a worker for each job, until all are done or one is lost.
    fn run(&mut self, jobs: &[Job]) -> Result<Ending, Error> {
        let (sender, lines) = mpsc::channel();
        let mut workers = Vec::new();
        for (number, job) in jobs.iter().enumerate() {
            let mut process = self.spawn(job)?;
            let sender = sender.clone();
            read_lines(&mut process, move |line| sender.send((number, line)).is_ok())
                .map_err(Error::Listen)?;
            let counts = ProgramCounts::default();
            workers.push(Worker { process, counts, last_word: Instant::now(), is_done: false });
        }
        drop(sender);
        let ending = self.follow(&mut workers, &lines);
        for worker in &mut workers {
            let _ = worker.process.kill();
            let _ = worker.process.wait();
            self.programs.built += worker.counts.built;
            self.programs.from_disk += worker.counts.from_disk;
        }
        ending
    }

    fn follow(
        &mut self,
        workers: &mut [Worker],
        lines: &Receiver<(usize, Option<Line>)>,
    ) -> Result<Ending, Error> {
        let is_alone = workers.len() == 1;
        while workers.iter().any(|worker| !worker.is_done) {
            let message = lines.recv_timeout(Duration::from_millis(50));
            if self.cancellation.is_cancelled() {
                self.tally.cancel();
                return Ok(Ending::Regular);
            }
            match message {
                Ok((number, Some(line))) => {
                    let worker = &mut workers[number];
                    worker.last_word = Instant::now();
                    worker.counts = ProgramCounts { built: line.built, from_disk: line.from_disk };
                    worker.is_done = matches!(line.event, Event::End { .. });
                    match is_alone {
                        true => self.tally.add(line.event),
                        false => self.tally.add_beside_others(line.event),
                    }
                    (self.progress)(&self.tally);
                }
                Ok((number, None)) if !workers[number].is_done => {
                    let status = workers[number].process.wait().map_err(Error::Wait)?;
                    if was_stopped(status, self.cancellation) {
                        self.tally.cancel();
                        return Ok(Ending::Regular);
                    }
                    let how = format!("the driver crashed its process ({status})");
                    return Ok(Ending::Crashed(how));
                }
                _ => {}
            }
            let hangs = |worker: &Worker| {
                !worker.is_done && worker.last_word.elapsed() > self.limits.silence
            };
            if workers.iter().any(hangs) {
                return Ok(Ending::Crashed("the driver hung".to_owned()));
            }
        }
        Ok(Ending::Regular)
    }

    fn spawn(&mut self, job: &Job) -> Result<Child, Error> {
        let mut process = self.worker.spawn().map_err(Error::Start)?;
        if let Some(mut stdin) = process.stdin.take() {
            // A worker that died before it read its job is found out by its silence.
            let text = serde_json::to_string(job).map_err(Error::Job)?;
            let _ = stdin.write_all(text.as_bytes());
        }
        Ok(process)
    }
}

/// The job of a worker, from its stdin.
///
/// # Errors
/// If there is none.
pub fn read_job(input: impl Read) -> Result<Job, Error> {
    serde_json::from_reader(input).map_err(Error::Job)
}

/// The worker's side: runs a job and reports on `output`, a line for each event.
pub fn work(
    device: &DeviceRef,
    job: &Job,
    output: &mut dyn Write,
    cancellation: &CancellationToken,
) {
    run_job(device, job, &|| cancellation.is_cancelled(), &mut |event| {
        let counts = device.as_opencl().map(|opencl| opencl.program_counts()).unwrap_or_default();
        let line = Line { event, built: counts.built, from_disk: counts.from_disk };
        if let Ok(text) = serde_json::to_string(&line) {
            // A supervisor that is gone wants nothing any more, and this process ends with its input.
            let _ = writeln!(output, "{text}").and_then(|()| output.flush());
        }
    });
}
