//! Launches of the kernels of convolutions.

use polaris_runtime::DeviceExt;
use polaris_runtime::opencl::{Launch, OpenClDevice};

use super::axis::Axis;
use super::geometry::strides;
use super::geometry::{Form, Gather, Geometry, Roles};
use super::opencl::Kernel;
use super::opencl_program::{Config, Entry, Finish, SQUARE, TILE, TILE_K, WORK_GROUP};
use crate::matmul::Activation;
use crate::opencl::{Enqueue, pass_array, pass_axes};
use crate::operation::sum_dtype;
use crate::{Array, Result};

/// Groups of work-items that few tiles are cut into, and the fewest positions of the gradient of a
/// weight, and steps of other accumulators, that are worth one.
const PARTS_OF_ALL: usize = 256;
const FEWEST_POSITIONS: usize = 256;
const FEWEST_STEPS: usize = 128;

/// How long sums are cut so that few tiles keep a device busy: the number of parts and their length, by
/// sizes alone, so that every device adds up in the same order.
fn parts_of(tiles: usize, length: usize, fewest: usize) -> (usize, usize) {
    let parts = (PARTS_OF_ALL / tiles.max(1)).min(length / fewest).max(1);
    let part_length = length.div_ceil(parts).next_multiple_of(TILE_K);
    (length.div_ceil(part_length.max(1)).max(1), part_length)
}

/// Whether indices must have 64 bits: beyond the last element, kernels count up to a group further.
fn is_wide(arrays: [&Array; 3]) -> bool {
    arrays.iter().any(|array| array.layout().end() > u32::MAX as usize - TILE * WORK_GROUP)
}

/// Passes sizes, which are small, and strides, which may not be.
fn pass_sizes<'a>(
    launch: Launch<'a>,
    sizes: [usize; 8],
    axes: &[Axis; 2],
    strides: [&[usize]; 2],
    wide: bool,
) -> Launch<'a> {
    let [rows, columns] = axes;
    let extent = [rows.source, columns.source, rows.step, columns.step];
    let launch = launch.value(sizes.map(|size| size as u32)).value(extent.map(|size| size as u32));
    let launch = launch.value(reach(axes));
    strides.iter().fold(launch, |launch, strides| pass_axes(launch, strides, wide))
}

/// Offsets of taps, as the kernels' `int4`.
fn reach(axes: &[Axis; 2]) -> [u32; 4] {
    let [rows, columns] = axes;
    [rows.first, columns.first, rows.advance, columns.advance].map(|offset| offset as i32 as u32)
}

/// The epilogue of an output.
#[derive(Clone, Copy)]
pub(super) struct Following<'a> {
    pub activation: Activation,
    pub residual: Option<&'a Array>,
}

/// Enqueues every sum of the output or of the gradient of the input.
pub(super) fn launch_gathers(
    form: Form,
    geometry: &Geometry,
    device: &OpenClDevice,
    kernel: Kernel,
    roles: &Roles<'_>,
    following: Option<Following<'_>>,
) -> Result<()> {
    let (source, output) = match form {
        Form::InputGradient => (roles.y, roles.x),
        _ => (roles.x, roles.y),
    };
    for gather in geometry.gathers(form) {
        let [rows, columns] = &gather.axes;
        let positions = gather.images * rows.count * columns.count;
        let arrays = [source, output, roles.weight];
        let residual = following.and_then(|following| following.residual);
        let wide = is_wide(arrays) || residual.is_some_and(|residual| is_wide([residual; 3]));
        let finish = following.map(|Following { activation, residual }| Finish {
            activation,
            residual: residual.is_some(),
        });
        let tiles = gather.groups * gather.rows.div_ceil(TILE) * positions.div_ceil(TILE);
        let (parts, part_length) = match kernel {
            Kernel::Tiled => parts_of(tiles, gather.depth(), FEWEST_STEPS),
            _ => (1, 0),
        };
        let cut = parts > 1;
        let config = Config { weight: false, dtype: output.dtype(), wide, cut, finish };
        let elements = gather.groups * gather.rows * positions;
        let partial = match parts {
            1 => None,
            _ => Some(output.device().allocate(sum_dtype(output.dtype()), parts * elements)?),
        };
        let launch = |entry: Entry, work_groups: usize| -> Result<()> {
            let built =
                device.kernel(("convolution", config.key(entry)), config.entry(entry), || {
                    config.source()
                })?;
            let launch = pass_gather(device.launch(&built), &gather, roles.bias, wide);
            let launch = launch.value(parts as u32).value(part_length as u32);
            let first = rows.start * gather.result[2] + columns.start * gather.result[3];
            let launch = launch.buffer(output.buffer(), output.layout().offset() + first);
            let launch = pass_array(launch, source);
            let first_tap =
                rows.first_tap * gather.weight.taps[0] + columns.first_tap * gather.weight.taps[1];
            let weight = roles.weight;
            let launch = launch.buffer(weight.buffer(), weight.layout().offset() + first_tap);
            // A bias that is not there is not read.
            let launch = pass_array(launch, roles.bias.unwrap_or(weight));
            // The same goes for parts, and for a residual.
            let launch = launch.buffer(partial.as_ref().unwrap_or(weight.buffer()), 0);
            let launch = match following {
                Some(Following { activation, residual }) => {
                    let residual = residual.unwrap_or(weight);
                    let (low, high) = activation.limits();
                    let launch = pass_axes(launch, &strides(residual), wide);
                    pass_array(launch.value(low as f32).value(high as f32), residual)
                }
                None => launch,
            };
            launch.enqueue(&[work_groups * WORK_GROUP], &[WORK_GROUP])
        };
        match kernel {
            Kernel::Tiled => launch(Entry::Tiled, tiles * parts)?,
            Kernel::Direct => {
                let squares = rows.count.div_ceil(SQUARE) * columns.count.div_ceil(SQUARE);
                launch(Entry::Direct, gather.images * gather.groups * gather.rows * squares)?;
            }
            Kernel::Simple | Kernel::Product => {
                launch(Entry::Simple, elements.div_ceil(WORK_GROUP))?;
            }
        }
        if cut {
            launch(Entry::Combine, elements.div_ceil(WORK_GROUP))?;
        }
    }
    Ok(())
}

/// Passes sizes and strides, as the source describes them.
fn pass_gather<'a>(
    launch: Launch<'a>,
    gather: &Gather,
    bias: Option<&Array>,
    wide: bool,
) -> Launch<'a> {
    let [rows, columns] = &gather.axes;
    // Kernels divide by the number of taps. A sum without any is one over no channels.
    let channels = if gather.depth() == 0 { 0 } else { gather.channels };
    let sizes = [
        gather.rows,
        gather.images * rows.count * columns.count,
        gather.depth(),
        rows.count,
        columns.count,
        channels,
        rows.taps.max(1),
        columns.taps.max(1),
    ];
    let [image, channel, row, column] = gather.result;
    let result = [image, channel, row * rows.spacing, column * columns.spacing];
    let both = [gather.source, result].concat();
    let strides = &gather.weight;
    let weight = [
        strides.group,
        strides.row,
        strides.channel,
        strides.taps[0] * rows.tap_step,
        strides.taps[1] * columns.tap_step,
        bias.map_or(0, |bias| bias.layout().strides()[0]),
        usize::from(bias.is_some()),
        gather.groups,
    ];
    pass_sizes(launch, sizes, &gather.axes, [&both, &weight], wide)
}

/// Enqueues the gradient of the weight.
pub(super) fn launch_weight(
    geometry: &Geometry,
    device: &OpenClDevice,
    kernel: Kernel,
    roles: &Roles<'_>,
) -> Result<()> {
    let Geometry { groups, inputs, outputs, .. } = *geometry;
    let output = roles.weight;
    let axes = geometry.lengths.each_ref().map(Axis::forward);
    let [rows, columns] = &axes;
    let positions = geometry.images * rows.count * columns.count;
    let of_output = inputs * rows.taps * columns.taps;
    let elements = groups * outputs * of_output;
    let tiles = groups * outputs.div_ceil(TILE) * of_output.div_ceil(TILE);
    let (parts, part_length) = parts_of(tiles, positions, FEWEST_POSITIONS);
    let is_tiled = kernel == Kernel::Tiled;
    let partial_length = if is_tiled { parts * elements } else { 1 };
    let partial = output.device().allocate(sum_dtype(output.dtype()), partial_length)?;
    let arrays = [roles.x, roles.y, output];
    let wide = is_wide(arrays);
    let config = Config { weight: true, dtype: output.dtype(), wide, cut: false, finish: None };
    let launch = |entry: Entry, work_groups: usize| -> Result<()> {
        let built =
            device.kernel(("convolution", config.key(entry)), config.entry(entry), || {
                config.source()
            })?;
        let sizes = [
            outputs,
            of_output,
            positions,
            rows.count,
            columns.count,
            groups,
            rows.taps,
            columns.taps,
        ];
        let both = [geometry.x, geometry.y].concat();
        let strides: [&[usize]; 2] = [&both, &geometry.weight];
        let launch = pass_sizes(device.launch(&built), sizes, &axes, strides, wide);
        let launch = launch.value(parts as u32).value(part_length as u32);
        let launch = pass_array(pass_array(pass_array(launch, output), roles.x), roles.y);
        let launch = launch.buffer(&partial, 0);
        launch.enqueue(&[work_groups * WORK_GROUP], &[WORK_GROUP])
    };
    match kernel {
        Kernel::Tiled => {
            launch(Entry::Tiled, tiles * parts)?;
            launch(Entry::Combine, elements.div_ceil(WORK_GROUP))
        }
        Kernel::Direct => launch(Entry::Direct, elements),
        Kernel::Simple | Kernel::Product => launch(Entry::Simple, elements.div_ceil(WORK_GROUP)),
    }
}
