//! Sorting on OpenCL devices.

use polaris_core::{DType, Shape};
use polaris_runtime::Device;
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::ArgSort;
use crate::lanes::Lanes;
use crate::opencl::{
    ELEMENT, Enqueue, compute_type, dtype_code, needs_wide_index, pass_array, pass_lane_axes,
    radix, work_group,
};
use crate::{Array, Result};

/// The kernels of sorting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// A work-group for each lane, in local memory.
    Local,
    /// By digits, in several passes through memory.
    Radix,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Radix => "radix",
        }
    }
}

/// The longest lane that is sorted in local memory.
const MOST: usize = 2048;

const PARTS: &[&str] = &[ELEMENT, include_str!("sort.cl")];

/// The functions of the source.
#[derive(Debug, Clone, Copy)]
enum Entry {
    Local,
    Keys,
    Store,
}

impl Entry {
    const fn name(self) -> &'static str {
        match self {
            Self::Local => "sort_local",
            Self::Keys => "sort_keys",
            Self::Store => "sort_store",
        }
    }
}

/// What one program is specialised for.
#[derive(Debug, Clone, Copy)]
struct Config {
    dtype: DType,
    wide: bool,
    work_group: usize,
}

impl Config {
    fn key(&self, entry: Entry) -> u64 {
        let types = dtype_code(self.dtype) << 8 | entry as u64;
        (types << 1 | u64::from(self.wide)) << 16 | self.work_group as u64
    }

    fn source(&self) -> ProgramSource {
        let defines = Defines::new()
            .code("T", self.dtype.name())
            .code("C", compute_type(self.dtype))
            .code("KEY", if self.dtype.size() == 8 { "ulong" } else { "uint" })
            .number("IS_FLOAT", self.dtype.is_float())
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("WORK_GROUP", self.work_group as i64)
            .number("MOST", MOST as i64);
        let wide = if self.wide { "_wide" } else { "" };
        let name = format!("sort.cl {}{wide}", self.dtype);
        ProgramSource { name, parts: PARTS, defines, options: "" }
    }
}

pub fn supports(
    op: &ArgSort,
    kernel: Kernel,
    device: &OpenClDevice,
    x: &Array,
    output: &Array,
) -> bool {
    let length = x.shape()[op.axis];
    let Ok(lanes) = op.lanes(x, output) else {
        return false;
    };
    let room = MOST * (size_of::<u64>() + size_of::<u16>());
    // Both kernels are in one program, which needs the room in any case.
    device.capabilities().supports(x.dtype())
        && room as u64 <= device.capabilities().local_memory_bytes
        && match kernel {
            Kernel::Local => length <= MOST,
            Kernel::Radix => radix::supports(device, lanes.count(), length),
        }
}

pub fn run(
    op: &ArgSort,
    device: &OpenClDevice,
    kernel: Kernel,
    x: &Array,
    output: &Array,
) -> Result<()> {
    let lanes = op.lanes(x, output)?;
    let Lanes { length, strides, .. } = lanes;
    let config = Config {
        dtype: x.dtype(),
        wide: needs_wide_index(&lanes.starts)
            || strides.iter().any(|stride| length.saturating_mul(*stride) > u32::MAX as usize),
        work_group: work_group(device),
    };
    let kept = output.shape()[op.axis];
    let launch = |entry: Entry, arrays: [&Array; 2], items: usize| -> Result<()> {
        let key = ("sort", config.key(entry));
        let built = device.kernel(key, entry.name(), || config.source())?;
        let mut launch = device
            .launch(&built)
            .value(lanes.count() as u64)
            .value(lanes.starts.rank() as u32)
            .value(u32::from(op.descending))
            .value(kept as u32);
        launch = pass_lane_axes(launch, lanes.starts.dims(), length, config.wide);
        for (operand, stride) in strides.into_iter().enumerate() {
            launch = pass_lane_axes(launch, lanes.starts.strides(operand), stride, config.wide);
        }
        let launch = arrays.iter().fold(launch, |launch, array| pass_array(launch, array));
        launch.enqueue(&[items], &[config.work_group])
    };
    if kernel == Kernel::Local {
        return launch(Entry::Local, [output, x], lanes.count() * config.work_group);
    }
    let elements = x.elements();
    let (dtype, bits) = if x.dtype().size() == 8 { (DType::I64, 64) } else { (DType::I32, 32) };
    let keys = Array::empty(x.device(), dtype, Shape::new(&[elements])?)?;
    launch(Entry::Keys, [&keys, x], elements)?;
    let sorted = radix::sort(device, keys, length, bits)?;
    launch(Entry::Store, [output, &sorted.positions], lanes.count() * kept)
}

/// Each type, and wide indices.
pub(crate) fn shipped_programs() -> Vec<ProgramSource> {
    let config = |dtype, wide| Config { dtype, wide, work_group: 256 };
    DType::ALL
        .map(|dtype| config(dtype, false))
        .into_iter()
        .chain([config(DType::F32, true)])
        .map(|config| config.source())
        .collect()
}
