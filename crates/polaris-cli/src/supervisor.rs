//! Checks in a process of their own: a driver that crashes or hangs takes only that one down, the
//! kernel that was running is remembered, and the check goes on without it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Context;
use polaris::DeviceId;
use polaris::runtime::opencl::ProgramCounts;
use polaris_testkit::{CheckReport, Event, Job, Level, Tally, run_job};
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

/// Checks a device by workers.
pub fn supervise(
    global: &Global,
    device: DeviceId,
    level: Level,
    limits: Limits,
    progress: &mut dyn FnMut(&Tally),
) -> anyhow::Result<Supervised> {
    let start = Instant::now();
    let mut supervisor = Supervisor {
        global,
        device,
        limits,
        progress,
        tally: Tally::new(level),
        programs: ProgramCounts::default(),
    };
    let mut job =
        Job { level, from: 0, skip: Vec::new(), verify: None, time_limit: supervisor.limits.whole };
    let mut patience = supervisor.limits.crashes;
    while let Ending::Crashed(how) = supervisor.run(&job)? {
        if !supervisor.tally.is_under_way() {
            // It died before it ran anything: another one would too.
            anyhow::bail!(
                "{device}: {how} before a single kernel ran; update or remove the driver"
            );
        }
        job.from = supervisor.tally.crashed(&how);
        job.skip = supervisor.tally.wrong_kernels();
        job.time_limit = supervisor.limits.whole.map(|whole| whole.saturating_sub(start.elapsed()));
        patience -= 1;
        if patience == 0 {
            break;
        }
    }
    let mut left = supervisor.tally.wrong_cases();
    job.skip = supervisor.tally.wrong_kernels();
    // Without the wrong kernels it should not crash; where it does, that case is not right.
    while !left.is_empty() && !interrupt::requested() {
        job.verify = Some(left.clone());
        let Ending::Crashed(how) = supervisor.run(&job)? else {
            break;
        };
        if !supervisor.tally.is_under_way() {
            break;
        }
        let next = supervisor.tally.crashed(&how);
        left.retain(|&case| case >= next);
    }
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
    /// It said that it is done.
    Regular,
    /// It died or hung, in these words.
    Crashed(String),
}

impl Supervisor<'_> {
    /// Runs one worker to its end.
    fn run(&mut self, job: &Job) -> anyhow::Result<Ending> {
        let mut worker = self.spawn(job)?;
        let lines: Receiver<Line> = listen(&mut worker);
        let mut counts = ProgramCounts::default();
        let mut last_word = Instant::now();
        let ending = loop {
            match lines.recv_timeout(Duration::from_millis(50)) {
                Ok(line) => {
                    last_word = Instant::now();
                    counts = ProgramCounts { built: line.built, from_disk: line.from_disk };
                    let ended = matches!(line.event, Event::End { .. });
                    self.tally.add(line.event);
                    (self.progress)(&self.tally);
                    if ended {
                        break Ending::Regular;
                    }
                    if interrupt::requested() {
                        self.tally.cancel();
                        break Ending::Regular;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = worker.wait()?;
                    if interrupt::reached(status) {
                        self.tally.cancel();
                        break Ending::Regular;
                    }
                    break Ending::Crashed(format!("the driver took its process down ({status})"));
                }
                Err(RecvTimeoutError::Timeout) if interrupt::requested() => {
                    self.tally.cancel();
                    break Ending::Regular;
                }
                Err(RecvTimeoutError::Timeout) if last_word.elapsed() > self.limits.silence => {
                    break Ending::Crashed("the driver hung".to_owned());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        let _ = worker.kill();
        let _ = worker.wait();
        self.programs.built += counts.built;
        self.programs.from_disk += counts.from_disk;
        Ok(ending)
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
pub fn listen<T: DeserializeOwned + Send + 'static>(worker: &mut Child) -> Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    if let Some(stdout) = worker.stdout.take() {
        std::thread::spawn(move || {
            // Drivers print on stdout too: what is no line of ours is not for us.
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            for line in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
    }
    receiver
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
