//! Reductions on OpenCL devices.

use polaris_core::{DType, MAX_RANK};
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};
use polaris_runtime::{Buffer, Device, DeviceExt};

use super::{Reduce, Reduction, Spaces};
use crate::opencl::{
    ELEMENT, compute_type, dtype_code, needs_wide_index, pass_array, pass_axes, work_group,
};
use crate::{Array, Result};

/// The kernels of reductions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// A work-item for each output, or each segment of one, side by side in memory.
    Columns,
    /// A work-group for each output, or each segment of one.
    Tree,
    /// A work-item for each output: slow, and little that a compiler could get wrong.
    Serial,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Columns => "columns",
            Self::Tree => "tree",
            Self::Serial => "serial",
        }
    }
}

const PARTS: &[&str] = &[ELEMENT, include_str!("reduce.cl")];

/// Up to this many elements an output is better served by one work-item than by a group.
const SHORT: usize = 16;

/// What one program is specialised for.
#[derive(Debug, Clone, Copy)]
struct Config {
    reduction: Reduction,
    tree: bool,
    dtype: DType,
    one_axis: bool,
    wide: bool,
    work_group: usize,
}

impl Config {
    fn key(&self) -> u64 {
        let types = (self.reduction as u64) << 8 | dtype_code(self.dtype);
        let flags = [self.one_axis, self.wide, self.tree];
        let flags = flags.iter().fold(0, |bits, &flag| bits << 1 | u64::from(flag));
        (types << 8 | flags) << 16 | self.work_group as u64
    }

    fn source(&self) -> ProgramSource {
        let accumulator = accumulator(self.reduction, self.dtype);
        let defines = Defines::new()
            .number("REDUCTION", self.reduction as i64)
            .code("IN", self.dtype.name())
            .code("OUT", self.reduction.output_dtype(self.dtype).name())
            .code("ACC", accumulator)
            .code("FIRST", first(self.reduction, accumulator))
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("ONE_AXIS", self.one_axis)
            .number("WORK_GROUP", self.work_group as i64)
            .number("TREE", self.tree);
        let variant = if self.tree { "tree" } else { "serial" };
        let name = format!("reduce.cl {}_{}_{variant}", self.reduction.name(), self.dtype);
        let axes = if self.one_axis { "" } else { "_axes" };
        let wide = if self.wide { "_wide" } else { "" };
        ProgramSource { name: name + axes + wide, parts: PARTS, defines, options: "" }
    }
}

/// Which part of the work a launch does; the numbers are those of the source.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Only = 0,
    First = 1,
    Second = 2,
}

/// Sums of integers are made in `long`, everything else in the compute type.
fn accumulator(reduction: Reduction, dtype: DType) -> &'static str {
    if reduction == Reduction::Sum && !dtype.is_float() { "long" } else { compute_type(dtype) }
}

fn first(reduction: Reduction, accumulator: &str) -> &'static str {
    match (reduction, accumulator) {
        (Reduction::Sum | Reduction::Mean, _) => "0",
        (Reduction::Min, "int") => "INT_MAX",
        (Reduction::Min, "long") => "LONG_MAX",
        (Reduction::Min, _) => "INFINITY",
        (_, "int") => "INT_MIN",
        (_, "long") => "LONG_MIN",
        (_, _) => "(-INFINITY)",
    }
}

/// The type of partial results, as a buffer knows it.
fn accumulator_dtype(accumulator: &str) -> DType {
    match accumulator {
        "float" => DType::F32,
        "double" => DType::F64,
        "int" => DType::I32,
        _ => DType::I64,
    }
}

pub fn supports(
    op: &Reduce,
    kernel: Kernel,
    device: &OpenClDevice,
    input: &Array,
    output: &Array,
) -> bool {
    let Ok(Spaces { kept, reduced }) = op.spaces(input, output) else {
        return false;
    };
    let (length, [_, stride]) = kept.inner();
    device.capabilities().supports(input.dtype())
        && match kernel {
            Kernel::Columns => {
                reduced.elements() <= SHORT
                    || stride == 1 && length >= 32 && reduced.inner().1 != [1]
            }
            Kernel::Tree => {
                power_of_two(work_group(device)) * 16
                    <= device.capabilities().local_memory_bytes as usize
            }
            Kernel::Serial => true,
        }
}

fn power_of_two(limit: usize) -> usize {
    1 << limit.max(1).ilog2()
}

/// Into how many segments the elements of each output are split: enough to fill the device, but
/// no shorter than is worth a work-group or work-item.
fn segments(
    kernel: Kernel,
    device: &OpenClDevice,
    outputs: usize,
    count: usize,
    group: usize,
) -> usize {
    let units = device.capabilities().compute_units;
    let (wanted, shortest) = match kernel {
        Kernel::Serial => return 1,
        Kernel::Tree => (units * 8, group * 8),
        Kernel::Columns => (units * group * 8, 64),
    };
    wanted.div_ceil(outputs).min(count.div_ceil(shortest)).clamp(1, 1024)
}

pub fn run(
    op: &Reduce,
    device: &OpenClDevice,
    kernel: Kernel,
    input: &Array,
    output: &Array,
) -> Result<()> {
    let spaces = op.spaces(input, output)?;
    let group = power_of_two(work_group(device));
    let (outputs, count) = (output.elements(), spaces.reduced.elements());
    let segments = segments(kernel, device, outputs, count, group);
    // In multiples of four, so that segments can be read in vectors.
    let length = count.div_ceil(segments).next_multiple_of(4).max(4);
    let segments = count.div_ceil(length).max(1);
    let config = Config {
        reduction: op.reduction,
        tree: kernel == Kernel::Tree,
        dtype: input.dtype(),
        one_axis: spaces.reduced.rank() <= 1,
        wide: needs_wide_index(&spaces.kept) || needs_wide_index(&spaces.reduced),
        work_group: group,
    };
    let partial_len = if segments > 1 { outputs * segments } else { 1 };
    let dtype = accumulator_dtype(accumulator(op.reduction, input.dtype()));
    let partial = output.device().allocate(dtype, partial_len)?;
    let places = if op.reduction == Reduction::ArgMax { partial_len } else { 1 };
    let places = output.device().allocate(DType::I64, places)?;
    let launcher = Launcher {
        device,
        config,
        spaces: &spaces,
        input,
        output,
        partial: &partial,
        places: &places,
        divisor: count,
        vectors: kernel == Kernel::Tree && in_vectors(&spaces, input),
    };
    if segments == 1 {
        return launcher.launch(Stage::Only, outputs, count, 1, count);
    }
    launcher.launch(Stage::First, outputs, count, segments, length)?;
    launcher.launch(Stage::Second, outputs, segments, 1, segments)
}

/// Whether the elements of every output are dense and begin on a multiple of four.
fn in_vectors(spaces: &Spaces, input: &Array) -> bool {
    let Spaces { kept, reduced } = spaces;
    let first = input.buffer().byte_offset() / input.dtype().size() + input.layout().offset();
    reduced.rank() == 1
        && reduced.inner().1 == [1]
        && first.is_multiple_of(4)
        && kept.strides(1).iter().all(|stride| stride.is_multiple_of(4))
}

struct Launcher<'a> {
    device: &'a OpenClDevice,
    config: Config,
    spaces: &'a Spaces,
    input: &'a Array,
    output: &'a Array,
    partial: &'a Buffer,
    places: &'a Buffer,
    divisor: usize,
    vectors: bool,
}

impl Launcher<'_> {
    fn launch(
        &self,
        stage: Stage,
        outputs: usize,
        count: usize,
        segments: usize,
        length: usize,
    ) -> Result<()> {
        let Self { device, config, spaces: Spaces { kept, reduced }, .. } = self;
        let entry = if config.tree { "reduce_tree" } else { "reduce_serial" };
        let built = device.kernel(("reduce", config.key()), entry, || config.source())?;
        let mut launch = device
            .launch(&built)
            .value(stage as u32)
            .value(u32::from(self.vectors && !matches!(stage, Stage::Second)))
            .value(self.divisor as u64);
        for value in [outputs, count, segments, length] {
            launch = launch.value(value as u64);
        }
        launch = launch.value(kept.rank() as u32).value(reduced.rank() as u32);
        // Axes that stay in front, axes that go at the end, as the source says.
        let axes = |kept: &[usize], reduced: &[usize]| {
            let mut all = [1; MAX_RANK];
            all[..kept.len()].copy_from_slice(kept);
            all[MAX_RANK - reduced.len()..].copy_from_slice(reduced);
            all
        };
        launch = pass_axes(launch, &axes(kept.dims(), reduced.dims()), config.wide);
        launch = pass_axes(launch, kept.strides(0), config.wide);
        launch = pass_axes(launch, &axes(kept.strides(1), reduced.strides(0)), config.wide);
        launch = pass_array(pass_array(launch, self.output), self.input);
        launch = launch.buffer(self.partial, 0).buffer(self.places, 0);
        let work = outputs * segments;
        let items = if config.tree { work * config.work_group } else { work };
        Ok(launch.run(&[items], &[config.work_group])?)
    }
}

/// Every reduction of every type, and `f32` with several axes and with wide indices.
pub(crate) fn shipped_programs() -> Vec<ProgramSource> {
    let mut configs = Vec::new();
    for tree in [true, false] {
        let config = |reduction, dtype, one_axis, wide| Config {
            reduction,
            tree,
            dtype,
            one_axis,
            wide,
            work_group: 256,
        };
        for reduction in Reduction::ALL {
            let defined = |dtype: &DType| reduction != Reduction::Mean || dtype.is_float();
            let types = DType::ALL.into_iter().filter(defined);
            configs.extend(types.map(|dtype| config(reduction, dtype, true, false)));
            for (one_axis, wide) in [(false, false), (true, true), (false, true)] {
                configs.push(config(reduction, DType::F32, one_axis, wide));
            }
        }
    }
    configs.iter().map(Config::source).collect()
}
