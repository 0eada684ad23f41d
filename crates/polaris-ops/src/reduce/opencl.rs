//! Reductions on OpenCL devices.

use polaris_core::{Collapsed, DType, MAX_RANK};
use polaris_runtime::opencl::{COUNTERS, OpenClDevice};
use polaris_runtime::{Buffer, Device, DeviceExt};

use super::opencl_grouping::{Grouping, power_of_two};
use super::opencl_program::{Config, Variant, accumulator_dtype};
use super::{Reduce, Reduction, Spaces};
use crate::opencl::tuned::{Family, Parameters, Problem, decided, has_decisions, letters};
use crate::opencl::{Enqueue, needs_wide_index, pass_array, pass_axes, work_group};
use crate::{Array, Result};

/// The kernels of reductions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// A work-item for each output, or each segment of one, side by side in memory.
    Columns,
    /// A work-group for each segment of an output; the last one to finish combines them.
    OnePass(Grouping),
    /// A work-group for each output, or each segment of one, which a second launch combines.
    Tree(Grouping),
    /// A work-item for each output: slow, and little that a compiler could get wrong.
    Serial,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub fn name(self) -> String {
        match self {
            Self::Columns => "columns".to_owned(),
            Self::OnePass(grouping) => format!("onepass{}", grouping.name()),
            Self::Tree(grouping) => format!("tree{}", grouping.name()),
            Self::Serial => "serial".to_owned(),
        }
    }

    const fn variant(self) -> Variant {
        match self {
            Self::Columns | Self::Serial => Variant::Serial,
            Self::OnePass(_) => Variant::OnePass,
            Self::Tree(_) => Variant::Tree,
        }
    }

    /// Work-items in a group on a device.
    fn work_group(self, device: &OpenClDevice) -> usize {
        let limit = power_of_two(work_group(device));
        match self {
            Self::OnePass(grouping) | Self::Tree(grouping) => limit.min(grouping.group.into()),
            Self::Columns | Self::Serial => limit,
        }
    }
}

/// Up to this many elements an output is better served by one work-item than by a group.
const SHORT: usize = 16;

/// Which part of the work a launch does; the numbers are those of the source.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Only = 0,
    First = 1,
    Second = 2,
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
    let capabilities = device.capabilities();
    let fits =
        |grouping: Grouping| grouping.on(capabilities, input.dtype()).check(capabilities).is_ok();
    capabilities.supports(input.dtype())
        && match kernel {
            Kernel::Columns => {
                reduced.elements() <= SHORT
                    || stride == 1 && length >= 32 && reduced.inner().1 != [1]
            }
            Kernel::OnePass(grouping) => {
                fits(grouping) && output.elements() <= COUNTERS && {
                    let split = Split::new(kernel, device, input.dtype(), output, &reduced);
                    split.segments > 1
                }
            }
            Kernel::Tree(grouping) => fits(grouping),
            Kernel::Serial => true,
        }
}

/// The kernel that tuning decided on. Outputs that are better served by a work-item each, and
/// elements that are not dense, are not tuned.
pub fn preferred(
    op: &Reduce,
    device: &OpenClDevice,
    input: &Array,
    output: &Array,
) -> Option<Kernel> {
    if !has_decisions(device, Family::Reduce) {
        return None;
    }
    let Spaces { reduced, .. } = op.spaces(input, output).ok()?;
    let is_dense = reduced.rank() == 1 && reduced.inner().1 == [1];
    if !is_dense || supports(op, Kernel::Columns, device, input, output) {
        return None;
    }
    let problem = Problem {
        family: Family::Reduce,
        dtype: input.dtype(),
        layout: letters(b"rows"),
        sizes: [output.elements(), reduced.elements(), 1],
    };
    let Parameters::Grouping(grouping) = decided(device, &problem)? else {
        return None;
    };
    [Kernel::OnePass(grouping), Kernel::Tree(grouping)]
        .into_iter()
        .find(|&kernel| supports(op, kernel, device, input, output))
}

/// How the elements of each output are split into segments.
struct Split {
    segments: usize,
    /// Elements of a segment, but for the last.
    length: usize,
}

impl Split {
    /// Enough segments to fill the device, but none shorter than is worth a work-group or
    /// work-item. It is the same for `OnePass` and `Tree` of one grouping, so that both give the
    /// same bits.
    fn new(
        kernel: Kernel,
        device: &OpenClDevice,
        dtype: DType,
        output: &Array,
        reduced: &Collapsed<1>,
    ) -> Self {
        let capabilities = device.capabilities();
        let units = capabilities.compute_units;
        let group = kernel.work_group(device);
        let (outputs, count) = (output.elements().max(1), reduced.elements());
        let length = match kernel {
            Kernel::Serial => count,
            Kernel::OnePass(grouping) | Kernel::Tree(grouping) => {
                let grouping = grouping.on(capabilities, dtype);
                let groups = units * usize::from(grouping.groups_per_unit);
                let piece = group * usize::from(grouping.piece);
                count.div_ceil(piece).div_ceil(groups.div_ceil(outputs)) * piece
            }
            Kernel::Columns => {
                let items = (units * group * 8).div_ceil(outputs);
                count.div_ceil(items.min(count.div_ceil(64)).clamp(1, 1024))
            }
        };
        let length = length.max(1);
        Self { segments: count.div_ceil(length).max(1), length }
    }
}

pub fn run(
    op: &Reduce,
    device: &OpenClDevice,
    kernel: Kernel,
    input: &Array,
    output: &Array,
) -> Result<()> {
    let spaces = op.spaces(input, output)?;
    let (outputs, count) = (output.elements(), spaces.reduced.elements());
    let Split { segments, length } =
        Split::new(kernel, device, input.dtype(), output, &spaces.reduced);
    let config = Config {
        reduction: op.reduction,
        variant: kernel.variant(),
        dtype: input.dtype(),
        one_axis: spaces.reduced.rank() <= 1,
        wide: needs_wide_index(&spaces.kept) || needs_wide_index(&spaces.reduced),
        work_group: kernel.work_group(device),
    };
    let partial_len = if segments > 1 { outputs * segments } else { 1 };
    let dtype = accumulator_dtype(op.reduction, input.dtype());
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
        vectors: config.variant != Variant::Serial && in_vectors(&spaces, input),
    };
    if segments == 1 {
        return launcher.launch(Stage::Only, outputs, count, 1, length);
    }
    launcher.launch(Stage::First, outputs, count, segments, length)?;
    if config.variant == Variant::OnePass {
        return Ok(());
    }
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
        let entry = config.variant.entry();
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
        if config.variant == Variant::OnePass {
            launch = launch.counters();
        }
        let work = outputs * segments;
        let items = match config.variant {
            Variant::Serial => work,
            Variant::Tree | Variant::OnePass => work * config.work_group,
        };
        launch.enqueue(&[items], &[config.work_group])
    }
}
