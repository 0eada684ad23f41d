//! Copy, add and sum against a plain loop or the device's own copy.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use polaris_core::{CancellationToken, DType, MAX_RANK, Shape};
use polaris_ops::elementwise::Elementwise;
use polaris_ops::reduce::Reduce;
use polaris_ops::{Array, Binary, Distribution, Reduction, copy, random, run as run_operation};
use polaris_runtime::measure::{PlainLoops, median};
use polaris_runtime::{DeviceId, DeviceRef, Runtime};
use serde::Serialize;

use crate::Result;
use crate::error::go_on;

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct Results {
    /// The size of each array.
    pub bytes: u64,
    /// A row for each operation on each device.
    pub results: Vec<Row>,
}

/// An operation on a device.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The device.
    pub device: DeviceId,
    /// The operation.
    pub name: &'static str,
    /// Read plus written.
    pub gbs: f64,
    /// What it is compared with.
    pub baseline: &'static str,
    /// What that reaches.
    pub baseline_gbs: f64,
    /// Ours by that.
    pub ratio: f64,
    /// The system's own copy, on the CPU.
    pub memcpy_gbs: Option<f64>,
}

/// Rounds in which ours and the baseline take turns.
pub const ROUNDS: usize = 15;

/// One round on a GPU: long against the time of a launch and of waiting for it.
const GPU_BATCH: usize = 100;

/// What to measure.
#[derive(Debug, Clone)]
pub struct MemoryOptions {
    /// The devices; all of them if none is named.
    pub devices: Vec<DeviceId>,
    /// The size of each array.
    pub bytes: u64,
    /// Ends it.
    pub cancellation: CancellationToken,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        let cancellation = CancellationToken::new();
        Self { devices: Vec::new(), bytes: 64 << 20, cancellation }
    }
}

/// Measures copy, add and sum.
///
/// # Errors
/// If a device is not there or fails, or if it is cancelled.
pub fn run(runtime: &Runtime, options: &MemoryOptions) -> Result<Results> {
    let mut results = Vec::new();
    for device in runtime.chosen(&options.devices)? {
        results.extend(measure_device(&device, options.bytes as usize, &options.cancellation)?);
    }
    Ok(Results { bytes: options.bytes, results })
}

fn measure_device(
    device: &DeviceRef,
    bytes: usize,
    cancellation: &CancellationToken,
) -> Result<Vec<Row>> {
    let shape = Shape::new(&[bytes / 4])?;
    // Random values: on constant ones some devices are faster than they will ever be in earnest.
    let fresh = |seed| {
        random::random(
            device,
            DType::F32,
            shape,
            Distribution::Uniform { low: -1.0, high: 1.0 },
            seed,
        )
    };
    let (a, b) = (fresh(1)?, fresh(2)?);
    let out = Array::empty(device, DType::F32, shape)?;
    let sum = Array::empty(device, DType::F32, Shape::SCALAR)?;
    let add = Elementwise { function: Binary::Add.into() };
    let mut axes = [false; MAX_RANK];
    axes[0] = true;
    let reduce = Reduce { reduction: Reduction::Sum, axes };
    // Each with how often it passes over an array.
    let mut operations: [(&'static str, f64, BoxedWork<'_>); 3] = [
        ("copy", 2.0, Box::new(|| Ok(copy::into(&a, &out)?))),
        ("add", 3.0, Box::new(|| Ok(run_operation(&add, &[&a, &b], &out)?))),
        ("sum", 1.0, Box::new(|| Ok(run_operation(&reduce, &[&a], &sum)?))),
    ];
    // The CPU's baselines are loops of the plainest kind; a GPU's is its own copy.
    let plain = device.as_cpu().map(|cpu| (cpu.pool(), RefCell::new(PlainLoops::new(bytes))));
    let mut rows = Vec::new();
    for (name, passes, ours) in &mut operations {
        let reads_only = *name == "sum";
        let (baseline, baseline_passes) = match plain {
            Some(_) if reads_only => ("plain read loop", 1.0),
            Some(_) => ("plain copy loop", 2.0),
            None => ("device's own copy", 2.0),
        };
        let mut theirs = || -> Result<()> {
            match &plain {
                Some((pool, loops)) if reads_only => {
                    std::hint::black_box(loops.borrow().read(pool));
                }
                Some((pool, loops)) => loops.borrow_mut().copy(pool),
                None => a.buffer().copy_to(out.buffer())?,
            }
            Ok(())
        };
        let mut memcpy = || {
            if let Some((pool, loops)) = &plain {
                loops.borrow_mut().memcpy(pool);
            }
            Ok(())
        };
        let [ours, theirs, memcpy] =
            take_turns(device, [ours, &mut theirs, &mut memcpy], cancellation)?;
        let rate = |passes: f64, seconds: f64| passes * bytes as f64 / seconds / 1e9;
        let (gbs, baseline_gbs) = (rate(*passes, ours), rate(baseline_passes, theirs));
        rows.push(Row {
            device: device.id(),
            name,
            gbs,
            baseline,
            baseline_gbs,
            ratio: gbs / baseline_gbs,
            memcpy_gbs: plain.is_some().then(|| rate(2.0, memcpy)),
        });
    }
    Ok(rows)
}

type Work<'a> = &'a mut dyn FnMut() -> Result<()>;
type BoxedWork<'a> = Box<dyn FnMut() -> Result<()> + 'a>;

/// The median seconds of some pieces of work, measured in turn so that all see the same machine.
fn take_turns<const N: usize>(
    device: &DeviceRef,
    mut work: [Work<'_>; N],
    cancellation: &CancellationToken,
) -> Result<[f64; N]> {
    let batch = if device.capabilities().unified_memory { 1 } else { GPU_BATCH };
    let time = |work: &mut Work<'_>| -> Result<Duration> {
        let start = Instant::now();
        for _ in 0..batch {
            work()?;
        }
        device.queue().finish()?;
        Ok(start.elapsed() / batch as u32)
    };
    let mut times = [const { Vec::new() }; N];
    // The first round warms up.
    for round in 0..=ROUNDS {
        go_on(cancellation)?;
        for (work, times) in work.iter_mut().zip(&mut times) {
            let taken = time(work)?;
            if round > 0 {
                times.push(taken);
            }
        }
    }
    Ok(times.map(|mut times| median(&mut times).as_secs_f64()))
}
