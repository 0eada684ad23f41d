//! Finding OpenCL: the loader, the drivers it knows, their devices, and the reason for each that
//! cannot be used.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use cl3::device::{CL_DEVICE_TYPE_ALL, get_device_ids};
use cl3::platform::{CL_PLATFORM_NAME, CL_PLATFORM_VERSION, get_platform_ids};
use serde::Serialize;

use crate::opencl::query::platform_text;
use crate::opencl::{OpenClDevice, ProgramCache};
use crate::runtime::RuntimeOptions;
use crate::{DeviceId, DeviceRef};

/// What looking for OpenCL found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct OpenClReport {
    /// Whether the loader library is there and was not switched off.
    pub available: bool,
    /// Why there is no OpenCL, or fewer devices than one may expect. In words for the user.
    pub problems: Vec<String>,
    /// Platforms that answered, with their versions.
    pub platforms: Vec<String>,
    /// The driver files the loader was told of.
    pub icds: Vec<IcdFinding>,
    /// Devices that exist and cannot be used.
    pub unusable: Vec<UnusableDevice>,
}

/// A driver file of the OpenCL loader.
#[derive(Debug, Clone, Serialize)]
pub struct IcdFinding {
    /// The file that names the driver.
    pub file: PathBuf,
    /// The library it names.
    pub library: String,
    /// Why the library cannot be loaded, if so.
    pub problem: Option<String>,
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

/// All usable OpenCL devices, and what was found on the way.
pub(crate) fn discover(
    host: &DeviceRef,
    cache: &Arc<ProgramCache>,
    options: &RuntimeOptions,
) -> (Vec<Arc<OpenClDevice>>, OpenClReport) {
    let mut report = OpenClReport::default();
    if std::env::var("POLARIS_OPENCL").is_ok_and(|value| value.eq_ignore_ascii_case("off")) {
        report
            .problems
            .push("OpenCL is switched off by POLARIS_OPENCL=off; unset it to use it".into());
        return (Vec::new(), report);
    }
    enable_rusticl();
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
            report.problems.push(format!("{} is broken: {problem}", icd.file.display()));
        }
    }
    if report.icds.iter().any(|icd| begins_with_zero(&icd.file)) {
        report.problems.push("the OpenCL loader would crash on such a file; remove it".into());
        return (Vec::new(), report);
    }
    let platforms = get_platform_ids().unwrap_or_default();
    if platforms.is_empty() {
        report
            .problems
            .push("the OpenCL loader found no driver; install the one of your GPU".into());
    }
    let mut devices = Vec::new();
    for platform in platforms {
        let name = platform_text(platform, CL_PLATFORM_NAME).unwrap_or_else(|| "unnamed".into());
        let version = platform_text(platform, CL_PLATFORM_VERSION).unwrap_or_default();
        report.platforms.push(format!("{name} ({version})"));
        // A platform without devices answers with an error; that is no problem of its own.
        for raw in get_device_ids(platform, CL_DEVICE_TYPE_ALL).unwrap_or_default() {
            let id = DeviceId::OpenCl(devices.len());
            match OpenClDevice::new(raw, id, &name, host, cache, options) {
                Ok(device) => devices.push(device),
                Err(unusable) => report.unusable.push(unusable),
            }
        }
    }
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

/// Reads the loader's driver files, and says which of the libraries they name cannot be loaded:
/// the loader itself skips those without a word.
fn inspect_icds() -> Vec<IcdFinding> {
    let folder =
        std::env::var_os("OCL_ICD_VENDORS").or_else(|| std::env::var_os("OPENCL_VENDOR_PATH"));
    let folder = folder.map_or_else(|| PathBuf::from("/etc/OpenCL/vendors"), PathBuf::from);
    let mut files: Vec<PathBuf> = match std::fs::read_dir(&folder) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        Err(_) if folder.is_file() => vec![folder],
        Err(_) => Vec::new(),
    };
    files.retain(|file| file.extension().is_some_and(|extension| extension == "icd"));
    files.sort();
    files.into_iter().map(inspect_icd).collect()
}

fn inspect_icd(file: PathBuf) -> IcdFinding {
    let library = match std::fs::read_to_string(&file) {
        Ok(text) => text.lines().next().unwrap_or_default().trim().to_owned(),
        Err(error) => {
            let problem = Some(format!("it cannot be read ({error})"));
            return IcdFinding { file, library: String::new(), problem };
        }
    };
    let problem = if library.is_empty() {
        Some("it names no library; reinstall the driver's package".to_owned())
    } else {
        load_problem(Path::new(&library)).map(|reason| {
            format!("it names {library}, which cannot be loaded ({reason}); reinstall the driver's package or remove the file")
        })
    };
    IcdFinding { file, library, problem }
}

fn load_problem(library: &Path) -> Option<String> {
    // SAFETY: the loader opens the same library by the same name anyway; this is the same call.
    match unsafe { libloading::Library::new(library) } {
        Ok(library) => {
            // Drivers do not expect to be unloaded and loaded again.
            std::mem::forget(library);
            None
        }
        Err(error) => {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            Some(source.unwrap_or_else(|| error.to_string()))
        }
    }
}

/// ocl-icd 2.3.1 crashes in `clGetPlatformIDs` on a driver file whose first byte is zero.
fn begins_with_zero(file: &Path) -> bool {
    let mut first = [1];
    let read = std::fs::File::open(file).and_then(|mut f| std::io::Read::read(&mut f, &mut first));
    read.is_ok_and(|bytes| bytes == 1 && first[0] == 0)
}
