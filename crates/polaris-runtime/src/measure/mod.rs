//! Measures arithmetic, memory, transfers and launches of a device: medians of repeated runs after a warm-up.

mod cpu;
mod opencl;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use cpu::PlainLoops;
pub use opencl::{SmallLaunch, shipped_programs};

use crate::machine::{LinkMeasurement, Measurement};
use crate::{DeviceExt, DeviceRef, Error, Result};
use polaris_core::DType;

/// Tells whether the user wants the measuring to stop.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// Measures a device: takes a second or two.
///
/// # Errors
/// `Interrupted` if the user stopped it, or what the device says. Nothing is kept then.
pub fn measure(device: &DeviceRef, stop: Stop<'_>) -> Result<Measurement> {
    let fp32_gflops = match device.as_opencl() {
        Some(opencl) => opencl::fp32_gflops(opencl, device, stop)?,
        None => cpu::fp32_gflops(device, stop)?,
    };
    let memory_gbs = match device.as_cpu() {
        // The system's own copy: what every other one is compared with.
        Some(cpu) => {
            let bytes = transfer_bytes(device).min(64 << 20);
            let mut loops = PlainLoops::new(bytes);
            let seconds = median_seconds(device, 9, stop, || {
                loops.memcpy(cpu.pool());
                Ok(())
            })?;
            2.0 * bytes as f64 / seconds / 1e9
        }
        None => device_copy(device, transfer_bytes(device), stop)?,
    };
    Ok(Measurement {
        fp32_gflops,
        memory_gbs,
        host_to_device: link(device, true, stop)?,
        device_to_host: link(device, false, stop)?,
        launch_us: launch_us(device, stop, 1)?,
        enqueue_us: Some(launch_us(device, stop, IN_A_ROW)?),
        compute_units: Some(device.capabilities().compute_units),
        unix_time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
    })
}

/// Large enough to leave every cache, small enough for a quarter of the budget.
fn transfer_bytes(device: &DeviceRef) -> usize {
    let limits =
        device.allocator().memory_use().limit.min(device.capabilities().max_allocation_bytes);
    (256 << 20).min(limits as usize / 4).max(4096) / 4096 * 4096
}

/// The device's own copy of dense memory, in GB/s read plus written.
///
/// # Errors
/// `Interrupted`, or what the device says.
pub fn device_copy(device: &DeviceRef, bytes: usize, stop: Stop<'_>) -> Result<f64> {
    let source = device.allocate(DType::U8, bytes)?;
    let target = device.allocate(DType::U8, bytes)?;
    source.fill(1u8)?;
    // Several in a row: on a fast card one alone is hardly longer than its launch.
    let copies = 16;
    let seconds =
        median_seconds(device, 9, stop, || (0..copies).try_for_each(|_| source.copy_to(&target)))?;
    Ok(2.0 * (copies * bytes) as f64 / seconds / 1e9)
}

fn link(device: &DeviceRef, upload: bool, stop: Stop<'_>) -> Result<LinkMeasurement> {
    let transfer = |bytes: usize, repeats: usize| -> Result<f64> {
        let mut host = vec![1u8; bytes];
        let buffer = device.upload(&host)?;
        median_seconds(device, repeats, stop, || {
            if upload { buffer.write(&host) } else { buffer.read_into(&mut host) }
        })
    };
    let large = transfer_bytes(device).min(64 << 20);
    let gbs = large as f64 / transfer(large, 7)? / 1e9;
    Ok(LinkMeasurement { gbs, latency_us: transfer(4, 101)? * 1e6 })
}

/// Launches of a row.
const IN_A_ROW: usize = 200;

/// From asking for the smallest piece of work to knowing that it is done; of a row, the share of one.
fn launch_us(device: &DeviceRef, stop: Stop<'_>, in_a_row: usize) -> Result<f64> {
    let repeats = if in_a_row > 1 { 9 } else { 101 };
    let seconds = match device.as_opencl() {
        Some(opencl) => opencl::empty_launch_seconds(opencl, device, stop, repeats, in_a_row)?,
        None => {
            let cpu = device.as_cpu().ok_or(Error::NotHostMemory { device: device.id() })?;
            median_seconds(device, repeats, stop, || {
                (0..in_a_row).for_each(|_| cpu.pool().run(cpu.pool().threads(), |_| {}));
                Ok(())
            })?
        }
    };
    Ok(seconds * 1e6 / in_a_row as f64)
}

/// The median time of some work, from its start until the device has finished it.
///
/// # Errors
/// `Interrupted`, or what the work says.
pub fn median_seconds(
    device: &DeviceRef,
    repeats: usize,
    stop: Stop<'_>,
    mut work: impl FnMut() -> Result<()>,
) -> Result<f64> {
    let mut times = Vec::with_capacity(repeats);
    for round in 0..=repeats {
        if stop() {
            return Err(Error::Interrupted);
        }
        let start = Instant::now();
        work()?;
        device.queue().finish()?;
        // The first round warms up: pages, clocks, program builds.
        if round > 0 {
            times.push(start.elapsed());
        }
    }
    Ok(median(&mut times).as_secs_f64())
}

/// The middle of the times.
pub fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
