//! Launches of the kernels of normalisation.

use polaris_core::{Collapsed, DType};
use polaris_runtime::opencl::{Launch, OpenClDevice};
use polaris_runtime::{Buffer, Device, DeviceExt};

use super::opencl::{Kernel, SHORT, largest_group};
use super::opencl_program::{Config, Task, Walk, columns};
use super::operations::Arrays;
use super::{Part, Rows};
use crate::opencl::{Enqueue, needs_wide_index, pass_array, pass_axes, work_group};
use crate::operation::sum_dtype;
use crate::{Array, Result};

/// Statistics that are kept of each row.
const STATISTICS: usize = 3;

/// Rows that make another segment worth its while.
const SEGMENT_ROWS: usize = 16;
/// More segments would cost more to combine than they save.
const MOST_SEGMENTS: usize = 1024;

/// Which part of the columns' work a launch does; the numbers are those of the source.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Only = 0,
    First = 1,
    Second = 2,
}

/// Launches with a work-group or a work-item for each row.
pub struct RowLauncher<'a> {
    device: &'a OpenClDevice,
    arrays: &'a Arrays<'a>,
    task: Task,
    /// The output, x and the gradient, or x in place of what there is not.
    operands: [&'a Array; 3],
    rows: Rows<3>,
}

impl<'a> RowLauncher<'a> {
    /// Normalises rows or computes their gradient.
    pub fn new(arrays: &'a Arrays<'a>, device: &'a OpenClDevice) -> Result<Self> {
        let task = if arrays.part == Part::Gradient { Task::Gradient } else { Task::Norm };
        let operands = [arrays.output, arrays.x, arrays.g.unwrap_or(arrays.x)];
        Self::of(arrays, device, task, operands)
    }

    /// Finds the statistics of x.
    fn statistics(arrays: &'a Arrays<'a>, device: &'a OpenClDevice) -> Result<Self> {
        Self::of(arrays, device, Task::Statistics, [arrays.x; 3])
    }

    fn of(
        arrays: &'a Arrays<'a>,
        device: &'a OpenClDevice,
        task: Task,
        operands: [&'a Array; 3],
    ) -> Result<Self> {
        let rows = Rows::new(arrays.x.shape(), operands.map(Array::layout))?;
        Ok(Self { device, arrays, task, operands, rows })
    }

    /// Whether a work-group can take a row: it is dense, found without many wide strides, and the
    /// sums fit local memory.
    pub fn suits_groups(&self) -> bool {
        let bytes = largest_group(self.device) * 2 * sum_dtype(self.arrays.x.dtype()).size();
        self.rows.steps == [1; 3]
            && bytes as u64 <= self.device.capabilities().local_memory_bytes
            && (self.rows.starts.rank() <= 1 || !self.is_wide())
    }

    /// Enqueues it, with a work-group or a work-item for each row.
    pub fn launch(&self, grouped: bool, out: &Buffer, out_at: usize) -> Result<()> {
        let Self { device, arrays, task, rows, .. } = self;
        let Arrays { kind, epsilon, x, weight, bias, .. } = **arrays;
        let (starts, length) = (&rows.starts, rows.length);
        let walk = grouped.then(|| Walk::new(largest_group(device), length, self.in_fours()));
        let config = Config {
            task: *task,
            kind,
            dtype: x.dtype(),
            walk,
            wide: self.is_wide(),
            work_group: walk.map_or(work_group(device), |walk| walk.group),
        };
        let wide = config.wide;
        let built = device.kernel(("norm", config.key()), config.entry(), || config.source())?;
        let mut launch = device.launch(&built).value(rows.count() as u64).value(length as u64);
        launch = match sum_dtype(x.dtype()) {
            DType::F64 => launch.value(epsilon),
            _ => launch.value(epsilon as f32),
        };
        let has = u32::from(weight.is_some()) | u32::from(bias.is_some()) << 1;
        launch = launch.value(has).value(starts.rank() as u32);
        launch = pass_axes(launch, starts.dims(), wide);
        for operand in 0..3 {
            launch = pass_axes(launch, starts.strides(operand), wide);
        }
        for step in rows.steps {
            launch = pass_index(launch, step, wide);
        }
        for column in [weight, bias] {
            launch = pass_index(launch, column.map_or(1, step_of), wide);
        }
        launch = launch.buffer(out, out_at);
        for array in [x, self.operands[2], weight.unwrap_or(x), bias.unwrap_or(x)] {
            launch = pass_array(launch, array);
        }
        let items = if grouped { rows.count() * config.work_group } else { rows.count() };
        launch.enqueue(&[items], &[config.work_group])
    }

    /// Whether everything can be read and written in fours.
    fn in_fours(&self) -> bool {
        let fours = |array: &Array| {
            let first = array.buffer().byte_offset() / array.dtype().size();
            (first + array.layout().offset()).is_multiple_of(4)
        };
        let columns = [self.arrays.weight, self.arrays.bias];
        let stepped = |operand: usize| {
            self.rows.starts.strides(operand).iter().all(|stride| stride.is_multiple_of(4))
        };
        self.rows.length.is_multiple_of(4)
            && self.operands.into_iter().all(fours)
            && (0..3).all(stepped)
            && columns.into_iter().flatten().all(|column| fours(column) && step_of(column) == 1)
    }

    fn is_wide(&self) -> bool {
        let layouts = self.operands.map(Array::layout);
        let mut columns = [self.arrays.weight, self.arrays.bias].into_iter().flatten();
        needs_wide_index(&Collapsed::new(self.arrays.x.shape(), layouts))
            || is_long(self.rows.length)
            || columns.any(|column| column.layout().end() > u32::MAX as usize)
    }
}

/// The stride of a weight or bias.
fn step_of(column: &Array) -> usize {
    column.layout().strides()[0]
}

/// An index that goes beyond such a row by a step of a loop would wrap.
fn is_long(length: usize) -> bool {
    length > i32::MAX as usize
}

fn pass_index(launch: Launch<'_>, value: usize, wide: bool) -> Launch<'_> {
    if wide { launch.value(value as u64) } else { launch.value(value as u32) }
}

/// Computes the statistics of all rows, then adds up columns: by segments of rows, which a second
/// launch combines, or all rows at once.
pub fn weight_gradient(arrays: &Arrays<'_>, device: &OpenClDevice, kernel: Kernel) -> Result<()> {
    let Arrays { x, output, .. } = *arrays;
    let g = arrays.g.expect("a gradient should be checked to be there");
    let of_rows = RowLauncher::statistics(arrays, device)?;
    let (count, length) = (of_rows.rows.count(), of_rows.rows.length);
    let dtype = sum_dtype(x.dtype());
    let statistics = output.device().allocate(dtype, (count * STATISTICS).max(1))?;
    if count > 0 {
        let grouped = kernel == Kernel::Columns && length > SHORT && of_rows.suits_groups();
        of_rows.launch(grouped, &statistics, 0)?;
    }

    let segments = match kernel {
        Kernel::Serial => 1,
        Kernel::Group | Kernel::Columns => segments(device, count, length),
    };
    let segment_rows = count.div_ceil(segments);
    let segments = count.div_ceil(segment_rows.max(1)).max(1);
    let partial_len = if segments > 1 { segments * length } else { 1 };
    let partial = output.device().allocate(dtype, partial_len)?;
    let rows = Rows::new(x.shape(), [x.layout(), g.layout()])?;
    let launcher = ColumnLauncher { device, x, g, output, rows, buffers: [&statistics, &partial] };
    if segments == 1 {
        return launcher.launch(Stage::Only, count, 1, segment_rows);
    }
    launcher.launch(Stage::First, count, segments, segment_rows)?;
    launcher.launch(Stage::Second, segments, 1, segments)
}

/// Enough segments to fill the device, but none shorter than is worth its partial sums.
fn segments(device: &OpenClDevice, rows: usize, length: usize) -> usize {
    let items = device.capabilities().compute_units * work_group(device) * 8;
    items.div_ceil(length.max(1)).min(rows.div_ceil(SEGMENT_ROWS)).clamp(1, MOST_SEGMENTS)
}

struct ColumnLauncher<'a> {
    device: &'a OpenClDevice,
    x: &'a Array,
    g: &'a Array,
    output: &'a Array,
    rows: Rows<2>,
    /// Statistics and partial sums.
    buffers: [&'a Buffer; 2],
}

impl ColumnLauncher<'_> {
    fn launch(&self, stage: Stage, rows: usize, segments: usize, each: usize) -> Result<()> {
        let Self { device, x, g, output, .. } = self;
        let Rows { starts, length, steps } = &self.rows;
        let space = Collapsed::new(x.shape(), [x.layout(), g.layout()]);
        let wide = needs_wide_index(&space)
            || is_long(*length)
            || output.layout().end() > u32::MAX as usize;
        let config = columns(x.dtype(), wide, work_group(device));
        let built = device.kernel(("norm", config.key()), config.entry(), || config.source())?;
        let mut launch = device.launch(&built).value(stage as u32);
        for value in [rows, *length, segments, each] {
            launch = launch.value(value as u64);
        }
        launch = pass_axes(launch.value(starts.rank() as u32), starts.dims(), wide);
        for operand in 0..2 {
            launch = pass_axes(launch, starts.strides(operand), wide);
        }
        for step in [step_of(output), steps[0], steps[1]] {
            launch = pass_index(launch, step, wide);
        }
        launch = pass_array(pass_array(pass_array(launch, output), x), g);
        for buffer in self.buffers {
            launch = launch.buffer(buffer, 0);
        }
        launch.enqueue(&[length * segments], &[config.work_group])
    }
}
