//! The worker's side of tuning: builds, runs, checks and times what it is asked to. Drivers hang and
//! crash; then only this process is lost.

use std::io::{BufRead, Write};
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use polaris::DeviceRef;
use polaris::ops::matmul::{Kernel, Tile, tile_of};
use polaris::ops::{MatMul, run as run_operation, run_kernel};
use polaris::runtime::Error as RuntimeError;
use polaris_tune::Failure;

use super::inject::{Fault, Injected};
use super::protocol::{Config, Job, Reply, Request, Sampled};
use crate::arguments::Global;
use crate::commands::bench_gemm::cases::{Case, Dims, Numbers, Transpose};
use crate::commands::bench_gemm::contenders::spoil;
use crate::commands::bench_gemm::measure::{Contender, Limits, Timing, take_turns, time_one};
use crate::commands::bench_gemm::operands::{Operands, bytes_of};
use crate::commands::bench_gemm::reference::Reference;
use crate::exit;
use crate::session::Session;

/// The largest relative error of a configuration that is right.
const TOLERANCE: f64 = 1e-5;
/// The same for results in half precision.
const HALF_TOLERANCE: f64 = 5e-3;
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
        println!("{}", serde_json::to_string(&reply)?);
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
    if let Request::Prepare(job) = &request {
        *bench = Some(Bench::new(session, device, job)?);
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

/// A product with its operands and reference.
struct Bench {
    device: DeviceRef,
    case: Case,
    op: MatMul,
    operands: Operands,
    reference: Reference,
}

impl Bench {
    fn new(session: &Session, device: &DeviceRef, job: &Job) -> anyhow::Result<Self> {
        let named = |what: &str, text: &str| anyhow::anyhow!("{text:?} is no {what}");
        let numbers = Numbers::from_str(&job.dtype, true);
        let transpose = Transpose::from_str(&job.transpose, true);
        let case = Case {
            dims: Dims { m: job.m, n: job.n, k: job.k },
            numbers: numbers.map_err(|_| named("type", &job.dtype))?,
            transpose: transpose.map_err(|_| named("transpose", &job.transpose))?,
        };
        let operands = Operands::new(&case, device, session.runtime.cpu(), false)?;
        let reference = Reference::new(&case, &operands)?;
        let op = MatMul { precision: case.numbers.precision(), ..MatMul::default() };
        Ok(Self { device: device.clone(), case, op, operands, reference })
    }

    fn run(&self, tile: Option<Tile>) -> TileRun<'_> {
        TileRun { bench: self, tile }
    }

    fn tile(&self, config: &Config) -> anyhow::Result<Tile> {
        let opencl = self.device.as_opencl().context("only OpenCL devices are tuned")?;
        tile_of(opencl, &|name| config.get(name).copied())
            .context("this configuration is not valid on this device")
    }

    fn try_out(&self, config: &Config, fault: Option<Fault>) -> anyhow::Result<Reply> {
        let tile = self.tile(config)?;
        match fault {
            Some(Fault::Hang) => loop {
                std::thread::sleep(Duration::from_secs(1));
            },
            Some(Fault::Crash) => std::process::abort(),
            _ => {}
        }
        spoil(&self.operands.out)?;
        let mut run = self.run(Some(tile));
        time_one(&mut run)?;
        let mut result = run.result()?;
        if fault == Some(Fault::Wrong) {
            result.iter_mut().step_by(5).for_each(|byte| *byte ^= 0x3f);
        }
        let error = self.reference.error_of(&result);
        let output = self.case.numbers.output();
        let tolerance = match (output.is_float(), output.size()) {
            (false, _) => 0.0,
            (true, 2) => HALF_TOLERANCE,
            _ if self.case.numbers == Numbers::Tf32 => 1e-3,
            _ => TOLERANCE,
        };
        // What is not a number is not right either.
        if error <= tolerance {
            return Ok(Reply::Tried { error });
        }
        let why = format!("its relative error is {error:.1e}, and {tolerance:.0e} is allowed");
        Ok(Reply::Failed { kind: Failure::Wrong, why })
    }

    fn measure(&self, config: &Config, seconds: f64, limit: Option<f64>) -> anyhow::Result<Reply> {
        let mut run = self.run(Some(self.tile(config)?));
        // The first one may still be slow for other reasons.
        let first = time_one(&mut run)?.min(time_one(&mut run)?);
        if limit.is_some_and(|limit| first.as_secs_f64() > limit) {
            let sampled = Sampled { seconds: first.as_secs_f64(), spread: 0.0, samples: 1 };
            return Ok(Reply::Measured(sampled));
        }
        let timings = take_turns(&mut [&mut run], &limits(seconds, 3))?;
        Ok(Reply::Measured(sampled(&timings[0])))
    }

    fn compare(&self, configs: &[Option<Config>], seconds: f64) -> anyhow::Result<Reply> {
        let tiles = configs.iter().map(|config| config.as_ref().map(|c| self.tile(c)).transpose());
        let mut runs = Vec::new();
        for tile in tiles {
            let mut run = self.run(tile?);
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
    Limits { sample: SAMPLE, budget: Duration::from_secs_f64(seconds), rounds }
}

fn sampled(timing: &Timing) -> Sampled {
    Sampled { seconds: timing.seconds, spread: timing.cv, samples: timing.samples as u32 }
}

/// A product by one tile, or as it is chosen.
struct TileRun<'a> {
    bench: &'a Bench,
    tile: Option<Tile>,
}

impl Contender for TileRun<'_> {
    fn run(&mut self) -> anyhow::Result<()> {
        let Bench { op, operands, .. } = self.bench;
        let inputs = [&operands.a, &operands.b];
        match self.tile {
            Some(tile) => run_kernel(op, Kernel::Tiled(tile), &inputs, &operands.out)?,
            None => run_operation(op, &inputs, &operands.out)?,
        }
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(self.bench.device.queue().finish()?)
    }

    fn result(&mut self) -> anyhow::Result<Vec<u8>> {
        bytes_of(&self.bench.operands.out)
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
