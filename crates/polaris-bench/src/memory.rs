//! `polaris bench memory`: copy, add and sum beside the plain loop or the device's own copy.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use polaris::ops::elementwise::Elementwise;
use polaris::ops::reduce::Reduce;
use polaris::ops::{Array, Binary, Distribution, Reduction, copy, random, run as run_operation};
use polaris::runtime::measure::{PlainLoops, median};
use polaris::runtime::{Bytes, Error as RuntimeError};
use polaris::{DType, DeviceId, DeviceRef, Shape};
use serde::Serialize;

use crate::arguments::{Global, Memory};
use crate::output::{self, Table};
use crate::session::Session;
use crate::{exit, interrupt};

#[derive(Serialize)]
struct Results {
    bytes: u64,
    results: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    device: DeviceId,
    name: &'static str,
    gbs: f64,
    /// What it is compared with.
    baseline: &'static str,
    baseline_gbs: f64,
    ratio: f64,
    /// The system's own copy, on the CPU.
    memcpy_gbs: Option<f64>,
}

/// Rounds in which ours and the baseline take turns.
const ROUNDS: usize = 15;

/// One round on a GPU: long against the time of a launch and of waiting for it.
const GPU_BATCH: usize = 100;

pub fn run(global: Global, options: &Memory) -> anyhow::Result<u8> {
    let json = global.json;
    let mut session = Session::new(global)?;
    session.check_new_devices()?;
    let mut results = Vec::new();
    for device in session.devices()? {
        results.extend(measure_device(&device, options.size as usize)?);
    }
    if json {
        output::print_json("polaris.bench.memory/1", &Results { bytes: options.size, results })?;
        return Ok(exit::OK);
    }
    output::print_line(&format!(
        "arrays of {}, f32, medians of {ROUNDS} rounds in turn",
        Bytes(options.size)
    ))?;
    let mut table =
        Table::new(&["device", "operation", ">GB/s", "beside", ">GB/s", ">ratio", ">memcpy"]);
    for row in results {
        table.row(vec![
            row.device.to_string(),
            row.name.into(),
            format!("{:.1}", row.gbs),
            row.baseline.into(),
            format!("{:.1}", row.baseline_gbs),
            format!("{:.2}", row.ratio),
            row.memcpy_gbs.map_or("-".into(), |gbs| format!("{gbs:.1}")),
        ]);
    }
    table.print()?;
    Ok(exit::OK)
}

fn measure_device(device: &DeviceRef, bytes: usize) -> anyhow::Result<Vec<Row>> {
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
    let mut axes = [false; polaris::MAX_RANK];
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
        let mut theirs = || -> anyhow::Result<()> {
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
        let [ours, theirs, memcpy] = take_turns(device, [ours, &mut theirs, &mut memcpy])?;
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

type Work<'a> = &'a mut dyn FnMut() -> anyhow::Result<()>;
type BoxedWork<'a> = Box<dyn FnMut() -> anyhow::Result<()> + 'a>;

/// The median seconds of some pieces of work, measured in turn so that all see the same machine.
fn take_turns<const N: usize>(
    device: &DeviceRef,
    mut work: [Work<'_>; N],
) -> anyhow::Result<[f64; N]> {
    let batch = if device.capabilities().unified_memory { 1 } else { GPU_BATCH };
    let time = |work: &mut Work<'_>| -> anyhow::Result<Duration> {
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
        if interrupt::requested() {
            return Err(RuntimeError::Interrupted.into());
        }
        for (work, times) in work.iter_mut().zip(&mut times) {
            let taken = time(work)?;
            if round > 0 {
                times.push(taken);
            }
        }
    }
    Ok(times.map(|mut times| median(&mut times).as_secs_f64()))
}
