//! Running sums on OpenCL devices.

use std::sync::Arc;

use polaris_core::{DType, Shape};
use polaris_runtime::Device;
use polaris_runtime::opencl::{Defines, Kernel as ClKernel, Launch, OpenClDevice, ProgramSource};

use super::CumSum;
use crate::lanes::Lanes;
use crate::opencl::{
    ELEMENT, Enqueue, compute_type, dtype_code, needs_wide_index, pass_array, pass_lane_axes,
    work_group,
};
use crate::operation::sum_dtype;
use crate::{Array, Result};

/// The kernels of running sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// A work-item for each lane, where lanes lie side by side or are short.
    Columns,
    /// A work-group for each segment of a lane, where there are too few lanes for a device.
    Segments,
    /// A work-group for each lane.
    Group,
    /// A work-item for each lane: slow, and little that a compiler could get wrong.
    Serial,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Columns => "columns",
            Self::Segments => "segments",
            Self::Group => "group",
            Self::Serial => "serial",
        }
    }
}

/// Up to this many elements a lane is better served by one work-item than by a group.
const SHORT: usize = 16;
/// Fewer lanes side by side than this would leave most of a wavefront's reads far apart.
const SIDE_BY_SIDE: usize = 32;
/// Elements of a segment: whole tiles, and enough that its sum is a small part of the work.
const SEGMENT: usize = 8 * 1024;
/// From so many lanes on there is a group for every compute unit.
const MANY_LANES: usize = 128;

const PARTS: &[&str] = &[ELEMENT, include_str!("scan.cl")];

/// The functions of the source.
#[derive(Debug, Clone, Copy)]
enum Entry {
    Serial,
    Group,
    Segments,
}

impl Entry {
    const fn name(self) -> &'static str {
        match self {
            Self::Serial => "scan_serial",
            Self::Group => "scan_group",
            Self::Segments => "scan_segments",
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
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("WORK_GROUP", self.work_group as i64);
        let wide = if self.wide { "_wide" } else { "" };
        let name = format!("scan.cl {}{wide}", self.dtype);
        ProgramSource { name, parts: PARTS, defines, options: "" }
    }
}

pub fn supports(
    op: &CumSum,
    kernel: Kernel,
    device: &OpenClDevice,
    x: &Array,
    output: &Array,
) -> bool {
    let Ok(lanes) = op.lanes(x, output) else {
        return false;
    };
    device.capabilities().supports(output.dtype())
        && match kernel {
            Kernel::Columns => lanes.length <= SHORT || lanes.are_side_by_side(1, SIDE_BY_SIDE),
            Kernel::Segments => lanes.length > SEGMENT && lanes.count() < MANY_LANES,
            Kernel::Group | Kernel::Serial => true,
        }
}

pub fn run(
    op: &CumSum,
    device: &OpenClDevice,
    kernel: Kernel,
    x: &Array,
    output: &Array,
) -> Result<()> {
    let lanes = op.lanes(x, output)?;
    let config = Config {
        dtype: output.dtype(),
        // Items step beyond the end of their lane before they see it.
        wide: needs_wide_index(&lanes.starts)
            || lanes.strides.iter().any(|stride| lanes.length.saturating_mul(*stride) > 1 << 31),
        work_group: 1 << work_group(device).max(1).ilog2(),
    };
    let call = Call { op, device, config, lanes, arrays: [output, x] };
    match kernel {
        Kernel::Columns | Kernel::Serial => call.serial(),
        Kernel::Group => call.groups(1, call.lanes.length),
        Kernel::Segments => call.groups(call.lanes.length.div_ceil(SEGMENT), SEGMENT),
    }
}

/// One operation on a device.
struct Call<'a> {
    op: &'a CumSum,
    device: &'a OpenClDevice,
    config: Config,
    lanes: Lanes<2>,
    arrays: [&'a Array; 2],
}

impl Call<'_> {
    fn kernel(&self, entry: Entry) -> Result<Arc<ClKernel>> {
        let key = ("scan", self.config.key(entry));
        Ok(self.device.kernel(key, entry.name(), || self.config.source())?)
    }

    /// The operands of the kernels that walk lanes.
    fn operands<'k>(&'k self, kernel: &'k ClKernel) -> Launch<'k> {
        let starts = &self.lanes.starts;
        let mut launch = self
            .device
            .launch(kernel)
            .value(starts.elements() as u64)
            .value(starts.rank() as u32)
            .value(u32::from(self.op.reverse));
        let Lanes { length, strides, .. } = self.lanes;
        launch = pass_lane_axes(launch, starts.dims(), length, self.config.wide);
        for (operand, stride) in strides.into_iter().enumerate() {
            launch = pass_lane_axes(launch, starts.strides(operand), stride, self.config.wide);
        }
        self.arrays.iter().fold(launch, |launch, array| pass_array(launch, array))
    }

    fn serial(&self) -> Result<()> {
        let kernel = self.kernel(Entry::Serial)?;
        let group = self.config.work_group;
        self.operands(&kernel).enqueue(&[self.lanes.count()], &[group])
    }

    fn groups(&self, segments: usize, segment_length: usize) -> Result<()> {
        let group = self.config.work_group;
        let count = self.lanes.count();
        let sum_type = sum_dtype(self.config.dtype);
        let partial = if segments > 1 { count * segments } else { 1 };
        let sums = Array::empty(self.arrays[0].device(), sum_type, Shape::new(&[partial])?)?;
        let kernel = self.kernel(Entry::Group)?;
        let walk = |results: bool| -> Result<()> {
            let launch = self
                .operands(&kernel)
                .value(segments as u64)
                .value(segment_length as u64)
                .value(u32::from(results));
            pass_array(launch, &sums).enqueue(&[count * segments * group], &[group])
        };
        if segments > 1 {
            walk(false)?;
            let kernel = self.kernel(Entry::Segments)?;
            let launch = self.device.launch(&kernel).value(count as u64).value(segments as u64);
            pass_array(launch, &sums).enqueue(&[count], &[group])?;
        }
        walk(true)
    }
}

/// Each type, and wide indices.
pub(crate) fn shipped_programs() -> Vec<ProgramSource> {
    let config = |dtype, wide| Config { dtype, wide, work_group: 256 };
    [DType::F32, DType::F16, DType::BF16, DType::F64]
        .map(|dtype| config(dtype, false))
        .into_iter()
        .chain([config(DType::F32, true)])
        .map(|config| config.source())
        .collect()
}
