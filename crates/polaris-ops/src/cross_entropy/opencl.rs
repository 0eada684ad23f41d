//! Cross-entropy on OpenCL devices.

use polaris_core::DType;
use polaris_runtime::Device;
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::operations::Arrays;
use crate::opencl::{ELEMENT, Enqueue, compute_type, dtype_code, pass_array, work_group};
use crate::operation::sum_dtype;
use crate::{Array, Result};

/// The kernels of cross-entropy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// A work-group for each row.
    Group,
    /// A work-item for each row.
    Serial,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Serial => "serial",
        }
    }
}

/// Up to this many classes a row is better served by one work-item than by a group.
const SHORT: usize = 16;
/// Up to this many classes, a wavefront is enough for a row.
const FEW: usize = 1024;
const SMALL_GROUP: usize = 64;
const USUAL_GROUP: usize = 256;

const PARTS: &[&str] = &[ELEMENT, include_str!("cross_entropy.cl")];

/// What one program is specialised for.
#[derive(Debug, Clone, Copy)]
struct Config {
    dtype: DType,
    targets: DType,
    gradient: bool,
    group: bool,
    wide: bool,
    work_group: usize,
}

impl Config {
    fn key(&self) -> u64 {
        let flags = [self.gradient, self.group, self.wide];
        let flags = flags.iter().fold(0, |bits, &flag| bits << 1 | u64::from(flag));
        let types = dtype_code(self.dtype) << 8 | dtype_code(self.targets);
        (types << 8 | flags) << 16 | self.work_group as u64
    }

    fn source(&self) -> ProgramSource {
        let output = if self.gradient { self.dtype } else { sum_dtype(self.dtype) };
        let defines = Defines::new()
            .code("T", self.dtype.name())
            .code("OUT", output.name())
            .code("C", compute_type(self.dtype))
            .code("TARGET", self.targets.name())
            .number("GRADIENT", self.gradient)
            .number("GROUP", self.group)
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("WORK_GROUP", self.work_group as i64);
        let gradient = if self.gradient { "_gradient" } else { "" };
        let walk =
            if self.group { format!("group{}", self.work_group) } else { "serial".to_owned() };
        let wide = if self.wide { "_wide" } else { "" };
        let types = format!("{}_{}", self.dtype, self.targets);
        let name = format!("cross_entropy.cl loss{gradient}_{types}_{walk}{wide}");
        ProgramSource { name, parts: PARTS, defines, options: "" }
    }
}

/// A power of two, as the tree needs it.
fn group_size(device: &OpenClDevice, classes: usize) -> usize {
    let largest = 1 << work_group(device).max(1).ilog2();
    if classes <= FEW { largest.min(SMALL_GROUP) } else { largest }
}

pub fn supports(arrays: &Arrays<'_>, kernel: Kernel, device: &OpenClDevice) -> bool {
    let capabilities = device.capabilities();
    let state = 4 * sum_dtype(arrays.logits.dtype()).size();
    let local = (group_size(device, arrays.classes()) * state) as u64;
    capabilities.supports(arrays.logits.dtype())
        && (kernel == Kernel::Serial || local <= capabilities.local_memory_bytes)
}

/// Short rows are served by one item each.
pub fn preferred(arrays: &Arrays<'_>, device: &OpenClDevice) -> Option<Kernel> {
    let short = arrays.classes() <= SHORT;
    (short && supports(arrays, Kernel::Serial, device)).then_some(Kernel::Serial)
}

pub fn run(arrays: &Arrays<'_>, device: &OpenClDevice, kernel: Kernel) -> Result<()> {
    let Arrays { options, logits, targets, output, .. } = *arrays;
    let (rows, classes) = (arrays.rows(), arrays.classes());
    let group = kernel == Kernel::Group;
    let all = [Some(logits), Some(targets), Some(output), arrays.g, arrays.weights];
    // Items step beyond the end of their row before they see it.
    let wide = all.into_iter().flatten().any(|array| array.layout().end() > u32::MAX as usize)
        || rows > u32::MAX as usize
        || classes > 1 << 31;
    let config = Config {
        dtype: logits.dtype(),
        targets: targets.dtype(),
        gradient: arrays.g.is_some(),
        group,
        wide,
        work_group: if group { group_size(device, classes) } else { work_group(device) },
    };
    let built =
        device.kernel(("cross_entropy", config.key()), "cross_entropy", || config.source())?;
    let mut launch = device.launch(&built).value(rows as u64).value(classes as u64);
    launch = match sum_dtype(logits.dtype()) {
        DType::F64 => launch.value(options.smoothing),
        _ => launch.value(options.smoothing as f32),
    };
    launch = launch
        .value(u32::from(options.ignore_index.is_some()))
        .value(options.ignore_index.unwrap_or_default())
        .value(u32::from(arrays.weights.is_some()));
    let stride =
        |array: &Array, axis: usize| array.layout().strides().get(axis).copied().unwrap_or(1);
    let [g, weights] = [arrays.g, arrays.weights].map(|array| array.unwrap_or(logits));
    let steps = [
        stride(logits, 0),
        stride(logits, 1),
        stride(output, 0),
        stride(output, 1),
        stride(targets, 0),
        stride(g, 0),
        stride(weights, 0),
    ];
    for step in steps {
        launch = if wide { launch.value(step as u64) } else { launch.value(step as u32) };
    }
    for array in [output, logits, targets, g, weights] {
        launch = pass_array(launch, array);
    }
    let items = if group { rows * config.work_group } else { rows };
    launch.enqueue(&[items], &[config.work_group])
}

/// Everything in `f32`, each type, each kind of targets, wide indices.
pub(crate) fn shipped_programs() -> Vec<ProgramSource> {
    let mut configs = Vec::new();
    for gradient in [false, true] {
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
            for (group, work_group) in
                [(true, USUAL_GROUP), (true, SMALL_GROUP), (false, USUAL_GROUP)]
            {
                let targets = DType::I64;
                let config = Config { dtype, targets, gradient, group, wide: false, work_group };
                configs.push(config);
                if dtype == DType::F32 {
                    configs.push(Config { targets: DType::I32, ..config });
                    configs.push(Config { wide: true, ..config });
                }
            }
        }
    }
    configs.iter().map(Config::source).collect()
}
