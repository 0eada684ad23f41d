//! `polaris devices`: the hardware of this machine, what works, and how to fix what does not.

use polaris::runtime::hardware::{Advice, Hardware};
use polaris::runtime::machine::{CheckStatus, DeviceProfile, Measurement};
use polaris::runtime::opencl::OpenClReport;
use polaris::runtime::{Bytes, Capabilities, DeviceInfo, DeviceKind, MemoryUse, measure};
use serde::Serialize;

use crate::arguments::{Devices, Global};
use crate::output::{self, print_line};
use crate::session::Session;
use crate::{exit, interrupt};

/// A description of the machine.
#[derive(Serialize)]
pub struct Machine<'a> {
    hardware: &'a Hardware,
    devices: Vec<Described<'a>>,
    opencl: &'a OpenClReport,
    /// How to install a driver, for each GPU without one.
    cures: Vec<String>,
    advice: Advice,
}

#[derive(Serialize)]
struct Described<'a> {
    #[serde(flatten)]
    info: &'a DeviceInfo,
    capabilities: &'a Capabilities,
    memory: MemoryUse,
    profile: Option<&'a DeviceProfile>,
    /// Whether it is the default device.
    default: bool,
}

pub fn run(global: Global, options: &Devices) -> anyhow::Result<u8> {
    let json = global.json;
    let mut session = Session::new(global)?;
    session.devices()?;
    session.check_new_devices()?;
    if options.measure {
        measure_devices(&mut session)?;
    }
    let machine = describe(&session);
    if json {
        output::print_json("polaris.devices/1", &machine)?;
    } else {
        print(&machine)?;
    }
    Ok(exit::OK)
}

/// Measures the chosen devices and stores the figures of each as soon as they are complete.
pub fn measure_devices(session: &mut Session) -> anyhow::Result<()> {
    for device in session.devices()? {
        let bar = output::progress(1, &format!("measuring {}", device.id()));
        let measured = measure::measure(&device, &interrupt::requested);
        bar.finish_and_clear();
        let measured = measured?;
        session.remember(device.as_ref(), |profile| profile.measured = Some(measured.clone()));
    }
    Ok(())
}

/// Describes the machine.
pub fn describe(session: &Session) -> Machine<'_> {
    let runtime = &session.runtime;
    let devices = runtime.devices().iter().map(|device| Described {
        info: device.info(),
        capabilities: device.capabilities(),
        memory: device.allocator().memory_use(),
        profile: runtime.profile(device.as_ref()),
        default: device.id() == runtime.best().id(),
    });
    Machine {
        hardware: runtime.hardware(),
        devices: devices.collect(),
        opencl: runtime.opencl(),
        cures: runtime.cures(),
        advice: runtime.advice(),
    }
}

/// Prints it on one screen.
pub fn print(machine: &Machine<'_>) -> anyhow::Result<()> {
    let Hardware { cpu, ram, .. } = machine.hardware;
    let clock = cpu
        .frequency_mhz
        .map_or(String::new(), |mhz| format!(", {:.2} GHz", f64::from(mhz) / 1000.0));
    print_line(&format!("CPU     {}", cpu.name))?;
    print_line(&format!(
        "        {} cores, {} threads{clock}; {}",
        cpu.physical_cores,
        cpu.logical_cores,
        cpu.simd.join(" ")
    ))?;
    let caches: Vec<String> = cpu
        .caches
        .iter()
        .map(|cache| format!("L{}{} {}", cache.level, cache_letter(cache.kind), Bytes(cache.bytes)))
        .collect();
    if !caches.is_empty() {
        print_line(&format!("        caches {}", caches.join(", ")))?;
    }
    print_line(&format!(
        "RAM     {} ({} available)",
        Bytes(ram.total_bytes),
        Bytes(ram.available_bytes)
    ))?;
    for gpu in &machine.hardware.gpus {
        let driver = gpu.kernel_driver.as_deref().unwrap_or("no kernel driver");
        let memory = gpu.vram_bytes.map_or(String::new(), |bytes| format!(", {}", Bytes(bytes)));
        print_line(&format!("GPU     {} at {} ({driver}{memory})", gpu.name, gpu.address))?;
    }
    for device in &machine.devices {
        print_device(device)?;
    }
    if !machine.opencl.problems.is_empty() {
        print_line("\nOpenCL")?;
        for problem in &machine.opencl.problems {
            print_line(&format!("  - {problem}"))?;
        }
    }
    for cure in &machine.cures {
        print_line(&format!("\n{cure}"))?;
    }
    print_line(&format!("\nRecommended mode: {}\n  {}", machine.advice.mode, machine.advice.reason))
}

fn cache_letter(kind: polaris::runtime::hardware::CacheKind) -> &'static str {
    use polaris::runtime::hardware::CacheKind;
    match kind {
        CacheKind::Data => "d",
        CacheKind::Instruction => "i",
        CacheKind::Unified => "",
    }
}

fn print_device(device: &Described<'_>) -> anyhow::Result<()> {
    let Described { info, capabilities, memory, profile, default } = device;
    let default = if *default { " (default)" } else { "" };
    print_line(&format!("\n{:<10} {}{default}", info.id.to_string(), info.name))?;
    if let Some(version) = &info.opencl_version {
        print_line(&format!("  {}, {}, driver {}", info.platform, version, info.driver))?;
        let kind = if info.kind == DeviceKind::Cpu { "the CPU, through OpenCL" } else { "a GPU" };
        let address =
            info.pci_address.as_ref().map_or(String::new(), |address| format!(" at {address}"));
        print_line(&format!(
            "  {kind}{address}; chip {} ({})",
            info.chip.key, info.chip.architecture
        ))?;
    }
    let clock = capabilities.clock_mhz.map_or(String::new(), |mhz| format!(" at {mhz} MHz"));
    let units = if info.opencl_version.is_some() { "compute units" } else { "threads" };
    let free = capabilities
        .memory_free_bytes
        .map_or(String::new(), |free| format!(" ({} free)", Bytes(free)));
    print_line(&format!(
        "  {} {units}{clock}; memory {}{free}",
        capabilities.compute_units,
        Bytes(capabilities.memory_bytes)
    ))?;
    if memory.limit < capabilities.memory_bytes {
        print_line(&format!("  limited to {}", Bytes(memory.limit)))?;
    }
    if info.opencl_version.is_some() {
        print_line(&format!(
            "  largest allocation {}; local memory {}; work-groups up to {}, in multiples of {}",
            Bytes(capabilities.max_allocation_bytes),
            Bytes(capabilities.local_memory_bytes),
            capabilities.max_work_group,
            capabilities.preferred_multiple
        ))?;
        print_line(&format!("  capabilities: {}", capability_words(capabilities)))?;
    }
    match profile.and_then(|profile| profile.measured.as_ref()) {
        Some(measured) => print_measurement(measured, info.opencl_version.is_some())?,
        None => print_line("  not measured yet (polaris devices --measure)")?,
    }
    print_check(*profile, info.opencl_version.is_some())
}

fn capability_words(capabilities: &Capabilities) -> String {
    let all = [
        ("fp64", capabilities.fp64),
        ("fp16 arithmetic", capabilities.fp16_arithmetic),
        ("int dot product", capabilities.int_dot),
        ("subgroups", capabilities.subgroups),
        ("inline PTX", capabilities.inline_ptx),
        ("unified memory", capabilities.unified_memory),
    ];
    let (has, lacks): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, has)| *has);
    let list = |items: Vec<(&str, bool)>| {
        items.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
    };
    match (has.is_empty(), lacks.is_empty()) {
        (true, _) => format!("no {}", list(lacks)),
        (_, true) => list(has),
        _ => format!("{}; no {}", list(has), list(lacks)),
    }
}

fn print_measurement(measured: &Measurement, transfers: bool) -> anyhow::Result<()> {
    print_line(&format!(
        "  measured: {:.0} GFLOPS FP32, {:.1} GB/s memory, {:.1} us per launch",
        measured.fp32_gflops, measured.memory_gbs, measured.launch_us
    ))?;
    if transfers {
        let (up, down) = (measured.host_to_device, measured.device_to_host);
        print_line(&format!(
            "  upload {:.1} GB/s ({:.0} us latency), download {:.1} GB/s ({:.0} us latency)",
            up.gbs, up.latency_us, down.gbs, down.latency_us
        ))?;
    }
    Ok(())
}

fn print_check(profile: Option<&DeviceProfile>, needs_check: bool) -> anyhow::Result<()> {
    let quarantine = profile.map_or(&[][..], |profile| &profile.quarantine);
    match profile.and_then(|profile| profile.check.as_ref()) {
        Some(check) => {
            let kind = if check.quick { "quick check" } else { "check" };
            let words = match check.status {
                CheckStatus::Passed => format!("passed, {} kernels", check.passed),
                CheckStatus::Failed => {
                    format!("{} kernels correct, {} WRONG", check.passed, check.failed)
                }
                CheckStatus::Unusable => "FAILED; try another driver, then polaris check".into(),
                CheckStatus::Cancelled => "skipped (run polaris check)".into(),
            };
            print_line(&format!("  {kind}: {words}"))?;
        }
        None if needs_check => print_line("  not checked yet (polaris check)")?,
        None => {}
    }
    for entry in quarantine {
        print_line(&format!("  quarantined: {}: {}", entry.kernel, first_words(&entry.reason)))?;
    }
    Ok(())
}

fn first_words(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default();
    if line.chars().count() <= 100 {
        line.to_owned()
    } else {
        line.chars().take(97).chain("...".chars()).collect()
    }
}
