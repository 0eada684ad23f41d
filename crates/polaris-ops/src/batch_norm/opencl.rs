//! Batch normalisation on OpenCL devices.

use polaris_core::{Collapsed, DType, Layout, MAX_RANK};
use polaris_runtime::opencl::{Launch, OpenClDevice};
use polaris_runtime::{Device, DeviceExt};

use super::Channels;
use super::opencl_program::{Config, Task};
use super::operations::Arrays;
use crate::opencl::{Enqueue, needs_wide_index, pass_array, pass_axes, work_group};
use crate::operation::sum_dtype;
use crate::{Array, Result};

/// The kernels of batch normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Of two numbers of each channel: a work-group for each segment of each channel, and a second
    /// launch that joins them.
    Group,
    /// Of two numbers of each channel: a work-item for each channel.
    Serial,
    /// A work-item for each element.
    Items,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Serial => "serial",
            Self::Items => "items",
        }
    }
}

/// Elements of a segment that make another one worth its while.
const SEGMENT: usize = 4 * 1024;
/// More segments would cost more to join than they save.
const MOST_SEGMENTS: usize = 256;
/// Groups that a compute unit can have at work at once.
const GROUPS_AT_ONCE: usize = 8;

/// Axes that programs with wide indices can find elements by.
const FEW_AXES: usize = 3;

pub fn supports(arrays: &Arrays<'_>, kernel: Kernel, device: &OpenClDevice) -> bool {
    let dtype = arrays.x.dtype();
    let local = (group_size(device) * 2 * sum_dtype(dtype).size()) as u64;
    let fits = match kernel {
        Kernel::Items => {
            space(arrays).is_ok_and(|space| space.rank() <= FEW_AXES || !is_wide(arrays, &space))
        }
        Kernel::Group | Kernel::Serial => {
            let g = arrays.g.unwrap_or(arrays.x);
            let layouts = [arrays.x.layout(), g.layout()];
            let space = Collapsed::new(arrays.x.shape(), layouts);
            let channels = Channels::new(arrays.x.shape(), layouts);
            channels
                .is_ok_and(|channels| channels.rest.rank() <= FEW_AXES || !is_wide(arrays, &space))
        }
    };
    device.capabilities().supports(dtype)
        && fits
        && (kernel != Kernel::Group || local <= device.capabilities().local_memory_bytes)
}

/// Everything that an element's place is found by: x, the gradient, the output and the channel, as if
/// it were an array's index.
fn space(arrays: &Arrays<'_>) -> Result<Collapsed<4>> {
    let (x, g) = (arrays.x, arrays.g.unwrap_or(arrays.x));
    let mut strides = [0; MAX_RANK];
    strides[1] = 1;
    let channel = Layout::new(*x.shape(), &strides[..x.shape().rank()], 0)?;
    let layouts = [x.layout(), g.layout(), arrays.output.layout(), &channel];
    Ok(Collapsed::new(x.shape(), layouts))
}

/// Whether any index may exceed 32 bits.
fn is_wide<const N: usize>(arrays: &Arrays<'_>, space: &Collapsed<N>) -> bool {
    let pairs = arrays.statistics.into_iter().chain(arrays.sums).flatten();
    let columns = [arrays.weight, arrays.bias].into_iter().flatten().chain(pairs);
    let reaches_far = |array: &Array| array.layout().end() > u32::MAX as usize;
    needs_wide_index(space) || reaches_far(arrays.output) || columns.into_iter().any(reaches_far)
}

/// A power of two, as the tree needs it.
fn group_size(device: &OpenClDevice) -> usize {
    1 << work_group(device).max(1).ilog2()
}

pub fn run(arrays: &Arrays<'_>, device: &OpenClDevice, kernel: Kernel) -> Result<()> {
    match kernel {
        Kernel::Items => elements(arrays, device),
        Kernel::Group | Kernel::Serial => channels(arrays, device, kernel == Kernel::Group),
    }
}

/// The stride of an array of one number for each channel; of one that is absent, any.
fn step_of(array: Option<&Array>) -> usize {
    array.map_or(1, |array| array.layout().strides().last().copied().unwrap_or(1))
}

fn pass_index(launch: Launch<'_>, value: usize, wide: bool) -> Launch<'_> {
    if wide { launch.value(value as u64) } else { launch.value(value as u32) }
}

fn pass_number(launch: Launch<'_>, value: f64, dtype: DType) -> Launch<'_> {
    match sum_dtype(dtype) {
        DType::F64 => launch.value(value),
        _ => launch.value(value as f32),
    }
}

fn channels(arrays: &Arrays<'_>, device: &OpenClDevice, group: bool) -> Result<()> {
    let Arrays { epsilon, x, output, .. } = *arrays;
    let g = arrays.g.unwrap_or(x);
    let channels = Channels::new(x.shape(), [x.layout(), g.layout()])?;
    let (count, size) = (channels.count, channels.elements());
    let segments = if group { segments(device, count, size) } else { 1 };
    let each = size.div_ceil(segments);
    let segments = size.div_ceil(each.max(1)).max(1);
    let [mean, variance] = arrays.statistics.unwrap_or([output; 2]);
    let space = Collapsed::new(x.shape(), [x.layout(), g.layout()]);
    let wide = is_wide(arrays, &space);
    let config = Config {
        task: if arrays.g.is_some() { Task::Sums } else { Task::Statistics },
        dtype: x.dtype(),
        group,
        wide,
        work_group: group_size(device),
    };
    let partial = output.device().allocate(sum_dtype(x.dtype()), 2 * count * segments)?;
    let built =
        device.kernel(("batch_norm", config.key(0)), "batch_norm_channels", || config.source())?;
    let numbers = [count, size, segments, each].map(|value| value as u64);
    let mut launch = device.launch(&built);
    launch = numbers.into_iter().fold(launch, Launch::value);
    launch = pass_axes(launch.value(channels.rest.rank() as u32), channels.rest.dims(), wide);
    for operand in 0..2 {
        launch = pass_axes(launch, channels.rest.strides(operand), wide);
    }
    for step in [channels.strides[0], channels.strides[1], step_of(Some(mean))] {
        launch = pass_index(launch, step, wide);
    }
    launch = launch.buffer(&partial, 0);
    launch = [x, g, mean].into_iter().fold(launch, pass_array);
    let units = count * segments;
    let items = if group { units * config.work_group } else { units };
    launch.enqueue(&[items], &[config.work_group])?;

    let built =
        device.kernel(("batch_norm", config.key(1)), "batch_norm_join", || config.source())?;
    let mut launch = numbers.into_iter().fold(device.launch(&built), Launch::value);
    launch = pass_number(launch, epsilon, x.dtype());
    let strides = output.layout().strides();
    for step in [strides[0], strides[1], step_of(Some(variance))] {
        launch = pass_index(launch, step, wide);
    }
    launch = pass_array(launch, output).buffer(&partial, 0);
    launch = pass_array(launch, variance);
    launch.enqueue(&[count], &[config.work_group])
}

/// Enough segments to fill the device, but none shorter than is worth joining.
fn segments(device: &OpenClDevice, channels: usize, size: usize) -> usize {
    let groups = device.capabilities().compute_units * GROUPS_AT_ONCE;
    groups.div_ceil(channels).min(size.div_ceil(SEGMENT)).clamp(1, MOST_SEGMENTS)
}

fn elements(arrays: &Arrays<'_>, device: &OpenClDevice) -> Result<()> {
    let Arrays { epsilon, x, output, .. } = *arrays;
    let g = arrays.g.unwrap_or(x);
    let space = space(arrays)?;
    let [mean, variance] = arrays.statistics.expect("the statistics should be checked to be there");
    let [of_weight, of_bias] = arrays.sums.map_or([None; 2], |sums| sums.map(Some));
    let columns = [Some(mean), Some(variance), arrays.weight, arrays.bias, of_weight, of_bias];
    let wide = is_wide(arrays, &space);
    let config = Config {
        task: if arrays.g.is_some() { Task::Gradient } else { Task::Norm },
        dtype: x.dtype(),
        group: false,
        wide,
        work_group: group_size(device),
    };
    let built =
        device.kernel(("batch_norm", config.key(2)), "batch_norm_elements", || config.source())?;
    let size = x.elements() / x.shape()[1].max(1);
    let mut launch = device.launch(&built).value(x.elements() as u64);
    launch = pass_number(launch, epsilon, x.dtype());
    launch = pass_number(launch, size as f64, x.dtype());
    let has = u32::from(arrays.weight.is_some())
        | u32::from(arrays.bias.is_some()) << 1
        | u32::from(arrays.sums.is_some()) << 2;
    launch = launch.value(has).value(space.rank() as u32);
    launch = pass_axes(launch, space.dims(), wide);
    for operand in 0..4 {
        launch = pass_axes(launch, space.strides(operand), wide);
    }
    launch = pass_axes(launch, &columns.map(step_of), wide);
    launch = [output, x, g, mean, variance].into_iter().fold(launch, pass_array);
    launch = pass_array(pass_array(launch, arrays.weight.unwrap_or(x)), arrays.bias.unwrap_or(x));
    for sums in [of_weight, of_bias] {
        launch = pass_array(launch, sums.unwrap_or(mean));
    }
    launch.enqueue(&[x.elements()], &[config.work_group])
}
