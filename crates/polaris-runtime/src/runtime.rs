//! The machine as Polaris sees it: hardware, devices, and what is remembered about them.

use std::sync::Arc;

use crate::cpu::{CpuDevice, ThreadPool};
use crate::device::{Device, DeviceId, DeviceKind, DeviceName, DeviceRef};
use crate::hardware::{Advice, GpuCandidate, Hardware, advise};
use crate::machine::{CheckStatus, DeviceProfile, Paths, Profile};
use crate::opencl::{OpenClReport, ProgramCache};
use crate::text::parse_bytes;
use crate::{Error, Mode, Result};

/// How devices are looked for and limited.
#[derive(Debug, Clone)]
pub struct RuntimeOptions {
    /// Threads of the CPU device, from 1 to [`MAX_THREADS`](crate::cpu::MAX_THREADS); if `None`, one
    /// for each logical processor, or as many as the system allows.
    pub threads: Option<usize>,
    /// Whether OpenCL devices are looked for. If not, neither its loader nor a driver is opened.
    pub opencl: bool,
    /// Budgets that replace a device's own memory size.
    pub memory_limits: Vec<MemoryLimit>,
    /// The folders for files.
    pub paths: Paths,
    /// Whether OpenCL devices measure how long each of their kernels takes; each launch then costs
    /// more.
    pub kernel_times: bool,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        let paths = Paths::of_library();
        Self { threads: None, opencl: true, memory_limits: Vec::new(), paths, kernel_times: false }
    }
}

/// A budget of one device's memory, written `gpu=512MiB`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The device.
    pub device: DeviceName,
    /// The most bytes that live buffers may hold.
    pub bytes: u64,
}

impl std::str::FromStr for MemoryLimit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid =
            |why: &str| Error::InvalidMemoryLimit { text: text.to_owned(), why: why.to_owned() };
        let (device, bytes) = text.split_once('=').ok_or_else(|| invalid("there is no `=`"))?;
        let device = device.parse().map_err(|_| invalid("the part before `=` is not a device"))?;
        let bytes =
            parse_bytes(bytes).ok_or_else(|| invalid("the part after `=` is not a size"))?;
        if bytes == 0 {
            return Err(invalid("a device without any memory cannot compute"));
        }
        Ok(Self { device, bytes })
    }
}

/// The devices of this machine.
#[derive(Debug)]
pub struct Runtime {
    hardware: Hardware,
    devices: Vec<DeviceRef>,
    opencl: OpenClReport,
    cache: Arc<ProgramCache>,
    paths: Paths,
    profile: Profile,
}

impl Runtime {
    /// Looks for devices. There is always the CPU; what is wrong with the others is in the
    /// report, not an error.
    ///
    /// # Errors
    /// `UnknownDevice` or `InvalidMemoryLimit` if a limit names a device that is not there or is
    /// more than it has; `InvalidThreads` or `TooFewThreads` if there cannot be so many threads.
    pub fn discover(options: &RuntimeOptions) -> Result<Self> {
        let hardware = crate::hardware::detect();
        let pool = match options.threads {
            Some(threads) => ThreadPool::new(threads)?,
            None => ThreadPool::up_to(hardware.cpu.logical_cores),
        };
        let cpu: DeviceRef = CpuDevice::new(&hardware.cpu, &hardware.ram, pool);
        let cache = Arc::new(ProgramCache::new(options.paths.programs()));
        let profile =
            options.paths.profile().map_or_else(Profile::default, |path| Profile::load(&path));
        let (found, opencl) = crate::opencl::discover(&cpu, &cache, options, &profile);
        let mut devices = vec![cpu];
        for device in found {
            let known = profile.device(&device.info().profile_key());
            for entry in known.into_iter().flat_map(|known| &known.quarantine) {
                device.quarantine(&entry.kernel);
            }
            devices.push(device);
        }
        let runtime =
            Self { hardware, devices, opencl, cache, paths: options.paths.clone(), profile };
        for limit in &options.memory_limits {
            runtime.limit_memory(limit)?;
        }
        Ok(runtime)
    }

    fn limit_memory(&self, limit: &MemoryLimit) -> Result<()> {
        let device = self.select(&limit.device)?;
        let has = device.capabilities().memory_bytes;
        let why = match limit.bytes {
            0 => "a device without any memory cannot compute".to_owned(),
            bytes if bytes > has => format!("the device has only {}", crate::Bytes(has)),
            _ => String::new(),
        };
        if !why.is_empty() {
            let text = format!("{}={}", limit.device, limit.bytes);
            return Err(Error::InvalidMemoryLimit { text, why });
        }
        device.allocator().set_limit(limit.bytes);
        Ok(())
    }

    /// What the machine has.
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// All usable devices: the CPU, then GPUs, then drivers that run on the CPU.
    pub fn devices(&self) -> &[DeviceRef] {
        &self.devices
    }

    /// The CPU.
    pub fn cpu(&self) -> &DeviceRef {
        &self.devices[0]
    }

    /// One device.
    ///
    /// # Errors
    /// `UnknownDevice`, with the devices there are.
    pub fn device(&self, id: DeviceId) -> Result<&DeviceRef> {
        self.select(&DeviceName::Id(id))
    }

    /// The GPU, or if there is none the CPU: what to compute on where nobody has decided. A driver that runs on the
    /// CPU is never the choice, nor is a device that failed its check.
    pub fn best(&self) -> &DeviceRef {
        let is_usable = |device: &&DeviceRef| {
            let check = self.profile(device.as_ref()).and_then(|known| known.check.as_ref());
            check.is_none_or(|check| check.status != CheckStatus::Unusable)
        };
        let mut gpus = self.devices.iter().filter(|device| device.info().kind == DeviceKind::Gpu);
        gpus.find(is_usable).unwrap_or(self.cpu())
    }

    /// The device of a name: of several that it fits, the first.
    ///
    /// # Errors
    /// `UnknownDevice`, with the devices there are.
    pub fn select(&self, name: &DeviceName) -> Result<&DeviceRef> {
        self.devices.iter().find(|device| name.fits(device.info())).ok_or_else(|| {
            let known: Vec<String> =
                self.devices.iter().map(|d| format!("{} ({})", d.id(), d.info().name)).collect();
            let mut known = known.join(", ");
            if let Some(problem) = self.opencl.problems.first().filter(|_| self.devices.len() == 1)
            {
                known.push_str(&format!(" and no OpenCL device: {problem}"));
            }
            Error::UnknownDevice { asked: name.to_string(), known }
        })
    }

    /// The devices of these names, or all of them if there are none.
    ///
    /// # Errors
    /// `UnknownDevice` if one is not there.
    pub fn chosen(&self, ids: &[DeviceId]) -> Result<Vec<DeviceRef>> {
        if ids.is_empty() {
            return Ok(self.devices.clone());
        }
        ids.iter().map(|&id| Ok(self.device(id)?.clone())).collect()
    }

    /// What looking for OpenCL found.
    pub fn opencl(&self) -> &OpenClReport {
        &self.opencl
    }

    /// The built programs on disk.
    pub fn program_cache(&self) -> &ProgramCache {
        &self.cache
    }

    /// The folders for files.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// What is remembered of a device under its present driver.
    pub fn profile(&self, device: &dyn Device) -> Option<&DeviceProfile> {
        self.profile.device(&device.info().profile_key())
    }

    /// Changes what is remembered of a device, in the machine's profile.
    ///
    /// # Errors
    /// If the file cannot be written; what this process knows is changed all the same.
    pub fn remember(
        &mut self,
        device: &dyn Device,
        change: impl Fn(&mut DeviceProfile),
    ) -> Result<()> {
        let key = device.info().profile_key();
        self.profile.change(&key, &change);
        if let Some(path) = self.paths.profile() {
            self.profile = Profile::update_numbered(&path, &key, &self.opencl.numbers, change)?;
        }
        Ok(())
    }

    /// Reads again what other processes have found out.
    pub fn reload_profile(&mut self) {
        if let Some(path) = self.paths.profile() {
            self.profile = Profile::load(&path);
        }
        for device in &self.devices {
            let known = self.profile.device(&device.info().profile_key());
            if let (Some(known), Some(opencl)) = (known, device.as_opencl()) {
                opencl.clear_quarantine();
                known.quarantine.iter().for_each(|entry| opencl.quarantine(&entry.kernel));
            }
        }
    }

    /// Which mode suits this machine, and why.
    pub fn advice(&self) -> Advice {
        if !self.opencl.searched {
            let reason =
                "only the CPU was requested; without that, other devices are considered too";
            return Advice { mode: Mode::Cpu, device: None, reason: reason.into() };
        }
        let candidates: Vec<GpuCandidate> = self.devices[1..]
            .iter()
            .map(|device| {
                let check = self.profile(device.as_ref()).and_then(|known| known.check.as_ref());
                let unusable = check.is_some_and(|check| check.status == CheckStatus::Unusable);
                GpuCandidate {
                    id: device.id().to_string(),
                    name: device.info().name.clone(),
                    memory_bytes: device.allocator().memory_use().limit,
                    runs_on_cpu: device.info().kind == DeviceKind::Cpu,
                    unusable: unusable.then(|| "it failed its check".to_owned()),
                }
            })
            .collect();
        advise(&candidates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_limits_are_read() {
        let limit: MemoryLimit = "opencl:1=512MiB".parse().unwrap();
        let device = DeviceName::Id(DeviceId::OpenCl(1));
        assert_eq!(limit, MemoryLimit { device, bytes: 512 << 20 });
        for bad in
            ["", "512MiB", "opencl:0", "opencl:x=1GiB", "=1GiB", "cpu=lots", "cpu=0", "cpu=-5"]
        {
            let message = bad.parse::<MemoryLimit>().unwrap_err().to_string();
            assert!(message.contains("gpu=512MiB"), "{message}");
        }
    }
}
