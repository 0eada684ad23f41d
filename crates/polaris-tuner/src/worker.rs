//! The worker's side of tuning: builds, runs, checks and times what it is asked to. Drivers hang and
//! crash; then only this process is lost.

use std::io::{BufRead, Write};
use std::time::Duration;

use anyhow::Context;
use polaris::DeviceRef;
use polaris::runtime::Error as RuntimeError;
use polaris_tune::Failure;

use super::inject::{Fault, Injected};
use super::protocol::{Config, Reply, Request, Sampled};
use super::subject::{Prepared, subject};
use crate::arguments::Global;
use crate::exit;
use crate::session::Session;
use crate::timing::{Contender, Limits, Timing, take_turns, time_one};

/// The shortest sample.
const SAMPLE: Duration = Duration::from_millis(2);

/// Answers requests until there are no more.
pub fn work(global: Global) -> anyhow::Result<u8> {
    let session = Session::new(global)?;
    let devices = session.devices()?;
    let device = devices.first().context("no device was named")?;
    let mut injected = Injected::from_environment();
    let mut bench = None;
    for line in std::io::stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line?).context("not a request")?;
        let reply = answer(&session, device, &mut bench, &mut injected, request);
        let reply = reply.unwrap_or_else(|error| Reply::Failed {
            kind: failure_of(&error),
            why: first_lines(&format!("{error:#}")),
        });
        // For the process above, which reads JSON.
        #[allow(clippy::print_stdout)]
        {
            println!("{}", serde_json::to_string(&reply)?);
        }
        std::io::stdout().flush()?;
    }
    Ok(exit::OK)
}

fn answer(
    session: &Session,
    device: &DeviceRef,
    bench: &mut Option<Bench>,
    injected: &mut Injected,
    request: Request,
) -> anyhow::Result<Reply> {
    if let Request::Prepare(problem) = &request {
        let subject = subject(&problem.operation)?;
        *bench = Some(Bench(subject.prepare(session.runtime.cpu(), device, problem)?));
        return Ok(Reply::Prepared);
    }
    let bench = bench.as_ref().context("nothing is prepared")?;
    match request {
        Request::Prepare(_) => unreachable!("it was answered above"),
        Request::Try(config) => bench.try_out(&config, injected.next()),
        Request::Measure { config, seconds, limit } => bench.measure(&config, seconds, limit),
        Request::Compare { configs, seconds } => bench.compare(&configs, seconds),
    }
}

/// A problem that is ready to be run.
struct Bench(Box<dyn Prepared>);

impl Bench {
    fn run<'a>(&'a self, config: Option<&'a Config>) -> Run<'a> {
        Run { prepared: self.0.as_ref(), config }
    }

    fn try_out(&self, config: &Config, fault: Option<Fault>) -> anyhow::Result<Reply> {
        match fault {
            Some(Fault::Hang) => loop {
                std::thread::sleep(Duration::from_secs(1));
            },
            Some(Fault::Crash) => std::process::abort(),
            _ => {}
        }
        self.0.spoil()?;
        time_one(&mut self.run(Some(config)))?;
        let (error, allowed) = self.0.error(fault)?;
        // What is not a number is not right either.
        if error <= allowed {
            return Ok(Reply::Tried { error });
        }
        let why = format!("its relative error is {error:.1e}, and {allowed:.0e} is allowed");
        Ok(Reply::Failed { kind: Failure::Wrong, why })
    }

    fn measure(&self, config: &Config, seconds: f64, limit: Option<f64>) -> anyhow::Result<Reply> {
        let mut run = self.run(Some(config));
        // The first one may still be slow for other reasons.
        let first = time_one(&mut run)?.min(time_one(&mut run)?);
        if limit.is_some_and(|limit| first.as_secs_f64() > limit) {
            let sampled = Sampled { seconds: first.as_secs_f64(), spread: 0.0, samples: 1 };
            return Ok(Reply::Measured(sampled));
        }
        let timing = take_turns(&mut [&mut run], &limits(seconds, 3))?.remove(0);
        // The fastest: candidates are measured one after the other, and what disturbs one of them
        // must not make it lose.
        Ok(Reply::Measured(Sampled { seconds: timing.fastest, ..sampled(&timing) }))
    }

    fn compare(&self, configs: &[Option<Config>], seconds: f64) -> anyhow::Result<Reply> {
        let mut runs = Vec::new();
        for config in configs {
            let mut run = self.run(config.as_ref());
            time_one(&mut run)?;
            runs.push(run);
        }
        let mut contenders: Vec<&mut dyn Contender> = Vec::new();
        contenders.extend(runs.iter_mut().map(|run| run as &mut dyn Contender));
        let timings = take_turns(&mut contenders, &limits(seconds, 7))?;
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

impl Contender for Run<'_> {
    fn run(&mut self) -> anyhow::Result<()> {
        self.prepared.run(self.config)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.prepared.finish()
    }

    fn settles_in(&self) -> Duration {
        Duration::ZERO
    }
}

fn failure_of(error: &anyhow::Error) -> Failure {
    match exit::runtime_error(error) {
        Some(RuntimeError::BuildFailed { .. }) => Failure::Build,
        _ => Failure::Run,
    }
}

/// Compilers say much; the beginning tells what is wrong.
fn first_lines(text: &str) -> String {
    text.chars().take(400).collect()
}
