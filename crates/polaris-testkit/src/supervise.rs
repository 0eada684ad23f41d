//! Checks in a process of their own: a driver that crashes or hangs takes only that one down, the
//! kernel that was running is remembered, and the check goes on without it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use anyhow::Context;
use polaris::runtime::opencl::ProgramCounts;
use polaris::{DeviceId, DeviceRef};
use polaris_testkit::{CheckReport, Event, Job, Level, Tally, Task, run_job};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::arguments::Global;
use crate::session::Session;
use crate::{exit, interrupt};

/// How long things may take.
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
pub struct Supervised {
    pub report: CheckReport,
    /// How the workers' programs came to be.
    pub programs: ProgramCounts,
}

/// A line of a worker: an event, and how many programs there are by then.
#[derive(Serialize, Deserialize)]
struct Line {
    event: Event,
    built: usize,
    from_disk: usize,
}

/// Workers at once, at most: what takes long is compiling, which few drivers do on several cores.
const MOST_WORKERS: usize = 4;

/// Its binaries cost a compilation more, and it keeps a cache of its own.
const POCL: &str = "Portable Computing Language";

/// Checks a device by workers: first one lists the kernels, then several run what was chosen.
pub fn supervise(
    global: &Global,
    device: &DeviceRef,
    level: Level,
    limits: Limits,
    progress: &mut dyn FnMut(&Tally),
) -> anyhow::Result<Supervised> {
    let mut supervisor = Supervisor {
        global,
        device: device.id(),
        limits,
        progress,
        tally: Tally::default(),
        programs: ProgramCounts::default(),
    };
    // A quick check fills the cache with what a first run needs.
    let keep_programs = level == Level::Quick || device.info().platform != POCL;
    let job = Job { task: Task::List, skip: Vec::new(), time_limit: None, keep_programs };
    if let Ending::Crashed(how) = supervisor.run(std::slice::from_ref(&job))? {
        return Err(supervisor.unusable(&how));
    }
    supervisor.tally.choose(level);
    let mut workers = match level {
        Level::Quick => 1,
        _ => std::thread::available_parallelism().map_or(1, |n| n.get().min(MOST_WORKERS)),
    };
    let start = Instant::now();
    let mut patience = supervisor.limits.crashes;
    while patience > 0 && !interrupt::requested() && !supervisor.tally.left().is_empty() {
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
                    log::info!("{}: {how}; what is left runs in one worker", device.id());
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
    global: &'a Global,
    device: DeviceId,
    limits: Limits,
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
    fn unusable(&self, how: &str) -> anyhow::Error {
        let device = self.device;
        anyhow::anyhow!("{device}: {how} before a single kernel ran; update or remove the driver")
    }

    /// Runs the cases in which a kernel was wrong as a user would, without the wrong kernels. It
    /// should not crash then; where it does, that case is not right.
    fn verify(&mut self, job: Job) -> anyhow::Result<()> {
        let skip = self.tally.wrong_kernels();
        let mut left = self.tally.wrong_cases();
        while !left.is_empty() && !interrupt::requested() {
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
    fn run(&mut self, jobs: &[Job]) -> anyhow::Result<Ending> {
        let (sender, lines) = mpsc::channel();
        let mut workers = Vec::new();
        for (number, job) in jobs.iter().enumerate() {
            let mut process = self.spawn(job)?;
            let sender = sender.clone();
            read_lines(&mut process, move |line| sender.send((number, line)).is_ok())?;
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
    ) -> anyhow::Result<Ending> {
        let is_alone = workers.len() == 1;
        while workers.iter().any(|worker| !worker.is_done) {
            let message = lines.recv_timeout(Duration::from_millis(50));
            if interrupt::requested() {
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
                    let status = workers[number].process.wait()?;
                    if interrupt::reached(status) {
                        self.tally.cancel();
                        return Ok(Ending::Regular);
                    }
                    let how = format!("the driver took its process down ({status})");
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

    fn spawn(&self, job: &Job) -> anyhow::Result<Child> {
        let mut command = worker_command(self.global, self.device, "check")?;
        let mut worker = command.spawn().context("a process for the check cannot be started")?;
        if let Some(mut stdin) = worker.stdin.take() {
            // A worker that died before it read its job is found out by its silence.
            let _ = stdin.write_all(serde_json::to_string(job)?.as_bytes());
        }
        Ok(worker)
    }
}

/// A process that works on a device for a command and takes its driver's crashes.
pub fn worker_command(global: &Global, device: DeviceId, name: &str) -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("the polaris program cannot be found")?;
    let mut command = Command::new(program);
    command.args([name, "--worker", "--device", &device.to_string()]);
    for limit in &global.memory_limit {
        command.args(["--memory-limit", &format!("{}={}", limit.device, limit.bytes)]);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    // Ctrl-C in a terminal goes to the whole group: compilers in drivers break off on it, and the
    // kernel under way would get the blame. The supervisor ends its worker itself.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    Ok(command)
}

/// Reads a worker's lines in a thread, so that silence can be noticed.
pub fn listen<T: DeserializeOwned + Send + 'static>(
    worker: &mut Child,
) -> anyhow::Result<Receiver<T>> {
    let (sender, receiver) = mpsc::channel();
    read_lines(worker, move |line| line.is_some_and(|line| sender.send(line).is_ok()))?;
    Ok(receiver)
}

/// Hands over each line, and `None` at the end, until it is refused.
fn read_lines<T: DeserializeOwned>(
    worker: &mut Child,
    mut take: impl FnMut(Option<T>) -> bool + Send + 'static,
) -> anyhow::Result<()> {
    if let Some(stdout) = worker.stdout.take() {
        let thread = std::thread::Builder::new().spawn(move || {
            // Drivers print on stdout too: what is no line of ours is not for us.
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            let mut lines = lines.filter_map(|line| serde_json::from_str(&line).ok());
            if lines.all(|line| take(Some(line))) {
                take(None);
            }
        });
        if let Err(error) = thread {
            // Nobody would hear of it.
            let _ = worker.kill();
            return Err(error).context("a thread that listens to a worker cannot be started");
        }
    }
    Ok(())
}

/// The worker's side: reads a job from stdin, runs it, reports on stdout.
pub fn work(global: Global) -> anyhow::Result<u8> {
    let job: Job = serde_json::from_reader(std::io::stdin().lock()).context("no job on stdin")?;
    let session = Session::new(global)?;
    for device in session.devices()? {
        run_job(&device, &job, &interrupt::requested, &mut |event| {
            let counts =
                device.as_opencl().map(|opencl| opencl.program_counts()).unwrap_or_default();
            let line = Line { event, built: counts.built, from_disk: counts.from_disk };
            if let Ok(text) = serde_json::to_string(&line) {
                // For the process above, which reads JSON.
                #[allow(clippy::print_stdout)]
                {
                    println!("{text}");
                }
            }
        });
    }
    Ok(exit::OK)
}
