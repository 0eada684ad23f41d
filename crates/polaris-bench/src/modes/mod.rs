//! Compares CPU, GPU and hybrid on workloads of models.

mod draft;
mod effort;
mod measure;
mod page;
mod results;
mod tokens;
mod words;
mod workloads;

use polaris_core::{CancellationToken, Progress};
use polaris_runtime::{DeviceId, DeviceKind, DeviceRef, Runtime};

pub use page::page;
pub use results::{Entry, Measured, ModeOf, OpenCl, Results, Row, TOLERANCE};
pub use words::{gigaflops, milliseconds, remark};

use crate::Result;
use effort::{Effort, Speeds};
use measure::{measure_graph, measure_tokens};
use workloads::{Kind, WORKLOADS, Workload};

/// What to compare, and how thoroughly.
#[derive(Debug, Clone, Default)]
pub struct ModesOptions {
    /// The devices that may be compared with the CPU; all of them if none is named.
    pub devices: Vec<DeviceId>,
    /// Names of workloads, as [`workload_names`] lists them; all if there are none.
    pub only: Vec<String>,
    /// Few rounds, and nothing that takes long.
    pub quick: bool,
    /// Ends it.
    pub cancellation: CancellationToken,
}

/// The names of all workloads.
pub fn workload_names() -> impl Iterator<Item = &'static str> {
    WORKLOADS.iter().map(|workload| workload.name)
}

/// The workloads of these names; all if none is named.
fn choose(names: &[String]) -> Vec<&'static Workload> {
    let chosen =
        |workload: &&Workload| names.is_empty() || names.iter().any(|name| name == workload.name);
    WORKLOADS.iter().filter(chosen).collect()
}

/// Measures the workloads in every mode and compares times and results.
///
/// The library notes at the level `warn` that it measures instructions, for every workload.
///
/// # Errors
/// If a device is not there, or if it is cancelled. A device that fails is left out.
pub fn run(
    runtime: &Runtime,
    options: &ModesOptions,
    progress: &mut dyn Progress,
) -> Result<Results> {
    let ModesOptions { quick, cancellation, .. } = options;
    let workloads = choose(&options.only);
    let device = opencl_device(runtime, &options.devices)?;
    let effort = if *quick { Effort::quick() } else { Effort::full() };
    let mut speeds = Speeds::default();
    progress.begin("comparing modes", workloads.len());
    let mut rows = Vec::new();
    for (done, workload) in workloads.iter().enumerate() {
        progress.advance(done, workload.title);
        let (flops, modes) = match workload.kind {
            Kind::Tokens => (None, measure_tokens(device.is_some(), &effort, cancellation)?),
            Kind::Product(draft) | Kind::Network(draft) => {
                let (device, drafted) = (device.as_ref(), draft()?);
                measure_graph(runtime, device, &drafted, &effort, &mut speeds, cancellation)?
            }
        };
        let Workload { name, title, about, .. } = **workload;
        let mut row = Row { workload: name, title, about, flops, fastest: None, modes };
        row.compare();
        rows.push(row);
    }
    progress.end();
    Ok(Results {
        polaris: env!("CARGO_PKG_VERSION"),
        date: crate::now(),
        quick: *quick,
        ok: rows.iter().all(Row::agrees),
        cpu: runtime.cpu().info().name.clone(),
        threads: runtime.cpu().capabilities().compute_units,
        notes: notes(runtime, &options.devices, device.as_ref()),
        device: device.as_ref().map(described),
        tolerance: TOLERANCE,
        results: rows,
    })
}

/// The OpenCL device to compare with: the first GPU among those that the user chose, else the first of any
/// kind.
fn opencl_device(runtime: &Runtime, chosen: &[DeviceId]) -> Result<Option<DeviceRef>> {
    let mut devices = runtime.chosen(chosen)?;
    devices.retain(|device| device.as_opencl().is_some());
    let gpu = devices.iter().position(|device| device.info().kind == DeviceKind::Gpu);
    Ok(devices.into_iter().nth(gpu.unwrap_or(0)))
}

fn described(device: &DeviceRef) -> OpenCl {
    let info = device.info();
    OpenCl {
        id: device.id(),
        name: info.name.clone(),
        driver: format!("{}, {}", info.platform, info.driver),
        is_the_cpu: info.kind == DeviceKind::Cpu,
    }
}

/// Notes on all figures.
fn notes(runtime: &Runtime, chosen: &[DeviceId], device: Option<&DeviceRef>) -> Vec<String> {
    match device {
        Some(device) if device.info().kind == DeviceKind::Cpu => vec![format!(
            "{} runs on the CPU ({}): the modes gpu and hybrid show the cost of OpenCL on this processor, not the \
             speed of a graphics card.",
            device.id(),
            device.info().platform
        )],
        Some(_) => Vec::new(),
        None if !chosen.is_empty() => {
            vec![
                "Only the CPU was selected; select an OpenCL device as well to compare the modes."
                    .to_owned(),
            ]
        }
        None => {
            let found = "There is no OpenCL device, so only the CPU is measured.".to_owned();
            [found].into_iter().chain(runtime.ways_to_opencl()).collect()
        }
    }
}
