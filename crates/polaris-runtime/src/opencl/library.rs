//! Finding OpenCL: the loader, the drivers it knows, their devices, and the reason for each that
//! cannot be used.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, Once, PoisonError};

use cl3::device::{CL_DEVICE_TYPE_ALL, get_device_ids};
use cl3::platform::{CL_PLATFORM_NAME, CL_PLATFORM_VERSION, get_platform_ids};
use polaris_core::printable;
use serde::Serialize;

use crate::device::Device;
use crate::machine::Profile;
use crate::opencl::device::list;
use crate::opencl::icd::{IcdFinding, inspect_icds};
use crate::opencl::numbering::{Listed, names, number, rank};
use crate::opencl::query::platform_text;
use crate::opencl::shared_object::{self, SharedObject};
use crate::opencl::{OpenClDevice, ProgramCache};
use crate::runtime::RuntimeOptions;
use crate::{DeviceId, DeviceRef};

/// What looking for OpenCL found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct OpenClReport {
    /// Whether OpenCL was looked for: it is not where only the CPU is asked for.
    pub searched: bool,
    /// Whether the loader library is there and was not switched off.
    pub available: bool,
    /// Why there is no OpenCL, or fewer devices than expected.
    pub problems: Vec<String>,
    /// Platforms that answered, with their versions.
    pub platforms: Vec<String>,
    /// The driver files the loader was told of.
    pub icds: Vec<IcdFinding>,
    /// Devices that exist and cannot be used.
    pub unusable: Vec<UnusableDevice>,
    /// Numbers by the identities of devices, to be remembered.
    #[serde(skip)]
    pub(crate) numbers: BTreeMap<String, usize>,
}

/// A device that its driver shows and that Polaris cannot use.
#[derive(Debug, Clone, Serialize)]
pub struct UnusableDevice {
    /// The name its driver gives.
    pub name: String,
    /// Its platform.
    pub platform: String,
    /// Why.
    pub reason: String,
}

/// The hardware drivers of Mesa's rusticl. It shows no device unless this names its driver; the
/// software rasteriser is left out on purpose.
const RUSTICL_DRIVERS: &str = "radeonsi,r600,iris,crocus,nouveau,panfrost,asahi,freedreno,v3d";

/// All usable OpenCL devices, GPUs first, and what was found on the way.
pub(crate) fn discover(
    host: &DeviceRef,
    cache: &Arc<ProgramCache>,
    options: &RuntimeOptions,
    profile: &Profile,
) -> (Vec<Arc<OpenClDevice>>, OpenClReport) {
    let mut report = OpenClReport { searched: options.opencl, ..OpenClReport::default() };
    if !options.opencl {
        report.problems.push("OpenCL was not searched, since only the CPU was requested".into());
        return (Vec::new(), report);
    }
    if std::env::var("POLARIS_OPENCL").is_ok_and(|value| value.eq_ignore_ascii_case("off")) {
        report.problems.push("POLARIS_OPENCL=off disables OpenCL; unset it to use OpenCL".into());
        return (Vec::new(), report);
    }
    enable_rusticl();
    // PoCL answers one thread before it has initialised its devices for another, and ends the process.
    static DISCOVERY: Mutex<()> = Mutex::new(());
    let _alone = DISCOVERY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(why) = damaged_loader() {
        let why = printable(&why);
        report.problems.push(format!(
            "the OpenCL loader is damaged ({why}); reinstall its package, on Debian and Ubuntu \
             ocl-icd-libopencl1"
        ));
        return (Vec::new(), report);
    }
    if !cl3::is_opencl_runtime_available() {
        report.problems.push(
            "the OpenCL loader (libOpenCL.so.1) is not installed; on Debian and Ubuntu it is the \
             package ocl-icd-libopencl1, and it comes along with every OpenCL driver"
                .into(),
        );
        return (Vec::new(), report);
    }
    report.available = true;
    report.icds = inspect_icds();
    for icd in &report.icds {
        if let Some(problem) = &icd.problem {
            let file = icd.file.display().to_string();
            report.problems.push(format!("{} is broken: {problem}", printable(&file)));
        }
    }
    if report.icds.iter().any(|icd| icd.harmful) {
        let why = "the OpenCL loader would crash or hang on this file; repair or remove it";
        report.problems.push(why.into());
        return (Vec::new(), report);
    }
    let platforms = get_platform_ids().unwrap_or_default();
    if platforms.is_empty() {
        report
            .problems
            .push("the OpenCL loader found no driver; install the one of your GPU".into());
    }
    let mut listed = Vec::new();
    for platform in platforms {
        let name = platform_text(platform, CL_PLATFORM_NAME).unwrap_or_else(|| "unnamed".into());
        let version = platform_text(platform, CL_PLATFORM_VERSION).unwrap_or_default();
        report.platforms.push(format!("{name} ({version})"));
        // A platform without devices answers with an error; that is no problem of its own.
        let found = get_device_ids(platform, CL_DEVICE_TYPE_ALL).unwrap_or_default();
        listed.extend(found.into_iter().map(|raw| (raw, name.clone())));
    }
    let kinds: Vec<Listed> = listed.iter().map(|(raw, platform)| list(*raw, platform)).collect();
    let remembered = |identity: &str| profile.number(identity);
    let numbers = number(&kinds, remembered, profile.is_numbered_as_listed());
    let mut devices = Vec::new();
    for ((raw, platform), number) in listed.into_iter().zip(numbers.iter().copied()) {
        match OpenClDevice::new(raw, DeviceId::OpenCl(number), &platform, host, cache, options) {
            Ok(device) => devices.push(device),
            Err(unusable) => report.unusable.push(unusable),
        }
    }
    report.numbers = names(&kinds).into_iter().zip(numbers).collect();
    devices.sort_by_key(|device| (rank(device.info().kind), device.id()));
    for device in &report.unusable {
        report.problems.push(format!(
            "{} ({}) cannot be used: {}",
            device.name, device.platform, device.reason
        ));
    }
    (devices, report)
}

/// Lets rusticl show its hardware devices to this process, unless the user has decided.
fn enable_rusticl() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if std::env::var_os("RUSTICL_ENABLE").is_none() {
            // SAFETY: setting the environment races with other threads that read it through C.
            // This runs once, before OpenCL is loaded, at the start of the program's use of
            // Polaris; the standard library's own readers take its lock.
            unsafe { std::env::set_var("RUSTICL_ENABLE", RUSTICL_DRIVERS) };
        }
    });
}

/// Why the loader must not be opened: a file of its name would end the process.
fn damaged_loader() -> Option<String> {
    let named = std::env::var("OPENCL_DYLIB_PATH").unwrap_or_default();
    let names = named.split(';').filter(|name| !name.is_empty()).chain(["libOpenCL.so.1"]);
    // The first one that can be opened is the one in use.
    for name in names {
        match shared_object::inspect(Path::new(name)) {
            SharedObject::Whole => return None,
            SharedObject::Unknown => {}
            SharedObject::Damaged(why) => return Some(why),
        }
    }
    None
}
