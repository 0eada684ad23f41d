//! The worker's side of tuning: builds, runs, checks and times what it is asked to. Drivers hang and
//! crash; then only this process is lost.

use std::io::{BufRead, Write};
use std::time::Duration;

use polaris_bench::timing::{Contender, Limits, Timing, take_turns, time_one};
use polaris_core::CancellationToken;
use polaris_runtime::{DeviceRef, Error as RuntimeError};
use polaris_tune::Failure;

use crate::inject::{Fault, Injected};
use crate::protocol::{Config, Reply, Request, Sampled};
use crate::subject::{Prepared, subject};
use crate::{Error, Result};

/// The shortest sample.
const SAMPLE: Duration = Duration::from_millis(2);

/// Answers the requests of a tuner until there are no more, as a process of
/// [`Workers::Processes`](crate::Workers) does on its stdin and stdout.
///
/// # Errors
/// If what is read is not a request, or if nobody reads the replies.
pub fn work(
    host: &DeviceRef,
    device: &DeviceRef,
    input: impl BufRead,
    mut output: impl Write,
    cancellation: &CancellationToken,
) -> Result<()> {
    let mut bench = Bench::new(host, device, cancellation);
    for line in input.lines() {
        let request = serde_json::from_str(&line?).map_err(Error::NotARequest)?;
        let reply = serde_json::to_string(&bench.answer(request)).map_err(Error::NotARequest)?;
        writeln!(output, "{reply}")?;
        output.flush()?;
    }
    Ok(())
}

/// A device, and a problem that is ready to be run on it.
pub struct Bench<'a> {
    host: &'a DeviceRef,
    device: &'a DeviceRef,
    cancellation: &'a CancellationToken,
    injected: Injected,
    prepared: Option<Box<dyn Prepared>>,
}

impl<'a> Bench<'a> {
    pub fn new(
        host: &'a DeviceRef,
        device: &'a DeviceRef,
        cancellation: &'a CancellationToken,
    ) -> Self {
        let injected = Injected::from_environment();
        Self { host, device, cancellation, injected, prepared: None }
    }

    /// Does what it is asked to; what fails is a reply, too.
    pub fn answer(&mut self, request: Request) -> Reply {
        self.try_to_answer(request).unwrap_or_else(|error| Reply::Failed {
            kind: failure_of(&error),
            why: first_lines(&error.to_string()),
        })
    }

    fn try_to_answer(&mut self, request: Request) -> Result<Reply> {
        if let Request::Prepare(problem) = &request {
            let subject = subject(&problem.operation)?;
            self.prepared = Some(subject.prepare(self.host, self.device, problem)?);
            return Ok(Reply::Prepared);
        }
        let fault = match request {
            Request::Try(_) => self.injected.next(),
            _ => None,
        };
        let problem = self.prepared.as_deref();
        let problem = problem.ok_or_else(|| Error::BadProblem("nothing is prepared".to_owned()))?;
        let ready = Ready { problem, cancellation: self.cancellation };
        match request {
            Request::Prepare(_) => unreachable!("it was answered above"),
            Request::Try(config) => ready.try_out(&config, fault),
            Request::Measure { config, seconds, limit } => ready.measure(&config, seconds, limit),
            Request::Compare { configs, seconds } => ready.compare(&configs, seconds),
        }
    }
}

/// A problem that is ready to be run.
struct Ready<'a> {
    problem: &'a dyn Prepared,
    cancellation: &'a CancellationToken,
}

impl<'a> Ready<'a> {
    fn run(&self, config: Option<&'a Config>) -> Run<'a> {
        Run { prepared: self.problem, config }
    }

    fn try_out(&self, config: &'a Config, fault: Option<Fault>) -> Result<Reply> {
        match fault {
            Some(Fault::Hang) => loop {
                std::thread::sleep(Duration::from_secs(1));
            },
            Some(Fault::Crash) => std::process::abort(),
            _ => {}
        }
        self.problem.spoil()?;
        time_one(&mut self.run(Some(config)))?;
        let (error, allowed) = self.problem.error(fault)?;
        // What is not a number is not right either.
        if error <= allowed {
            return Ok(Reply::Tried { error });
        }
        let why = format!("its relative error is {error:.1e}; at most {allowed:.0e} is allowed");
        Ok(Reply::Failed { kind: Failure::Wrong, why })
    }

    fn measure(&self, config: &'a Config, seconds: f64, limit: Option<f64>) -> Result<Reply> {
        let mut run = self.run(Some(config));
        // The first one may still be slow for other reasons.
        let first = time_one(&mut run)?.min(time_one(&mut run)?);
        if limit.is_some_and(|limit| first.as_secs_f64() > limit) {
            let sampled = Sampled { seconds: first.as_secs_f64(), spread: 0.0, samples: 1 };
            return Ok(Reply::Measured(sampled));
        }
        let timing =
            take_turns::<Error>(&mut [&mut run], &limits(seconds, 3), self.cancellation)?.remove(0);
        // The fastest: candidates are measured one after the other, and what disturbs one of them
        // must not make it lose.
        Ok(Reply::Measured(Sampled { seconds: timing.fastest, ..sampled(&timing) }))
    }

    fn compare(&self, configs: &'a [Option<Config>], seconds: f64) -> Result<Reply> {
        let mut runs = Vec::new();
        for config in configs {
            let mut run = self.run(config.as_ref());
            time_one(&mut run)?;
            runs.push(run);
        }
        let mut contenders: Vec<&mut dyn Contender<Error>> = Vec::new();
        contenders.extend(runs.iter_mut().map(|run| run as &mut dyn Contender<Error>));
        let timings = take_turns(&mut contenders, &limits(seconds, 7), self.cancellation)?;
        Ok(Reply::Compared(timings.iter().map(sampled).collect()))
    }
}

fn limits(seconds: f64, rounds: usize) -> Limits {
    Limits {
        sample: SAMPLE,
        budget: Duration::from_secs_f64(seconds),
        rounds,
        rest: Duration::ZERO,
    }
}

fn sampled(timing: &Timing) -> Sampled {
    Sampled { seconds: timing.seconds, spread: timing.cv, samples: timing.samples as u32 }
}

/// A problem by one configuration, or as it is chosen.
struct Run<'a> {
    prepared: &'a dyn Prepared,
    config: Option<&'a Config>,
}

impl Contender<Error> for Run<'_> {
    fn run(&mut self) -> Result<()> {
        self.prepared.run(self.config)
    }

    fn finish(&mut self) -> Result<()> {
        self.prepared.finish()
    }

    fn settles_in(&self) -> Duration {
        Duration::ZERO
    }
}

fn failure_of(error: &Error) -> Failure {
    match error.runtime() {
        Some(RuntimeError::BuildFailed { .. }) => Failure::Build,
        _ => Failure::Run,
    }
}

/// Compilers say much; the beginning tells what is wrong.
fn first_lines(text: &str) -> String {
    text.chars().take(400).collect()
}
