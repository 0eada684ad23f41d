//! `polaris bench launch`: what one small operation costs, beside a bare OpenCL enqueue.

use std::time::Instant;

use polaris::ops::elementwise::{self, Elementwise};
use polaris::ops::{Array, Binary, run as run_operation};
use polaris::runtime::Error as RuntimeError;
use polaris::runtime::measure::SmallLaunch;
use polaris::{DeviceId, DeviceRef};
use serde::Serialize;

use crate::arguments::Global;
use crate::output::{self, Table};
use crate::session::Session;
use crate::{exit, interrupt};

#[derive(Serialize)]
struct Results {
    elements: usize,
    results: Vec<Row>,
}

/// Microseconds of one call, host and device together, in a row of many.
#[derive(Serialize)]
struct Row {
    device: DeviceId,
    name: &'static str,
    us: f64,
    /// A bare enqueue of a kernel like it, where there is one.
    baseline_us: Option<f64>,
    added_us: Option<f64>,
}

const ELEMENTS: usize = 16;
/// Calls of one batch, at whose end the device is waited for.
const CALLS: usize = 500;
/// Batches; the ways take turns, and the median counts.
const BATCHES: usize = 31;

pub fn run(global: Global) -> anyhow::Result<u8> {
    let json = global.json;
    let mut session = Session::new(global)?;
    session.check_new_devices()?;
    let mut results = Vec::new();
    for device in session.devices()? {
        results.extend(measure(&device)?);
    }
    if json {
        output::print_json("polaris.bench.launch/1", &Results { elements: ELEMENTS, results })?;
        return Ok(exit::OK);
    }
    output::print_line(&format!(
        "add of {ELEMENTS} f32, microseconds a call, medians of {BATCHES} x {CALLS} calls in turn"
    ))?;
    let mut table = Table::new(&["device", "call", ">us", ">bare enqueue", ">added"]);
    let show = |value: Option<f64>| value.map_or("-".to_owned(), |us| format!("{us:.2}"));
    for row in results {
        let cells = [format!("{:.2}", row.us), show(row.baseline_us), show(row.added_us)];
        table.row([row.device.to_string(), row.name.to_owned()].into_iter().chain(cells).collect());
    }
    table.print()?;
    Ok(exit::OK)
}

fn measure(device: &DeviceRef) -> anyhow::Result<Vec<Row>> {
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
        if interrupt::requested() {
            return Err(RuntimeError::Interrupted.into());
        }
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

type Way<'a> = Box<dyn FnMut() -> anyhow::Result<()> + 'a>;
