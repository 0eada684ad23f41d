//! Matmul: speed, error and share of the roofline, against other libraries where they are installed.

pub mod cases;
mod contenders;
pub mod operands;
mod page;
mod quick;
pub mod reference;
mod results;
mod roofline;
mod run_case;
mod save;

use polaris_core::{CancellationToken, Progress};
use polaris_peers::{Found, OpenClTarget, Target};
use polaris_runtime::hardware::Vendor;
use polaris_runtime::{Bytes, DeviceId, DeviceRef, Runtime};

pub use cases::{Case, Dims, EpilogueName, Numbers, Sweep, Transpose, VariantChoice};
pub use page::page;
pub use polaris_peers::calm_threads as calm_peers;
pub use quick::{QUICK_SIZES, QuickProduct, quick};
pub use results::{
    DeviceFacts, OverlapRow, PeerFacts, PeerRow, Results, Row, Skipped, Summary, speed_text,
};
pub use roofline::Roofline;
pub use save::save;

use crate::Result;
use cases::cases;
use results::summarise;
use run_case::{Place, run_case};

/// What to measure, and how.
#[derive(Debug, Clone)]
pub struct GemmOptions {
    /// The devices; all of them if none is named.
    pub devices: Vec<DeviceId>,
    /// Sizes; square ones of 512, 1024 and 2048 if there are none.
    pub sizes: Vec<Dims>,
    /// Types of the operands.
    pub numbers: Vec<Numbers>,
    /// How they are stored.
    pub transposes: Vec<Transpose>,
    /// Kernels of OpenCL devices.
    pub variants: Vec<VariantChoice>,
    /// Whether to measure other libraries beside, where they are installed. A process that wants to should
    /// begin with [`calm_peers`].
    pub peers: bool,
    /// What follows a product: measured fused, and as operations of its own.
    pub epilogue: Option<EpilogueName>,
    /// Seconds for each case, all its contenders together.
    pub seconds: f64,
    /// Seconds of pause after each sample: a card at its power limit changes its clock unless it rests.
    pub rest: f64,
    /// The CPU has another number of threads than usual: figures of the machine's profile are not its own.
    pub own_threads: bool,
    /// The command that gives these results again, for whoever reads them.
    pub command: String,
    /// Ends it.
    pub cancellation: CancellationToken,
}

impl Default for GemmOptions {
    fn default() -> Self {
        Self {
            devices: Vec::new(),
            sizes: Vec::new(),
            numbers: vec![Numbers::F32],
            transposes: vec![Transpose::Nn],
            variants: vec![VariantChoice::Default],
            peers: false,
            epilogue: None,
            seconds: 1.0,
            rest: 0.0,
            own_threads: false,
            command: String::new(),
            cancellation: CancellationToken::new(),
        }
    }
}

/// Measures all cases on all devices. A case that does not fit is skipped and named.
///
/// # Errors
/// If a device is not there or fails, or if it is cancelled.
pub fn run(
    runtime: &mut Runtime,
    options: &GemmOptions,
    progress: &mut dyn Progress,
) -> Result<Results> {
    let mut results = Results {
        polaris: env!("CARGO_PKG_VERSION"),
        date: crate::now(),
        command: options.command.clone(),
        devices: Vec::new(),
        results: Vec::new(),
        summary: Vec::new(),
        skipped: Vec::new(),
    };
    for device in runtime.chosen(&options.devices)? {
        measure_device(runtime, &device, options, &mut results, progress)?;
    }
    results.summary = summarise(&results.results);
    Ok(results)
}

/// Notes of one device, each said once.
struct Notes<'a> {
    progress: &'a mut dyn Progress,
    said: Vec<String>,
}

impl Notes<'_> {
    fn say(&mut self, text: String) {
        if !self.said.contains(&text) {
            self.progress.note(&text);
            self.said.push(text);
        }
    }
}

fn measure_device(
    runtime: &mut Runtime,
    device: &DeviceRef,
    options: &GemmOptions,
    results: &mut Results,
    progress: &mut dyn Progress,
) -> Result<()> {
    let GemmOptions { own_threads, cancellation, .. } = options;
    let roofline = Roofline::of(runtime, device, *own_threads, cancellation, progress)?;
    let found = match options.peers {
        true => find_peers(runtime, device, progress),
        false => Found::default(),
    };
    let host = runtime.cpu().clone();
    let place = Place { device, host: &host, roofline, peers: &found.peers };
    results.devices.push(facts(&place));
    let cases = cases(options);
    progress.begin(&format!("matmul on {}", device.id()), cases.len());
    let mut notes = Notes { progress, said: Vec::new() };
    for (done, case) in cases.iter().enumerate() {
        notes.progress.advance(done, &format!("{} {}", case.numbers.name(), case.dims));
        let mut note = |text: String| notes.say(text);
        let measured = match room(runtime, device, case) {
            Ok(()) => run_case(case, &place, options, &mut note),
            Err(reason) => Ok(skip(case, device.id(), reason, results, &mut note)),
        };
        let rows = match measured {
            Err(error) if error.is_too_large() => {
                skip(case, device.id(), error.to_string(), results, &mut note)
            }
            measured => measured?,
        };
        results.results.extend(rows);
    }
    notes.progress.end();
    Ok(())
}

/// Whether the arrays of a case fit: on the device, and on the host, where they are made and
/// compared. Asking before allocating keeps a machine from swapping.
fn room(runtime: &Runtime, device: &DeviceRef, case: &Case) -> Result<(), String> {
    let limit = device.allocator().memory_use().limit;
    let available = runtime.hardware().ram.available_bytes;
    let needed = case.bytes();
    let short_of = |what: &str, room: u64| {
        let needed = u64::try_from(needed)
            .map_or("more than any machine has".into(), |bytes| Bytes(bytes).to_string());
        Err(format!("its arrays take {needed}, and {what} has room for {}", Bytes(room)))
    };
    // Beside the arrays themselves there is a copy of the result, and one for each peer.
    match needed {
        // What does not fit an OpenCL device is streamed from the host.
        needed if device.as_cpu().is_some() && needed > u128::from(limit) => {
            short_of(&device.id().to_string(), limit)
        }
        needed if available > 0 && 2 * needed > u128::from(available) => {
            short_of("the host, which holds copies too,", available)
        }
        _ => Ok(()),
    }
}

fn skip(
    case: &Case,
    device: DeviceId,
    reason: String,
    results: &mut Results,
    note: &mut dyn FnMut(String),
) -> Vec<Row> {
    note(format!("{device}: {} {} is skipped: {reason}", case.numbers.name(), case.dims));
    let Dims { m, n, k } = case.dims;
    results.skipped.push(Skipped { device, dtype: case.numbers, m, n, k, reason });
    Vec::new()
}

fn facts(place: &Place<'_>) -> DeviceFacts {
    let info = place.device.info();
    let peers = place.peers.iter();
    DeviceFacts {
        device: info.id,
        device_name: info.name.clone(),
        chip: info.chip.key.clone(),
        platform: info.platform.clone(),
        driver: info.driver.clone(),
        threads: place.device.as_cpu().map(|cpu| cpu.pool().threads()),
        peak_gflops: place.roofline.peak_gflops,
        memory_gbs: place.roofline.memory_gbs,
        peers: peers
            .map(|peer| PeerFacts { name: peer.name(), version: peer.version().to_owned() })
            .collect(),
    }
}

/// Loads the libraries that compute on the same device, and says which are not there.
fn find_peers(runtime: &Runtime, device: &DeviceRef, progress: &mut dyn Progress) -> Found {
    let info = device.info();
    let target = match device.as_cpu() {
        Some(cpu) => Target::Processor { threads: cpu.pool().threads() },
        None => {
            let before = runtime.devices().iter().take_while(|d| d.id() != info.id);
            let is_same = |d: &&DeviceRef| {
                (&d.info().platform, &d.info().name) == (&info.platform, &info.name)
            };
            Target::OpenCl(OpenClTarget {
                platform: info.platform.clone(),
                name: info.name.clone(),
                nth: before.filter(is_same).count(),
                pci_address: info.pci_address.clone(),
                is_nvidia: info.chip.vendor == Vendor::Nvidia,
            })
        }
    };
    let found = polaris_peers::find(&target);
    for (name, error) in &found.absent {
        progress.note(&format!("{}: {name} is not measured: {error}", device.id()));
    }
    found
}
