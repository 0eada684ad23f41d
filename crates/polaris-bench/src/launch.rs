//! The overhead of one small operation against a bare OpenCL enqueue.

use std::time::Instant;

use polaris_core::CancellationToken;
use polaris_ops::elementwise::{self, Elementwise};
use polaris_ops::{Array, Binary, run as run_operation};
use polaris_runtime::measure::SmallLaunch;
use polaris_runtime::{DeviceId, DeviceRef, Runtime};
use serde::Serialize;

use crate::Result;
use crate::error::go_on;

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct Results {
    /// Elements of each operand.
    pub elements: usize,
    /// A row for each way on each device.
    pub results: Vec<Row>,
}

/// Microseconds of one call, host and device together, in a row of many.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The device.
    pub device: DeviceId,
    /// The way to do it.
    pub name: &'static str,
    /// Microseconds, the median.
    pub us: f64,
    /// A bare enqueue of a kernel like it, where there is one.
    pub baseline_us: Option<f64>,
    /// What it adds to that.
    pub added_us: Option<f64>,
}

/// Elements of each operand.
pub const ELEMENTS: usize = 16;
/// Calls of one batch, at whose end the device is waited for.
pub const CALLS: usize = 500;
/// Batches; the ways take turns, and the median counts.
pub const BATCHES: usize = 31;

/// Measures small operations on these devices, or on all of them.
///
/// # Errors
/// If a device is not there or fails, or if it is cancelled.
pub fn run(
    runtime: &Runtime,
    devices: &[DeviceId],
    cancellation: &CancellationToken,
) -> Result<Results> {
    let mut results = Vec::new();
    for device in runtime.chosen(devices)? {
        results.extend(measure(&device, cancellation)?);
    }
    Ok(Results { elements: ELEMENTS, results })
}

fn measure(device: &DeviceRef, cancellation: &CancellationToken) -> Result<Vec<Row>> {
    let values = [1.0f32; ELEMENTS];
    let array = || Array::from_slice(device, &[ELEMENTS], &values);
    let (a, b, out) = (array()?, array()?, array()?);
    let add = Elementwise { function: Binary::Add.into() };
    let mut into_existing = || Ok(run_operation(&add, &[&a, &b], &out)?);
    let mut allocating = || {
        elementwise::binary(Binary::Add, &a, &b)?;
        Ok(())
    };
    let small = device.as_opencl().map(|opencl| SmallLaunch::new(opencl, device)).transpose()?;
    let mut ways: Vec<(&'static str, Way<'_>)> = vec![
        ("operation into an existing array", Box::new(&mut into_existing)),
        ("operation with a new array", Box::new(&mut allocating)),
    ];
    if let Some(small) = &small {
        ways.push(("launch through the binder", Box::new(|| Ok(small.bound()?))));
        ways.push(("bare enqueue", Box::new(|| Ok(small.bare()?))));
    }
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
    // The first batch warms up.
    for batch in 0..=BATCHES {
        go_on(cancellation)?;
        for (way, times) in ways.iter_mut().zip(&mut times) {
            let start = Instant::now();
            for _ in 0..CALLS {
                (way.1)()?;
            }
            device.queue().finish()?;
            if let Some(small) = &small {
                small.finish_bare()?;
            }
            if batch > 0 {
                times.push(start.elapsed().as_secs_f64() * 1e6 / CALLS as f64);
            }
        }
    }
    let medians: Vec<f64> = times
        .into_iter()
        .map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        })
        .collect();
    let bare = small.is_some().then(|| medians[medians.len() - 1]);
    let rows =
        ways.iter().zip(medians).filter(|(way, _)| way.0 != "bare enqueue").map(|(way, us)| Row {
            device: device.id(),
            name: way.0,
            us,
            baseline_us: bare,
            added_us: bare.map(|bare| us - bare),
        });
    Ok(rows.collect())
}

type Way<'a> = Box<dyn FnMut() -> Result<()> + 'a>;
