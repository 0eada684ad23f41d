//! `polaris bench modes`: this machine's CPU, its GPU, and both together, in what models are made of.

mod draft;
mod effort;
mod measure;
mod page;
mod results;
mod table;
mod tokens;
mod workloads;

use polaris::DeviceRef;
use polaris::runtime::DeviceKind;

use crate::arguments::{BenchModes, Global};
use crate::commands::bench_gemm::{date, save::replace_file};
use crate::commands::devices;
use crate::exit;
use crate::output::{self, progress, say};
use crate::session::Session;
use effort::{Effort, Speeds};
use measure::{measure_graph, measure_tokens};
use results::{OpenCl, Row, TOLERANCE};
use workloads::{Kind, WORKLOADS, Workload};

pub use results::Results;
pub use table::print;

pub fn run(global: Global, options: &BenchModes) -> anyhow::Result<u8> {
    let json = global.json;
    let chosen = choose(&options.only);
    let mut session = Session::new(global)?;
    session.check_new_devices()?;
    let results = measure(&session, &chosen, options.quick)?;
    if json {
        output::print_json("polaris.bench.modes/1", &results)?;
    } else {
        print(&results)?;
    }
    if let Some(file) = &options.html {
        replace_file(file, &page::page(&session, &results).render())?;
        say!("note: the page is {}", file.display());
    }
    Ok(if results.ok { exit::OK } else { exit::FOUND_WRONG })
}

/// The short form, for a first look at a machine.
pub fn quick(session: &Session) -> anyhow::Result<Results> {
    measure(session, &choose(&[]), true)
}

/// What `--only` takes.
pub fn workload_names() -> impl Iterator<Item = &'static str> {
    WORKLOADS.iter().map(|workload| workload.name)
}

/// The workloads of these names; all if none is named.
fn choose(names: &[String]) -> Vec<&'static Workload> {
    let chosen =
        |workload: &&Workload| names.is_empty() || names.iter().any(|name| name == workload.name);
    WORKLOADS.iter().filter(chosen).collect()
}

fn measure(
    session: &Session,
    workloads: &[&'static Workload],
    quick: bool,
) -> anyhow::Result<Results> {
    let device = opencl_device(session)?;
    let effort = if quick { Effort::quick() } else { Effort::full() };
    let mut speeds = Speeds::default();
    let bar = progress(workloads.len(), "comparing modes");
    let quiet = Quiet::new();
    let mut rows = Vec::new();
    for workload in workloads {
        bar.set_message(workload.title);
        let (flops, modes) = match workload.kind {
            Kind::Tokens => (None, measure_tokens(device.is_some(), &effort)?),
            Kind::Product(draft) | Kind::Network(draft) => {
                measure_graph(session, device.as_ref(), &draft()?, &effort, &mut speeds)?
            }
        };
        let Workload { name, title, about, .. } = **workload;
        let mut row = Row { workload: name, title, about, flops, fastest: None, modes };
        row.compare();
        rows.push(row);
        bar.inc(1);
    }
    bar.finish_and_clear();
    drop(quiet);
    Ok(Results {
        polaris: env!("CARGO_PKG_VERSION"),
        date: date::now(),
        quick,
        ok: rows.iter().all(Row::agrees),
        cpu: session.runtime.cpu().info().name.clone(),
        threads: session.runtime.cpu().capabilities().compute_units,
        notes: notes(session, device.as_ref()),
        device: device.as_ref().map(described),
        tolerance: TOLERANCE,
        results: rows,
    })
}

/// The OpenCL device to compare with: the first GPU among those that the user chose, else the first of any
/// kind.
fn opencl_device(session: &Session) -> anyhow::Result<Option<DeviceRef>> {
    let mut devices = session.devices()?;
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

/// What all figures have in common, in words.
fn notes(session: &Session, device: Option<&DeviceRef>) -> Vec<String> {
    match device {
        Some(device) if device.info().kind == DeviceKind::Cpu => vec![format!(
            "{} is the CPU under another name ({}): the modes gpu and hybrid show what OpenCL costs on \
             this processor, not what a graphics card would bring.",
            device.id(),
            device.info().platform
        )],
        Some(_) => Vec::new(),
        None if !session.global.device.is_empty() => {
            vec!["Only the CPU was asked for; without --device the modes are compared.".to_owned()]
        }
        None => {
            let found = "There is no OpenCL device, so only the CPU is measured.".to_owned();
            [found].into_iter().chain(devices::ways_to_opencl(session)).collect()
        }
    }
}

/// Keeps the library from saying on stderr, for every workload, that it measures instructions, as long as
/// the user did not ask for its words.
struct Quiet(log::LevelFilter);

impl Quiet {
    fn new() -> Self {
        let before = log::max_level();
        if std::env::var_os("POLARIS_LOG").is_none() {
            log::set_max_level(log::LevelFilter::Error);
        }
        Self(before)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        log::set_max_level(self.0);
    }
}
