//! An OpenCL device: what it is, its context, its programs and its memory.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use cl3::context::{create_context, release_context};
use cl3::device as cl;
use cl3::types::{cl_context, cl_device_id};

use crate::device::{Capabilities, Device, DeviceId, DeviceInfo, DeviceKind};
use crate::hardware::normalise_chip;
use crate::memory::Allocator;
use crate::opencl::kernel_times::KernelTime;
use crate::opencl::launch::{Kernel, Launch};
use crate::opencl::memory::ClMemory;
use crate::opencl::numbering::Listed;
use crate::opencl::probe::{Confirmed, probe};
use crate::opencl::program::{Program, ProgramCounts, ProgramSource, Programs};
use crate::opencl::query::{device_bytes, device_number, device_sizes, device_text};
use crate::opencl::queue::ClQueue;
use crate::opencl::{ProgramCache, UnusableDevice};
use crate::queue::{Queue, QueueOptions};
use crate::runtime::RuntimeOptions;
use crate::{DeviceRef, Result};

/// Names a kernel variant in a device's table: the operation's own name for its program and a
/// number that encodes everything the program was specialised for, its entry included.
pub type KernelKey = (&'static str, u64);

/// A device that is reached through OpenCL.
pub struct OpenClDevice {
    info: DeviceInfo,
    capabilities: Capabilities,
    allocator: Allocator,
    default_queue: Arc<ClQueue>,
    /// The same queue, as the trait hands it out.
    queue: Arc<dyn Queue>,
    kernels: RwLock<HashMap<KernelKey, Arc<Kernel>>>,
    quarantine: RwLock<HashSet<String>>,
    has_quarantine: AtomicBool,
    programs: Programs,
    tuning: Option<PathBuf>,
    attached: OnceLock<Box<dyn Any + Send + Sync>>,
    host: DeviceRef,
    raw: cl_device_id,
    context: Context,
}

/// Released after everything that was made in it.
struct Context(cl_context);

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: this value owns one reference.
        let _ = unsafe { release_context(self.0) };
    }
}

// SAFETY: OpenCL devices and contexts may be used from any thread.
unsafe impl Send for OpenClDevice {}
// SAFETY: as above; everything mutable is synchronised.
unsafe impl Sync for OpenClDevice {}

impl OpenClDevice {
    /// A queue that copies as those of devices with discrete memory do.
    #[cfg(test)]
    pub(super) fn staged_queue(&self) -> Result<ClQueue> {
        let options = QueueOptions::default();
        ClQueue::new(self.context.0, self.raw, self.info.id, false, options)
    }

    pub(super) fn new(
        raw: cl_device_id,
        id: DeviceId,
        platform: &str,
        host: &DeviceRef,
        cache: &Arc<ProgramCache>,
        options: &RuntimeOptions,
    ) -> std::result::Result<Arc<Self>, UnusableDevice> {
        let info = describe(raw, id, platform);
        let unusable = |reason: String| UnusableDevice {
            name: info.name.clone(),
            platform: platform.to_owned(),
            reason,
        };
        let (major, minor) = version(info.opencl_version.as_deref().unwrap_or_default());
        if (major, minor) < (1, 2) {
            return Err(unusable(format!(
                "it supports OpenCL {major}.{minor}; at least 1.2 is needed"
            )));
        }
        if device_number(raw, cl::CL_DEVICE_COMPILER_AVAILABLE) == Some(0) {
            return Err(unusable("its driver has no compiler".into()));
        }
        let context = create_context(&[raw], std::ptr::null(), None, std::ptr::null_mut());
        let context = Context(context.map_err(|code| {
            unusable(format!("clCreateContext failed with {}", cl3::error_codes::error_text(code)))
        })?);
        let mut programs = Programs::new(context.0, raw, id, info.profile_key(), Arc::clone(cache));
        let extensions = device_text(raw, cl::CL_DEVICE_EXTENSIONS).unwrap_or_default();
        let single = device_number(raw, cl::CL_DEVICE_SINGLE_FP_CONFIG).unwrap_or_default();
        let exact_division = single & cl::CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT != 0;
        let confirmed = probe(&programs, &extensions, exact_division);
        programs.exact_division = confirmed.exact_division;
        let capabilities = capabilities(raw, &info, &confirmed, &extensions);
        let kernel_times = options.kernel_times;
        let queue_options = QueueOptions { profiling: kernel_times, kernel_times };
        let queue = ClQueue::new(context.0, raw, id, capabilities.unified_memory, queue_options);
        let default_queue = Arc::new(queue.map_err(|error| unusable(error.to_string()))?);
        let queue: Arc<dyn Queue> = default_queue.clone();
        let raw_context = SendContext(context.0);
        let allocator = Allocator::new(
            id,
            capabilities.memory_bytes,
            capabilities.max_allocation_bytes,
            Box::new(move |bytes| Ok(Box::new(ClMemory::new(raw_context.get(), id, bytes)?))),
        );
        Ok(Arc::new(Self {
            info,
            capabilities,
            allocator,
            default_queue,
            queue,
            kernels: RwLock::default(),
            quarantine: RwLock::default(),
            has_quarantine: AtomicBool::new(false),
            programs,
            tuning: options.paths.tuning(),
            attached: OnceLock::new(),
            host: Arc::clone(host),
            raw,
            context,
        }))
    }

    /// The folder with what tuning decided, if there is one.
    pub fn tuning_folder(&self) -> Option<&Path> {
        self.tuning.as_deref()
    }

    /// How long kernels of the device's own queue took since the last time this was asked, the
    /// longest first. Waits for them. Nothing is measured unless `RuntimeOptions::kernel_times` says
    /// so.
    ///
    /// # Errors
    /// If one of them failed.
    pub fn take_kernel_times(&self) -> Result<Vec<KernelTime>> {
        self.default_queue.take_kernel_times()
    }

    /// Something of a higher layer that belongs to this device, made when it is first asked for.
    /// There is one such thing.
    pub fn attached<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.attached.get_or_init(|| Box::new(make())).downcast_ref()
    }

    /// A kernel under its key; the source is made and built only if it is not there yet. A key stands for
    /// one kernel of one program: another entry under it is an error, and in builds with debug assertions
    /// so is another source. (To make the source for each launch would cost more than the launch.)
    ///
    /// # Errors
    /// `BuildFailed`, `BadLaunch` if the program has no kernel of that name or the key stands for another.
    pub fn kernel(
        &self,
        key: KernelKey,
        entry: &str,
        source: impl FnOnce() -> ProgramSource,
    ) -> Result<Arc<Kernel>> {
        let mut source = Some(source);
        self.kernel_of(key, entry, &mut || {
            source.take().expect("the source should be asked for once")()
        })
    }

    /// [`Self::kernel`], compiled once for all callers.
    fn kernel_of(
        &self,
        key: KernelKey,
        entry: &str,
        source: &mut dyn FnMut() -> ProgramSource,
    ) -> Result<Arc<Kernel>> {
        let known =
            self.kernels.read().unwrap_or_else(PoisonError::into_inner).get(&key).map(Arc::clone);
        let taken = |kernel: &Kernel, by: &str| crate::Error::BadLaunch {
            kernel: entry.to_owned(),
            why: format!(
                "its key {key:?} stands for {by} `{}`; give it one of its own",
                kernel.name()
            ),
        };
        let Some(kernel) = known else {
            let kernel = Arc::new(self.programs.get(&source())?.kernel(entry)?);
            let mut kernels = self.kernels.write().unwrap_or_else(PoisonError::into_inner);
            return Ok(Arc::clone(kernels.entry(key).or_insert(kernel)));
        };
        if kernel.name() != entry {
            return Err(taken(&kernel, "the kernel"));
        }
        if cfg!(debug_assertions) && !kernel.program().is_of(&source()) {
            return Err(taken(&kernel, "another program's kernel"));
        }
        Ok(kernel)
    }

    /// A kernel that is not kept under a key: its caller keeps it. Its program is kept, in memory and on disk, as
    /// every other.
    ///
    /// # Errors
    /// `BuildFailed`, or `BadLaunch` if the program has no kernel of that name.
    pub fn build_kernel(&self, entry: &str, source: &ProgramSource) -> Result<Kernel> {
        self.programs.get(source)?.kernel(entry)
    }

    /// Begins a launch on the default queue.
    pub fn launch<'a>(&'a self, kernel: &'a Kernel) -> Launch<'a> {
        kernel.launch(&self.default_queue)
    }

    /// Begins a launch on a queue of this device.
    ///
    /// # Errors
    /// `DeviceMismatch` or `RuntimeMismatch` if the queue is another device's.
    pub fn launch_on<'a>(&'a self, queue: &'a dyn Queue, kernel: &'a Kernel) -> Result<Launch<'a>> {
        let opencl = queue.as_any().downcast_ref::<ClQueue>();
        match opencl.filter(|queue| queue.context() == self.context.0) {
            Some(queue) => Ok(kernel.launch(queue)),
            None => {
                let other = opencl.map_or(DeviceId::Cpu, ClQueue::device);
                Err(crate::Error::mismatch("launch", self.info.id, other))
            }
        }
    }

    pub(super) fn context(&self) -> cl_context {
        self.context.0
    }

    /// How its programs came to be.
    pub fn program_counts(&self) -> ProgramCounts {
        self.programs.counts()
    }

    /// Whether programs that are built go to the disk, as they do unless told otherwise. A driver
    /// may compile once more to make a binary that outlives the process.
    pub fn keep_programs(&self, keep: bool) {
        self.programs.keep_built(keep);
    }

    /// The CPU of the same machine, for what this device cannot do.
    pub fn host(&self) -> &DeviceRef {
        &self.host
    }

    /// Keeps a kernel from being chosen in this process.
    pub fn quarantine(&self, kernel: &str) {
        self.quarantine.write().unwrap_or_else(PoisonError::into_inner).insert(kernel.to_owned());
        self.has_quarantine.store(true, Ordering::Release);
    }

    /// Lets every kernel be chosen again, as a check needs it.
    pub fn clear_quarantine(&self) {
        self.quarantine.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.has_quarantine.store(false, Ordering::Release);
    }

    /// Whether a kernel must not be chosen. The name is only made if any kernel is quarantined.
    pub fn is_quarantined(&self, kernel: impl FnOnce() -> String) -> bool {
        self.has_quarantine.load(Ordering::Acquire) && self.is_listed(&kernel())
    }

    /// Whether a name is among those of the quarantined kernels.
    fn is_listed(&self, kernel: &str) -> bool {
        self.quarantine.read().unwrap_or_else(PoisonError::into_inner).contains(kernel)
    }

    /// The raw handles and a program, for measuring what OpenCL itself costs.
    pub(super) fn raw_parts(
        &self,
        source: &ProgramSource,
    ) -> Result<(cl_device_id, cl_context, Arc<Program>)> {
        Ok((self.raw, self.context.0, self.programs.get(source)?))
    }
}

/// The context for the allocator's closure.
struct SendContext(cl_context);

// SAFETY: OpenCL contexts may be used from any thread.
unsafe impl Send for SendContext {}
// SAFETY: as above.
unsafe impl Sync for SendContext {}

impl SendContext {
    fn get(&self) -> cl_context {
        self.0
    }
}

impl Device for OpenClDevice {
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

    fn new_queue(&self, options: QueueOptions) -> Result<Arc<dyn Queue>> {
        let unified = self.capabilities.unified_memory;
        Ok(Arc::new(ClQueue::new(self.context.0, self.raw, self.info.id, unified, options)?))
    }

    fn as_opencl(&self) -> Option<&OpenClDevice> {
        Some(self)
    }
}

impl std::fmt::Debug for OpenClDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenClDevice({}, {})", self.info.id, self.info.name)
    }
}

/// `CL_DEVICE_BOARD_NAME_AMD`: the name people know the card by.
const BOARD_NAME_AMD: u32 = 0x4038;
/// `CL_DEVICE_GLOBAL_FREE_MEMORY_AMD`, in KiB.
const FREE_MEMORY_AMD: u32 = 0x4039;
/// `CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV` and `_MINOR_NV`.
const COMPUTE_CAPABILITY_NV: [u32; 2] = [0x4000, 0x4001];
/// `CL_DEVICE_PCI_BUS_INFO_KHR`: domain, bus, device and function.
const PCI_BUS_INFO: u32 = 0x410F;

/// A device as it is numbered: cards of one name by their address.
pub(super) fn list(raw: cl_device_id, platform: &str) -> Listed {
    let info = describe(raw, DeviceId::OpenCl(0), platform);
    let address = info.pci_address.as_deref().unwrap_or("-");
    Listed { identity: format!("{} | {platform} | {address}", info.name), kind: info.kind }
}

fn describe(raw: cl_device_id, id: DeviceId, platform: &str) -> DeviceInfo {
    let text = |what| device_text(raw, what).unwrap_or_else(|| "unknown".to_owned());
    let (name, vendor) = (text(cl::CL_DEVICE_NAME), text(cl::CL_DEVICE_VENDOR));
    let board = device_text(raw, BOARD_NAME_AMD);
    let mut chip = normalise_chip(&name, &vendor, board.as_deref());
    if let [Some(major), Some(minor)] = COMPUTE_CAPABILITY_NV.map(|what| device_number(raw, what)) {
        chip.architecture = format!("sm_{major}{minor}");
    }
    let kind = match device_number(raw, cl::CL_DEVICE_TYPE).unwrap_or_default() {
        // Mesa's software rasteriser calls itself a GPU or a CPU depending on its version.
        _ if chip.architecture == "cpu" => DeviceKind::Cpu,
        kind if kind & cl::CL_DEVICE_TYPE_GPU != 0 => DeviceKind::Gpu,
        kind if kind & cl::CL_DEVICE_TYPE_CPU != 0 => DeviceKind::Cpu,
        _ => DeviceKind::Accelerator,
    };
    DeviceInfo {
        id,
        kind,
        name: board
            .filter(|board| *board != name)
            .map_or(name.clone(), |board| format!("{board} ({name})")),
        vendor,
        chip,
        platform: platform.to_owned(),
        driver: text(cl::CL_DRIVER_VERSION),
        opencl_version: device_text(raw, cl::CL_DEVICE_VERSION),
        pci_address: device_bytes(raw, PCI_BUS_INFO).and_then(|data| {
            let part =
                |i: usize| Some(u32::from_le_bytes(data.get(4 * i..4 * i + 4)?.try_into().ok()?));
            Some(format!("{:04x}:{:02x}:{:02x}.{:x}", part(0)?, part(1)?, part(2)?, part(3)?))
        }),
    }
}

/// Drivers write `OpenCL <major>.<minor> <anything>`.
fn version(text: &str) -> (u32, u32) {
    let number = text.split_ascii_whitespace().nth(1).unwrap_or_default();
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    (major.parse().unwrap_or(0), minor.parse().unwrap_or(0))
}

fn capabilities(
    raw: cl_device_id,
    info: &DeviceInfo,
    confirmed: &Confirmed,
    extensions: &str,
) -> Capabilities {
    let number = |what| device_number(raw, what).unwrap_or_default();
    let memory_bytes = number(cl::CL_DEVICE_GLOBAL_MEM_SIZE);
    let free = || {
        // The answer is one or two numbers of KiB; the first is the total.
        extensions.contains("cl_amd_device_attribute_query").then_some(())?;
        Some(device_sizes(raw, FREE_MEMORY_AMD).first()? * 1024)
    };
    let one_dimension = device_sizes(raw, cl::CL_DEVICE_MAX_WORK_ITEM_SIZES).first().copied();
    let max_work_group = number(cl::CL_DEVICE_MAX_WORK_GROUP_SIZE).min(one_dimension.unwrap_or(1));
    Capabilities {
        compute_units: number(cl::CL_DEVICE_MAX_COMPUTE_UNITS).max(1) as usize,
        clock_mhz: device_number(raw, cl::CL_DEVICE_MAX_CLOCK_FREQUENCY)
            .map(|mhz| mhz as u32)
            .filter(|&mhz| mhz > 0),
        memory_bytes,
        memory_free_bytes: free(),
        max_allocation_bytes: number(cl::CL_DEVICE_MAX_MEM_ALLOC_SIZE).min(memory_bytes),
        local_memory_bytes: number(cl::CL_DEVICE_LOCAL_MEM_SIZE),
        max_work_group: max_work_group.max(1) as usize,
        preferred_multiple: preferred_multiple(raw, info),
        unified_memory: info.kind == DeviceKind::Cpu
            || number(cl::CL_DEVICE_HOST_UNIFIED_MEMORY) != 0,
        fp64: confirmed.fp64,
        fp16_arithmetic: confirmed.fp16_arithmetic,
        int_dot: confirmed.int_dot,
        subgroups: confirmed.subgroups,
        inline_ptx: confirmed.inline_ptx,
        simd: Vec::new(),
    }
}

/// The wavefront or warp where a driver tells, otherwise what its kind of hardware likes.
fn preferred_multiple(raw: cl_device_id, info: &DeviceInfo) -> usize {
    /// `CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE` of OpenCL 3.0, `CL_DEVICE_WARP_SIZE_NV` and
    /// `CL_DEVICE_WAVEFRONT_WIDTH_AMD`.
    const WIDTHS: [u32; 3] = [0x1067, 0x4003, 0x4043];
    let told = WIDTHS.iter().find_map(|&what| device_number(raw, what).filter(|&width| width > 0));
    told.map_or(if info.kind == DeviceKind::Cpu { 8 } else { 64 }, |width| width as usize)
}
