//! Scatters on OpenCL devices.

use polaris_core::DType;
use polaris_runtime::Device;
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::geometry::axes_with;
use super::opencl_keys::{self, keys};
use super::scatter::{Scatter, ScatterRule};
use crate::lanes::Lanes;
use crate::opencl::{
    ELEMENT, Enqueue, compute_type, dtype_code, moved_types, needs_wide_index, pass_array,
    pass_axes, radix, work_group,
};
use crate::operation::is_same_place;
use crate::{Array, Result, copy, fill};

/// The kernels of scatters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Positions are sorted by their index; each place of the output then has one work-item.
    Sorted,
    /// A work-item for each lane, which takes its positions one after another.
    Lanes,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sorted => "sorted",
            Self::Lanes => "lanes",
        }
    }
}

/// The functions of the program.
#[derive(Debug, Clone, Copy)]
enum Entry {
    Lanes,
    Sorted,
    Runs,
}

impl Entry {
    const fn name(self) -> &'static str {
        match self {
            Self::Lanes => "scatter_lanes",
            Self::Sorted => "scatter_sorted",
            Self::Runs => "scatter_runs",
        }
    }
}

/// From so many lanes on they keep a GPU busy, and nothing has to be sorted.
const MANY_LANES: usize = 16 * 1024;
/// So few positions are taken in order sooner than they are sorted.
const FEW_POSITIONS: usize = 64;

/// Positions of a group that takes runs of equal keys.
const BLOCK: usize = 32;

const PARTS: &[&str] = &[ELEMENT, include_str!("scatter.cl")];

#[derive(Debug, Clone, Copy)]
struct Config {
    source: DType,
    output: DType,
    adds: bool,
    wide: bool,
    work_group: usize,
}

impl Config {
    fn key(&self, entry: Entry) -> u64 {
        let types = dtype_code(self.source) << 8 | dtype_code(self.output);
        let flags = u64::from(self.adds) << 1 | u64::from(self.wide);
        (types << 8 | flags << 2 | entry as u64) << 16 | self.work_group as u64
    }

    fn source(&self) -> ProgramSource {
        let (source, output, compute) = if self.adds {
            (self.source.name(), self.output.name(), compute_type(self.source))
        } else {
            let (element, compute) = moved_types(self.source);
            (element, element, compute)
        };
        let defines = Defines::new()
            .code("SOURCE", source)
            .code("OUT", output)
            .code("C", compute)
            .number("ADD", self.adds)
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("WORK_GROUP", self.work_group as i64)
            .number("BLOCK", BLOCK as i64);
        let rule = if self.adds { "add" } else { "assign" };
        let wide = if self.wide { "_wide" } else { "" };
        let name = format!("scatter.cl {rule}_{source}_to_{output}{wide}");
        ProgramSource { name, parts: PARTS, defines, options: "" }
    }
}

/// Lanes and positions of each.
fn extent(op: &Scatter, inputs: &[&Array], output: &Array) -> [usize; 2] {
    let index = inputs[0].shape();
    let [outer, inner] = [&output.shape()[..op.axis], &output.shape()[op.axis + 1..]];
    match op.rule {
        ScatterRule::TakeGradient => [outer.iter().chain(inner).product(), index.elements()],
        _ => [index.elements() / index[op.axis].max(1), index[op.axis]],
    }
}

pub fn supports(
    op: &Scatter,
    kernel: Kernel,
    device: &OpenClDevice,
    inputs: &[&Array],
    output: &Array,
) -> bool {
    let [lanes, positions] = extent(op, inputs, output);
    let rows = if op.rule == ScatterRule::TakeGradient { 1 } else { lanes };
    (!op.adds() || device.capabilities().supports(output.dtype()))
        && opencl_keys::fit(output.shape()[op.axis])
        && opencl_keys::fit(positions)
        && (kernel == Kernel::Lanes || radix::supports(device, rows, positions))
}

/// Lanes where there are many of them, or hardly anything to sort.
pub fn preferred(
    op: &Scatter,
    device: &OpenClDevice,
    inputs: &[&Array],
    output: &Array,
) -> Option<Kernel> {
    let [lanes, positions] = extent(op, inputs, output);
    let suits = lanes >= MANY_LANES || positions <= FEW_POSITIONS;
    (suits && supports(op, Kernel::Lanes, device, inputs, output)).then_some(Kernel::Lanes)
}

pub fn run(
    op: &Scatter,
    device: &OpenClDevice,
    kernel: Kernel,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let index = inputs[0];
    let axis = op.scattered_along(output);
    let shared = op.rule == ScatterRule::TakeGradient;
    let order = match kernel {
        _ if shared => (0..index.shape().rank()).collect(),
        // A lane's keys together, to be sorted; or those of a position, to be read side by side.
        Kernel::Sorted => axes_with(index.shape().rank(), op.axis, false),
        Kernel::Lanes => axes_with(index.shape().rank(), op.axis, true),
    };
    let is_empty = index.elements() == 0;
    let keys = if is_empty { None } else { Some(keys(axis, device, index, &order)?) };
    // Lanes round each addition to the output's type, which must then be that of the sum.
    let narrow = op.adds() && output.dtype().size() < DType::F32.size();
    let total = if kernel == Kernel::Lanes && narrow {
        Array::empty(output.device(), DType::F32, *output.shape())?
    } else {
        output.clone()
    };
    begin(op, inputs, &total)?;
    if let Some(keys) = keys {
        launch(op, device, kernel, inputs, keys, &total)?;
    }
    if total.dtype() == output.dtype() { Ok(()) } else { copy::into(&total, output) }
}

/// What the output holds before anything is scattered.
fn begin(op: &Scatter, inputs: &[&Array], output: &Array) -> Result<()> {
    if op.rule == ScatterRule::TakeGradient {
        return fill::into(output, 0.0);
    }
    let base = inputs[1];
    if is_same_place(base, output) { Ok(()) } else { copy::into(base, output) }
}

fn launch(
    op: &Scatter,
    device: &OpenClDevice,
    kernel: Kernel,
    inputs: &[&Array],
    keys: Array,
    output: &Array,
) -> Result<()> {
    let shared = op.rule == ScatterRule::TakeGradient;
    let (source, shape) = op.source(inputs)?;
    let lanes = Lanes::new(&shape, op.axis, [output.layout(), source.layout()])?;
    let [output_stride, source_stride] = lanes.strides;
    let config = Config {
        source: source.dtype(),
        output: output.dtype(),
        adds: op.adds(),
        wide: needs_wide_index(&lanes.starts),
        work_group: work_group(device),
    };
    let (keys, positions) = match kernel {
        Kernel::Sorted => {
            let bits = usize::BITS - output.shape()[op.axis].saturating_sub(1).leading_zeros();
            let sorted = radix::sort(device, keys, lanes.length, bits)?;
            (sorted.keys, Some(sorted.positions))
        }
        Kernel::Lanes => (keys, None),
    };
    let [key_lane, key_step] = match kernel {
        _ if shared => [0, 1],
        Kernel::Sorted => [lanes.length, 1],
        Kernel::Lanes => [1, lanes.count()],
    };
    // Neighbouring items should read neighbouring elements: of a lane, or of neighbouring lanes.
    let (_, [_, stride]) = lanes.starts.inner();
    let entry = match kernel {
        Kernel::Lanes => Entry::Lanes,
        Kernel::Sorted if stride == 1 => Entry::Runs,
        Kernel::Sorted => Entry::Sorted,
    };
    let built = device.kernel(("scatter", config.key(entry)), entry.name(), || config.source())?;
    let mut launch = device
        .launch(&built)
        .value(lanes.count() as u64)
        .value(lanes.length as u32)
        .value(lanes.starts.rank() as u32);
    for axes in [lanes.starts.dims(), lanes.starts.strides(0), lanes.starts.strides(1)] {
        launch = pass_axes(launch, axes, config.wide);
    }
    for value in [output_stride, source_stride, key_lane, key_step] {
        launch = launch.value(value as u64);
    }
    for array in [output, &source, &keys] {
        launch = pass_array(launch, array);
    }
    if let Some(positions) = &positions {
        launch = pass_array(launch, positions);
    }
    let items = match entry {
        Entry::Runs => {
            let lane_groups = lanes.count().div_ceil(config.work_group);
            launch = launch.value(lane_groups as u32);
            lane_groups * config.work_group * lanes.length.div_ceil(BLOCK)
        }
        Entry::Sorted => lanes.count() * lanes.length,
        Entry::Lanes => lanes.count(),
    };
    launch.enqueue(&[items], &[config.work_group])
}

/// Sums of each type, into `f32` too, moves of each size, and wide indices.
pub(super) fn shipped_programs() -> Vec<ProgramSource> {
    let config =
        |source, output, adds, wide| Config { source, output, adds, wide, work_group: 256 };
    let same = |dtype, adds| config(dtype, dtype, adds, false);
    let mut configs = vec![config(DType::F32, DType::F32, true, true)];
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        configs.push(same(dtype, true));
    }
    for dtype in [DType::F16, DType::BF16] {
        configs.push(config(dtype, DType::F32, true, false));
    }
    for dtype in [DType::U8, DType::F16, DType::F32, DType::F64] {
        configs.push(same(dtype, false));
    }
    configs.iter().map(Config::source).collect()
}
