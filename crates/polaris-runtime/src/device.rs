//! The `Device` trait: facts, memory and queues of a device.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::cpu::CpuDevice;
use crate::hardware::Chip;
use crate::memory::Allocator;
use crate::opencl::OpenClDevice;
use crate::queue::{Queue, QueueOptions};
use crate::{Buffer, Error, Result};
use polaris_core::DType;

/// Names a device of this machine: `cpu`, `opencl:0`, `opencl:1`, ...
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceId {
    /// The host's processor.
    Cpu,
    /// The n-th OpenCL device over all platforms.
    OpenCl(usize),
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.pad("cpu"),
            Self::OpenCl(index) => f.pad(&format!("opencl:{index}")),
        }
    }
}

impl FromStr for DeviceId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once(':') {
            None if text == "cpu" => Ok(Self::Cpu),
            Some(("opencl", index)) => {
                index.parse().map(Self::OpenCl).map_err(|_| unknown_name(text))
            }
            _ => Err(unknown_name(text)),
        }
    }
}

/// What a user calls a device: by number, by what it is, or by a part of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceName {
    /// `cpu` or `opencl:1`.
    Id(DeviceId),
    /// `opencl`: any OpenCL device; GPUs are the first of them.
    OpenCl,
    /// `gpu`: a graphics card.
    Gpu,
    /// A part of its name, maker or platform, such as `nvidia` or `rx 580`, in lower case.
    Part(String),
}

impl DeviceName {
    /// Whether a device is one that it names.
    pub fn fits(&self, device: &DeviceInfo) -> bool {
        match self {
            Self::Id(id) => device.id == *id,
            Self::OpenCl => device.id != DeviceId::Cpu,
            Self::Gpu => device.kind == DeviceKind::Gpu,
            Self::Part(part) => {
                let names = [&device.name, &device.vendor, &device.platform];
                device.id != DeviceId::Cpu
                    && names.iter().any(|name| name.to_lowercase().contains(part))
            }
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::OpenCl => f.pad("opencl"),
            Self::Gpu => f.pad("gpu"),
            Self::Part(part) => f.pad(part),
        }
    }
}

impl From<DeviceId> for DeviceName {
    fn from(id: DeviceId) -> Self {
        Self::Id(id)
    }
}

impl FromStr for DeviceName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "gpu" => Ok(Self::Gpu),
            "opencl" => Ok(Self::OpenCl),
            _ if text == "cpu" || text.starts_with("opencl:") => text.parse().map(Self::Id),
            _ if text.trim().is_empty() => Err(unknown_name(text)),
            part => Ok(Self::Part(part.to_lowercase())),
        }
    }
}

fn unknown_name(text: &str) -> Error {
    Error::UnknownDevice {
        asked: text.to_owned(),
        known:
            "`cpu` and, where OpenCL works, `gpu`, a part of a name, `opencl:0`, `opencl:1`, ..."
                .to_owned(),
    }
}

impl Serialize for DeviceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What kind of hardware stands behind a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// A processor, natively or through an OpenCL driver that runs on it.
    Cpu,
    /// A graphics card.
    Gpu,
    /// Something else that computes.
    Accelerator,
}

/// Facts about a device that are shown to people and name it in files.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceInfo {
    /// How it is named on the command line.
    pub id: DeviceId,
    /// What it is.
    pub kind: DeviceKind,
    /// The name its driver gives.
    pub name: String,
    /// Its maker.
    pub vendor: String,
    /// The chip, under one key whatever the driver calls it.
    pub chip: Chip,
    /// The platform it belongs to; `native` for the CPU.
    pub platform: String,
    /// The driver's version.
    pub driver: String,
    /// The version of OpenCL it speaks, if it does.
    pub opencl_version: Option<String>,
    /// Its PCI address where the driver tells.
    pub pci_address: Option<String>,
}

impl DeviceInfo {
    /// The key under which this device's results are kept: another driver is another device,
    /// since a driver decides what is fast and what is right.
    pub fn profile_key(&self) -> String {
        format!("{} | {} | {}", self.name, self.platform, self.driver)
    }
}

/// What a device can do, found by query or probe compile. Kernels ask this, never a vendor name.
#[derive(Debug, Clone, Serialize)]
pub struct Capabilities {
    /// Compute units, or threads of the CPU device.
    pub compute_units: usize,
    /// Clock in MHz, where known.
    pub clock_mhz: Option<u32>,
    /// All of the device's memory.
    pub memory_bytes: u64,
    /// Memory that is free now, where the system tells.
    pub memory_free_bytes: Option<u64>,
    /// The most bytes in one allocation.
    pub max_allocation_bytes: u64,
    /// Local memory of a work-group; on the CPU device the largest cache beyond the first level.
    pub local_memory_bytes: u64,
    /// The most work-items in a work-group.
    pub max_work_group: usize,
    /// The width at which the device likes its work-groups (wavefront, warp, vector).
    pub preferred_multiple: usize,
    /// Whether the host and the device share memory.
    pub unified_memory: bool,
    /// Double precision works.
    pub fp64: bool,
    /// Half-precision arithmetic works (half storage always does).
    pub fp16_arithmetic: bool,
    /// Four-way integer dot products work.
    pub int_dot: bool,
    /// Subgroup functions work.
    pub subgroups: bool,
    /// The compiler takes inline PTX.
    pub inline_ptx: bool,
    /// Instruction sets of the CPU device, most capable last.
    pub simd: Vec<&'static str>,
}

impl Capabilities {
    /// Whether buffers of this type can take part in arithmetic on the device.
    pub fn supports(&self, dtype: DType) -> bool {
        dtype != DType::F64 || self.fp64
    }
}

/// A shared handle to a device.
pub type DeviceRef = Arc<dyn Device>;

/// A device: facts, memory and queues. Kernels reach the backend through `as_cpu`/`as_opencl`.
pub trait Device: Send + Sync + fmt::Debug {
    /// Facts for people and file names.
    fn info(&self) -> &DeviceInfo;

    /// What it can do.
    fn capabilities(&self) -> &Capabilities;

    /// Its memory: budget, accounting and the cache of freed blocks.
    fn allocator(&self) -> &Allocator;

    /// The queue that work goes to unless another one is named.
    fn queue(&self) -> &Arc<dyn Queue>;

    /// Another in-order queue that runs beside the default one.
    ///
    /// # Errors
    /// If the driver refuses.
    fn new_queue(&self, options: QueueOptions) -> Result<Arc<dyn Queue>>;

    /// The CPU backend, if this is it.
    fn as_cpu(&self) -> Option<&CpuDevice> {
        None
    }

    /// The OpenCL backend, if this is it.
    fn as_opencl(&self) -> Option<&OpenClDevice> {
        None
    }

    /// How it is named on the command line.
    fn id(&self) -> DeviceId {
        self.info().id
    }
}

/// What every device can do with buffers.
pub trait DeviceExt {
    /// A buffer of `len` elements. Its contents are whatever was there before.
    ///
    /// # Errors
    /// `OutOfMemory` or `AllocationTooLarge`.
    fn allocate(&self, dtype: DType, len: usize) -> Result<Buffer>;

    /// A buffer that holds these values.
    ///
    /// # Errors
    /// `OutOfMemory` or `AllocationTooLarge`, or a failed copy.
    fn upload<T: polaris_core::Element>(&self, values: &[T]) -> Result<Buffer>;
}

impl DeviceExt for DeviceRef {
    fn allocate(&self, dtype: DType, len: usize) -> Result<Buffer> {
        Buffer::allocate(self, self.queue(), dtype, len)
    }

    fn upload<T: polaris_core::Element>(&self, values: &[T]) -> Result<Buffer> {
        let buffer = self.allocate(T::DTYPE, values.len())?;
        buffer.write(values)?;
        Ok(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip() {
        for id in [DeviceId::Cpu, DeviceId::OpenCl(0), DeviceId::OpenCl(12)] {
            assert_eq!(id.to_string().parse::<DeviceId>().unwrap(), id);
        }
        assert_eq!("opencl".parse::<DeviceName>().unwrap(), DeviceName::OpenCl);
        for bad in ["", "gpu", "opencl:", "opencl:x", "cpu:0", "opencl:-1"] {
            let message = bad.parse::<DeviceId>().unwrap_err().to_string();
            assert!(message.contains("cpu"), "{message}");
        }
    }
}
