//! The CPU as a device: threads, instruction sets, and a queue whose work is done on return.

mod pool;
mod queue;
mod simd;

use std::sync::Arc;

pub use pool::{MAX_THREADS, ThreadPool};
pub use simd::SimdLevel;

use crate::Result;
use crate::device::{Capabilities, Device, DeviceId, DeviceInfo, DeviceKind};
use crate::hardware::{Chip, Cpu, Ram, Vendor};
use crate::memory::{Allocator, HostMemory};
use crate::queue::{Queue, QueueOptions};
use queue::CpuQueue;

/// The host's processor.
#[derive(Debug)]
pub struct CpuDevice {
    info: DeviceInfo,
    capabilities: Capabilities,
    allocator: Allocator,
    queue: Arc<dyn Queue>,
    pool: ThreadPool,
    simd: SimdLevel,
}

impl CpuDevice {
    /// A device with these threads.
    pub(crate) fn new(cpu: &Cpu, ram: &Ram, pool: ThreadPool) -> Arc<Self> {
        let limit = ram.total_bytes;
        let simd = SimdLevel::detect();
        let last_cache = cpu.caches.iter().filter(|c| c.level >= 2).map(|c| c.bytes).max();
        let info = DeviceInfo {
            id: DeviceId::Cpu,
            kind: DeviceKind::Cpu,
            name: cpu.name.clone(),
            vendor: cpu_vendor(&cpu.name).to_owned(),
            chip: Chip {
                key: "cpu".into(),
                architecture: std::env::consts::ARCH.into(),
                vendor: Vendor::Other,
            },
            platform: "native".into(),
            driver: concat!("polaris ", env!("CARGO_PKG_VERSION")).into(),
            opencl_version: None,
            pci_address: None,
        };
        let capabilities = Capabilities {
            compute_units: pool.threads(),
            clock_mhz: cpu.frequency_mhz,
            memory_bytes: ram.total_bytes,
            memory_free_bytes: Some(ram.available_bytes),
            max_allocation_bytes: limit,
            local_memory_bytes: last_cache.unwrap_or(256 << 10),
            max_work_group: 1,
            preferred_multiple: simd.f32_lanes(),
            unified_memory: true,
            fp64: true,
            fp16_arithmetic: false,
            int_dot: cpu.simd.iter().any(|s| s.contains("vnni") || *s == "dotprod"),
            subgroups: false,
            inline_ptx: false,
            simd: cpu.simd.clone(),
        };
        Arc::new(Self {
            info,
            capabilities,
            allocator: Allocator::new(
                DeviceId::Cpu,
                limit,
                limit,
                Box::new(|bytes| Ok(Box::new(HostMemory::new(bytes)?))),
            ),
            queue: Arc::new(CpuQueue::new()),
            pool,
            simd,
        })
    }

    /// The threads that share the work of one operation.
    pub fn pool(&self) -> &ThreadPool {
        &self.pool
    }

    /// The instruction set kernels may use.
    pub fn simd(&self) -> SimdLevel {
        self.simd
    }
}

fn cpu_vendor(name: &str) -> &'static str {
    let known = [("Intel", "Intel"), ("AMD", "AMD"), ("Apple", "Apple"), ("ARM", "ARM")];
    known.iter().find(|(part, _)| name.contains(part)).map_or("unknown", |(_, vendor)| vendor)
}

impl Device for CpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    fn queue(&self) -> &Arc<dyn Queue> {
        &self.queue
    }

    fn new_queue(&self, _options: QueueOptions) -> Result<Arc<dyn Queue>> {
        Ok(Arc::new(CpuQueue::new()))
    }

    fn as_cpu(&self) -> Option<&CpuDevice> {
        Some(self)
    }
}
