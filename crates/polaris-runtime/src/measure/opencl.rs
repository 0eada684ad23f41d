//! Measurements through OpenCL.

use std::sync::Arc;

use super::{Stop, median_seconds};
use crate::opencl::{BareLaunch, Defines, Kernel, OpenClDevice, ProgramSource};
use crate::{Buffer, Device, DeviceExt, DeviceKind, DeviceRef, Result};
use polaris_core::DType;

const PARTS: &[&str] = &[include_str!("peak.cl")];

/// Multiply-adds of one work-item in a round, on vectors.
const PER_ROUND: usize = 16;

/// Processors need vectors as wide as their registers, and their `mad` is often two instructions.
fn source(rounds: usize, work_group: usize, lanes: usize) -> ProgramSource {
    let (vector, last, multiply_add) =
        if lanes == 16 { ("float16", "scdef", "fma") } else { ("float4", "s0123", "mad") };
    let defines = Defines::new()
        .number("ROUNDS", rounds as i64)
        .number("WORK_GROUP", work_group as i64)
        .code("VECTOR", vector)
        .code("LAST", last)
        .code("MULTIPLY_ADD", multiply_add);
    ProgramSource { name: "peak.cl".into(), parts: PARTS, defines, options: "-cl-mad-enable" }
}

/// The programs of this module, for the machine-code report.
pub fn shipped_programs() -> Vec<ProgramSource> {
    vec![source(256, 256, 4)]
}

pub fn fp32_gflops(device: &OpenClDevice, handle: &DeviceRef, stop: Stop<'_>) -> Result<f64> {
    let limits = device.capabilities();
    let lanes = if device.info().kind == DeviceKind::Cpu { 16 } else { 4 };
    let work_group = limits.max_work_group.min(256);
    let items = limits.compute_units * 64 * work_group;
    let out = handle.allocate(DType::F32, items)?;
    let mut rounds = 64;
    // Grown until a launch is long against its overhead; never so long that a display driver
    // takes it for a hang, also on the slowest software rasteriser.
    loop {
        let key = (rounds * 1024 + work_group) as u64;
        let source = || source(rounds, work_group, lanes);
        let kernel = device.kernel(("peak", key), "peak_f32", source)?;
        let seconds = median_seconds(handle, 5, stop, || {
            let launch = device.launch(&kernel).value(1.0f32).buffer(&out, 0);
            // SAFETY: each item writes its own element of `out`, which has one for each; `items` is a
            // multiple of the group.
            unsafe { launch.run(&[items], &[work_group]) }
        })?;
        if seconds > 0.005 || rounds >= 16_384 {
            return Ok(2.0 * (items * rounds * PER_ROUND * lanes) as f64 / seconds / 1e9);
        }
        rounds *= 8;
    }
}

pub fn empty_launch_seconds(
    device: &OpenClDevice,
    handle: &DeviceRef,
    stop: Stop<'_>,
    repeats: usize,
    in_a_row: usize,
) -> Result<f64> {
    let kernel = device.kernel(("empty", 0), "empty", || {
        source(64, 256.min(device.capabilities().max_work_group), 4)
    })?;
    median_seconds(handle, repeats, stop, || {
        // SAFETY: the kernel is empty.
        (0..in_a_row).try_for_each(|_| unsafe { device.launch(&kernel).run(&[1], &[1]) })
    })
}

/// The smallest useful launch, done in two ways that can be timed in turn.
pub struct SmallLaunch<'a> {
    device: &'a OpenClDevice,
    kernel: Arc<Kernel>,
    bare: BareLaunch,
    work_group: usize,
    arrays: [Buffer; 3],
}

/// Elements of the small launch.
const SMALL: usize = 16;

impl<'a> SmallLaunch<'a> {
    /// Builds the kernel and its arrays.
    ///
    /// # Errors
    /// What the device says.
    pub fn new(device: &'a OpenClDevice, handle: &DeviceRef) -> Result<Self> {
        let work_group = device.capabilities().max_work_group.min(256);
        let kernel =
            device.kernel(("small", work_group as u64), "small", || source(64, work_group, 4))?;
        let array = || handle.upload(&[1.0f32; SMALL]);
        let arrays = [array()?, array()?, array()?];
        let bare = BareLaunch::new(device, &source(64, work_group, 4), "small")?;
        Ok(Self { device, kernel, bare, work_group, arrays })
    }

    /// Through the binder that every operation uses.
    ///
    /// # Errors
    /// What the device says.
    pub fn bound(&self) -> Result<()> {
        let [out, a, b] = &self.arrays;
        let launch = self.device.launch(&self.kernel).value(SMALL as u64).value(0u32);
        let launch = launch.buffer(out, 0).buffer(a, 0).buffer(b, 0).buffer(b, 0);
        // SAFETY: the items below the count of `SMALL` use their own element of arrays of so many.
        unsafe { launch.run(&[SMALL], &[self.work_group]) }
    }

    /// Through OpenCL's own functions alone, as a C program would do it: the same kernel, the
    /// same arguments, a queue of its own.
    ///
    /// # Errors
    /// What the device says.
    pub fn bare(&self) -> Result<()> {
        let [out, a, b] = &self.arrays;
        self.bare.enqueue(SMALL as u64, [out, a, b, b], self.work_group)
    }

    /// Waits for the bare launches.
    ///
    /// # Errors
    /// What the device says.
    pub fn finish_bare(&self) -> Result<()> {
        self.bare.finish()
    }
}
