//! What commands have in common: the machine, the chosen devices, and the check of new ones.

use polaris::runtime::Device;
use polaris::runtime::machine::Paths;
use polaris::{DeviceId, DeviceName, DeviceRef, Runtime, RuntimeOptions};

use crate::arguments::{Global, ModeName};
use crate::output::say;

/// The machine and the user's options.
pub struct Session {
    pub runtime: Runtime,
    pub global: Global,
    /// The devices that were named; empty means all.
    pub chosen: Vec<DeviceId>,
}

impl Session {
    /// Finds devices. If only the CPU is named it does not open OpenCL, so that a broken driver does no harm.
    pub fn new(global: Global) -> anyhow::Result<Self> {
        Self::open(global, true)
    }

    /// For commands that use the CPU unless another device is named.
    pub fn on_cpu(global: Global) -> anyhow::Result<Self> {
        Self::open(global, false)
    }

    /// For commands with `--mode`.
    pub fn for_mode(global: Global, mode: ModeName) -> anyhow::Result<Self> {
        Self::open(global, mode != ModeName::Cpu)
    }

    /// `all`: whether no named device means every device.
    fn open(global: Global, all: bool) -> anyhow::Result<Self> {
        let options = RuntimeOptions {
            opencl: needs_opencl(&global, all),
            threads: global.threads.map(usize::from),
            memory_limits: global.memory_limit.clone(),
            paths: Paths::from_environment(),
            ..RuntimeOptions::default()
        };
        let runtime = Runtime::discover(&options)?;
        let chosen = global.device.iter().map(|name| Ok(runtime.select(name)?.id()));
        let chosen = chosen.collect::<anyhow::Result<_>>()?;
        Ok(Self { runtime, global, chosen })
    }

    /// The devices the user named, or all of them.
    pub fn devices(&self) -> anyhow::Result<Vec<DeviceRef>> {
        Ok(self.runtime.chosen(&self.chosen)?)
    }

    /// The first device that the user named, or the CPU.
    pub fn chosen_or_cpu(&self) -> anyhow::Result<DeviceRef> {
        match self.chosen.first() {
            Some(_) => Ok(self.devices()?.swap_remove(0)),
            None => Ok(self.runtime.cpu().clone()),
        }
    }

    /// Changes the machine profile; if it cannot be written, prints a note and goes on.
    pub fn remember(
        &mut self,
        device: &dyn Device,
        change: impl Fn(&mut polaris::runtime::machine::DeviceProfile),
    ) {
        say_if_forgotten(self.runtime.remember(device, change));
    }
}

/// Prints a note if findings could not be stored.
pub fn say_if_forgotten(remembered: polaris::runtime::Result<()>) {
    if let Err(error) = remembered {
        say!("note: {error}; the findings are lost when this command ends");
    }
}

/// Whether a device other than the CPU is selected; `all` are if none is named.
fn needs_opencl(global: &Global, all: bool) -> bool {
    let limited = global.memory_limit.iter().map(|limit| &limit.device);
    let mut named = global.device.iter().chain(limited);
    let cpu = DeviceName::Id(DeviceId::Cpu);
    named.any(|name| *name != cpu) || (all && global.device.is_empty())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::Arguments;

    fn global(options: &str) -> Global {
        let words = ["polaris", "devices"].into_iter().chain(options.split_whitespace());
        Arguments::try_parse_from(words).unwrap().global
    }

    #[test]
    fn opencl_is_left_alone_where_only_the_cpu_is_meant() {
        for (options, all, needed) in [
            ("", true, true),
            ("", false, false),
            ("--device cpu", true, false),
            ("--device cpu --memory-limit cpu=1GiB", true, false),
            ("--device cpu --device gpu", false, true),
            ("--device cpu --memory-limit gpu=1GiB", false, true),
            ("--memory-limit cpu=1GiB", true, true),
        ] {
            assert_eq!(needs_opencl(&global(options), all), needed, "{options:?}, {all}");
        }
        let of = |mode| Session::for_mode(global("--threads 1"), mode).unwrap();
        assert!(!of(ModeName::Cpu).runtime.opencl().searched);
    }
}
