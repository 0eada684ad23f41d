//! `polaris bench gemm`: matrix products, beside other libraries' where they are installed.

pub mod cases;
pub mod contenders;
pub mod date;
pub mod operands;
pub mod plot;
pub mod quick;
pub mod reference;
mod report;
mod results;
mod roofline;
mod run_case;
pub mod save;
mod table;

use polaris::runtime::Bytes;
use polaris::runtime::hardware::Vendor;
use polaris::{DeviceId, DeviceRef};
use polaris_peers::{Found, OpenClTarget, Target};

use crate::arguments::{Gemm, Global};
use crate::exit;
use crate::output::{self, say};
use crate::session::Session;
use cases::{Case, cases};
use results::{DeviceFacts, PeerFacts, Results, Row, Skipped, summarise};
use roofline::Roofline;
use run_case::{Place, is_too_large, run_case};

pub fn run(global: Global, options: &Gemm) -> anyhow::Result<u8> {
    let json = global.json;
    if options.peers {
        polaris_peers::calm_threads();
    }
    let mut session = Session::new(global)?;
    session.check_new_devices()?;
    let cases = cases(options);
    let mut results = Results {
        polaris: env!("CARGO_PKG_VERSION"),
        date: date::now(),
        command: command_line(std::env::args().skip(1)),
        devices: Vec::new(),
        results: Vec::new(),
        summary: Vec::new(),
        skipped: Vec::new(),
    };
    for device in session.devices()? {
        measure_device(&mut session, &device, &cases, options, &mut results)?;
    }
    results.summary = summarise(&results.results);
    if json {
        output::print_json("polaris.bench.gemm/1", &results)?;
    } else {
        table::print(&results)?;
    }
    if let Some(file) = &options.report {
        save::replace_file(file, &report::page(&session, &results))?;
        say!("note: the report is in {}", file.display());
    }
    if let Some(folder) = &options.save {
        for file in save::save(folder, &results)? {
            say!("note: the results are in {}", file.display());
        }
    }
    Ok(exit::OK)
}

fn measure_device(
    session: &mut Session,
    device: &DeviceRef,
    cases: &[Case],
    options: &Gemm,
    results: &mut Results,
) -> anyhow::Result<()> {
    let roofline = Roofline::of(session, device)?;
    let found = if options.peers { find_peers(session, device) } else { Found::default() };
    let host = session.runtime.cpu().clone();
    let place = Place { device, host: &host, roofline, peers: &found.peers };
    results.devices.push(facts(&place));
    let bar = output::progress(cases.len(), &format!("products on {}", device.id()));
    let mut said: Vec<String> = Vec::new();
    let mut note = |text: String| {
        if !said.contains(&text) {
            bar.suspend(|| say!("note: {text}"));
            said.push(text);
        }
    };
    for case in cases {
        bar.set_message(format!("{} {}", case.numbers.name(), case.dims));
        let measured = match room(session, device, case) {
            Ok(()) => run_case(case, &place, options, &mut note),
            Err(reason) => Ok(skip(case, device.id(), reason, results, &mut note)),
        };
        let rows = match measured {
            Err(error) if is_too_large(&error) => {
                skip(case, device.id(), format!("{error:#}"), results, &mut note)
            }
            measured => measured?,
        };
        results.results.extend(rows);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Whether the arrays of a case fit: on the device, and on the host, where they are made and
/// compared. Asking before allocating keeps a machine from swapping.
fn room(session: &Session, device: &DeviceRef, case: &Case) -> Result<(), String> {
    let limit = device.allocator().memory_use().limit;
    let available = session.runtime.hardware().ram.available_bytes;
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
    let cases::Dims { m, n, k } = case.dims;
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
fn find_peers(session: &Session, device: &DeviceRef) -> Found {
    let info = device.info();
    let target = match device.as_cpu() {
        Some(cpu) => Target::Processor { threads: cpu.pool().threads() },
        None => {
            let before = session.runtime.devices().iter().take_while(|d| d.id() != info.id);
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
        say!("note: {}: {name} is not measured: {error}", device.id());
    }
    found
}

/// The command that gives these results again, without the files that this one writes.
fn command_line(arguments: impl Iterator<Item = String>) -> String {
    let mut words = vec!["polaris".to_owned()];
    let mut is_file = false;
    for argument in arguments {
        let option = argument.split('=').next().unwrap_or_default();
        let writes = matches!(option, "--report" | "--save");
        if !writes && !is_file {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:,./".contains(c);
            let is_plain = argument.chars().all(plain);
            words.push(if is_plain { argument.clone() } else { format!("'{argument}'") });
        }
        is_file = writes && !argument.contains('=');
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::command_line;

    #[test]
    fn the_command_is_kept_without_its_files() {
        let line = "bench gemm --report out.html --sizes 64,128 --save=there --peers";
        let words = line.split(' ').map(str::to_owned);
        assert_eq!(command_line(words), "polaris bench gemm --sizes 64,128 --peers");
    }
}
