//! Installation instructions for devices without OpenCL.

use crate::hardware::{cpu_opencl_hint, opencl_cure};
use crate::{DeviceKind, DeviceRef, Runtime};

impl Runtime {
    /// The way to OpenCL for each GPU on the bus that no device stands for; nothing if OpenCL was not looked for.
    pub fn cures(&self) -> Vec<String> {
        let stands_for = |device: &DeviceRef, address: &str, vendor| {
            let info = device.info();
            match &info.pci_address {
                Some(known) => known == address,
                // A driver that does not tell its address: the maker must do.
                None => info.kind == DeviceKind::Gpu && info.chip.vendor == vendor,
            }
        };
        let (hardware, devices, opencl) = (self.hardware(), self.devices(), self.opencl());
        if !opencl.searched {
            return Vec::new();
        }
        let mut cures: Vec<String> = hardware
            .gpus
            .iter()
            .filter(|gpu| {
                !devices.iter().any(|device| stands_for(device, &gpu.address, gpu.vendor))
            })
            .map(|gpu| {
                let cure = opencl_cure(gpu, &hardware.distribution);
                format!("{} at {} has no OpenCL driver. {cure}", gpu.name, gpu.address)
            })
            .collect();
        if hardware.gpus.is_empty() && devices.len() == 1 && !opencl.available {
            cures.push(cpu_opencl_hint(&hardware.distribution));
        }
        cures
    }

    /// Why there is no OpenCL device, and how to get one.
    pub fn ways_to_opencl(&self) -> Vec<String> {
        let mut words = self.opencl().problems.clone();
        words.extend(self.cures());
        if words.is_empty() {
            words.push(cpu_opencl_hint(&self.hardware().distribution));
        }
        words
    }
}
