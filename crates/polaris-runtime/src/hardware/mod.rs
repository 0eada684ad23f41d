//! Hardware detection without OpenCL: the machine's components, the chip behind a driver's name, instructions for a
//! missing driver, the recommended device.

mod advice;
mod chip;
mod chip_table;
mod cpu;
mod cure;
mod distribution;
mod instruction_set;
mod memory;
mod pci;
mod pci_names;
mod system_files;

use serde::Serialize;

pub use advice::{Advice, GpuCandidate, advise};
pub use chip::{Chip, normalise_chip};
pub use cpu::{Cache, CacheKind, Cpu, detect_cpu};
pub use cure::{cpu_opencl_hint, opencl_cure};
pub use distribution::{Distribution, Family, detect_distribution};
pub use memory::{Ram, detect_ram};
pub use pci::{PciGpu, Vendor, detect_pci_gpus};

/// The machine as the operating system describes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hardware {
    /// The processor.
    pub cpu: Cpu,
    /// Main memory.
    pub ram: Ram,
    /// Graphics cards on the PCI bus, whether or not OpenCL sees them.
    pub gpus: Vec<PciGpu>,
    /// The Linux distribution, or the operating system elsewhere.
    pub distribution: Distribution,
}

/// Describes the machine. Never fails: what cannot be found is left out.
pub fn detect() -> Hardware {
    Hardware {
        cpu: detect_cpu(),
        ram: detect_ram(),
        gpus: detect_pci_gpus(),
        distribution: detect_distribution(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn detection_is_quick_and_serialises() {
        let timed = || {
            let start = Instant::now();
            let hardware = detect();
            (start.elapsed(), hardware)
        };
        // The quickest of a few: a busy test machine must not fail this.
        let (time, hardware) = (0..5).map(|_| timed()).min_by_key(|(time, _)| *time).unwrap();
        assert!(time < Duration::from_millis(20), "{time:?}");
        let json = serde_json::to_value(&hardware).unwrap();
        assert!(json["ram"]["total_bytes"].as_u64().unwrap() > 0);
        assert!(json["gpus"].is_array() && json["distribution"]["id"].is_string());
    }
}
