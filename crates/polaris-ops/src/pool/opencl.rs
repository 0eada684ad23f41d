//! Pooling on OpenCL devices.

use polaris_core::DType;
use polaris_runtime::opencl::{Defines, Launch, OpenClDevice, ProgramSource};
use polaris_runtime::{Buffer, Device, DeviceExt};

use super::Pooling;
use super::geometry::{Geometry, POOLED, SOURCE, WHOLE};
use super::windows::{Along, Window};
use crate::opencl::{
    ELEMENT, Enqueue, compute_type, dtype_code, pass_array, pass_axes, work_group,
};
use crate::{Array, Result};

/// The kernels of pooling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Of a maximum's gradient: where the largest elements are is found first, by a launch of its own.
    Indexed,
    /// A work-item for each element of the output, which looks at all that it needs.
    Items,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Indexed => "indexed",
            Self::Items => "items",
        }
    }
}

/// What a launch writes; the numbers are those of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Largest = 0,
    Indices = 1,
    Average = 2,
    LargestGradient = 3,
    SearchedGradient = 4,
    AverageGradient = 5,
}

const PARTS: &[&str] = &[ELEMENT, include_str!("pool.cl")];

/// Positions and windows beyond this are computed with wide indices: sums of two of them, and a
/// stride more, must fit.
const NARROW: usize = 1 << 29;

/// What one program is specialised for.
#[derive(Debug, Clone, Copy)]
struct Config {
    task: Task,
    dtype: DType,
    /// The output's type.
    output: DType,
    wide: bool,
    work_group: usize,
}

impl Config {
    fn key(&self) -> u64 {
        let types = dtype_code(self.dtype) << 8 | dtype_code(self.output);
        let what = (self.task as u64) << 1 | u64::from(self.wide);
        (types << 16 | what) << 16 | self.work_group as u64
    }

    fn source(&self) -> ProgramSource {
        let defines = Defines::new()
            .number("TASK", self.task as i64)
            .code("T", self.dtype.name())
            .code("OUT", self.output.name())
            .code("C", compute_type(self.dtype))
            .code("POSITION", position_dtype(self.wide).name())
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("WORK_GROUP", self.work_group as i64);
        let task = match self.task {
            Task::Largest => "max",
            Task::Indices => "indices",
            Task::Average => "average",
            Task::LargestGradient => "max_gradient_indexed",
            Task::SearchedGradient => "max_gradient_searched",
            Task::AverageGradient => "average_gradient",
        };
        let to =
            if self.output == self.dtype { String::new() } else { format!("_to_{}", self.output) };
        let wide = if self.wide { "_wide" } else { "" };
        let name = format!("pool.cl {task}_{}{to}{wide}", self.dtype);
        ProgramSource { name, parts: PARTS, defines, options: "" }
    }
}

/// The type of indices between two launches.
const fn position_dtype(wide: bool) -> DType {
    if wide { DType::I64 } else { DType::I32 }
}

pub fn supports(device: &OpenClDevice, dtype: DType) -> bool {
    device.capabilities().supports(dtype)
}

/// One launch in the making.
struct Launcher<'a> {
    geometry: &'a Geometry,
    device: &'a OpenClDevice,
    count_padding: bool,
    wide: bool,
    dtype: DType,
}

impl<'a> Launcher<'a> {
    fn new(
        pooling: Pooling,
        geometry: &'a Geometry,
        device: &'a OpenClDevice,
        dtype: DType,
    ) -> Self {
        let wide = is_large(geometry);
        let count_padding = pooling == Pooling::Average { count_padding: true };
        Self { geometry, device, count_padding, wide, dtype }
    }

    /// Enqueues a launch. The arrays are the input and the gradient, or anything in place of what the
    /// task does not look at.
    fn run(
        &self,
        task: Task,
        [source, g]: [&Array; 2],
        positions: Option<&Buffer>,
        (out, output_dtype, out_at): (&Buffer, DType, usize),
        pooled_strides: [usize; 4],
    ) -> Result<()> {
        let Self { geometry, device, wide, .. } = *self;
        let config = Config {
            task,
            dtype: self.dtype,
            output: output_dtype,
            wide,
            work_group: work_group(device),
        };
        let [first, second] = plane_axes(geometry.planes.dims(), 1);
        let [rows, columns] = match task {
            Task::Largest | Task::Indices | Task::Average => geometry.pooled,
            _ => geometry.whole,
        };
        let elements = first * second * rows * columns;
        // Where positions are not for another launch, a window that covers nothing says 0.
        let missing = if output_dtype == DType::I32 || positions.is_some() { -1 } else { 0 };
        let built = device.kernel(("pool", config.key()), "pool", || config.source())?;
        let mut launch = device
            .launch(&built)
            .value(elements as u64)
            .value(u32::from(self.count_padding))
            .value(missing);
        let [whole, pooled] = [geometry.whole, geometry.pooled];
        let lengths = [first, second, whole[0], whole[1], pooled[0], pooled[1]];
        launch = pass_axes(launch, &lengths, wide);
        launch = self.pass_windows(launch);
        launch = pass_axes(launch, &pooled_strides, wide);
        for operand in [WHOLE, SOURCE] {
            launch = pass_axes(launch, &strides(geometry, operand), wide);
        }
        launch = launch.buffer(out, out_at);
        launch = pass_array(pass_array(launch, source), g);
        launch = launch.buffer(positions.unwrap_or(out), 0);
        launch.enqueue(&[elements], &[config.work_group])
    }

    fn pass_windows<'b>(&self, launch: Launch<'b>) -> Launch<'b> {
        // Windows that share an axis have a kernel of 0; their elements lie side by side.
        let windows = self.geometry.along.map(|along| match along {
            Along::Sliding(window) => window,
            Along::Adaptive(_) => Window { kernel: 0, ..Window::new(1) },
        });
        let [rows, columns] = windows;
        let values = [
            [rows.kernel, columns.kernel],
            [rows.stride, columns.stride],
            [rows.padding, columns.padding],
            [rows.dilation, columns.dilation],
        ];
        pass_axes(launch, values.as_flattened(), self.wide)
    }
}

/// The two axes of planes: a missing one is in front.
fn plane_axes(values: &[usize], absent: usize) -> [usize; 2] {
    match *values {
        [] => [absent; 2],
        [only] => [absent, only],
        [first, second, ..] => [first, second],
    }
}

fn strides(geometry: &Geometry, operand: usize) -> [usize; 4] {
    let [first, second] = plane_axes(geometry.planes.strides(operand), 0);
    let [rows, columns] = geometry.strides[operand];
    [first, second, rows, columns]
}

/// Whether anything that is computed with indices may not fit 32 bits.
pub fn is_large(geometry: &Geometry) -> bool {
    let planes = geometry.planes.elements();
    let elements = |axes: [usize; 2]| planes * axes[0] * axes[1];
    let axis = |axis: usize| {
        let window = match geometry.along[axis] {
            Along::Sliding(w) => w.stride.max(w.kernel.saturating_mul(w.dilation)),
            Along::Adaptive(count) => count.saturating_mul(geometry.whole[axis]),
        };
        window.max(geometry.whole[axis])
    };
    let reach = |operand: usize| {
        let axes = match operand {
            POOLED => geometry.pooled,
            _ => geometry.whole,
        };
        let [rows, columns] = geometry.strides[operand];
        let starts = geometry.planes.dims().iter().zip(geometry.planes.strides(operand));
        let start: usize = starts.map(|(&dim, &stride)| dim.saturating_sub(1) * stride).sum();
        start + axes[0].saturating_sub(1) * rows + axes[1].saturating_sub(1) * columns
    };
    let most = [elements(geometry.whole), elements(geometry.pooled), axis(0), axis(1)];
    most.into_iter().chain((0..3).map(reach)).any(|value| value >= NARROW)
}

pub fn pool(
    pooling: Pooling,
    geometry: &Geometry,
    device: &OpenClDevice,
    x: &Array,
    output: &Array,
) -> Result<()> {
    let task = match pooling {
        Pooling::Max => Task::Largest,
        Pooling::ArgMax => Task::Indices,
        Pooling::Average { .. } => Task::Average,
    };
    let out = (output.buffer(), output.dtype(), output.layout().offset());
    let launcher = Launcher::new(pooling, geometry, device, x.dtype());
    launcher.run(task, [x, x], None, out, strides(geometry, POOLED))
}

pub fn gradient(
    pooling: Pooling,
    geometry: &Geometry,
    device: &OpenClDevice,
    kernel: Kernel,
    [x, g]: [&Array; 2],
    output: &Array,
) -> Result<()> {
    let launcher = Launcher::new(pooling, geometry, device, output.dtype());
    let out = (output.buffer(), output.dtype(), output.layout().offset());
    let own_strides = strides(geometry, POOLED);
    if pooling != Pooling::Max {
        return launcher.run(Task::AverageGradient, [g, g], None, out, own_strides);
    }
    if kernel == Kernel::Items {
        return launcher.run(Task::SearchedGradient, [x, g], None, out, own_strides);
    }
    let dtype = position_dtype(launcher.wide);
    let positions = output.device().allocate(dtype, g.elements().max(1))?;
    let [rows, columns] = geometry.pooled;
    let [_, second] = plane_axes(geometry.planes.dims(), 1);
    let dense = [second * rows * columns, rows * columns, columns, 1];
    let found = (&positions, dtype, 0);
    if g.elements() > 0 {
        launcher.run(Task::Indices, [x, x], Some(&positions), found, dense)?;
    }
    launcher.run(Task::LargestGradient, [x, g], Some(&positions), out, own_strides)
}

/// Everything in `f32`, each type, wide indices.
pub(crate) fn shipped_programs() -> Vec<ProgramSource> {
    let mut configs = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for (task, output) in [
            (Task::Largest, dtype),
            (Task::Indices, DType::I64),
            (Task::Indices, DType::I32),
            (Task::Average, dtype),
            (Task::LargestGradient, dtype),
            (Task::SearchedGradient, dtype),
            (Task::AverageGradient, dtype),
        ] {
            let config = Config { task, dtype, output, wide: false, work_group: 256 };
            configs.push(config);
            if dtype == DType::F32 && output != DType::I32 && task != Task::SearchedGradient {
                configs.push(Config { wide: true, ..config });
            }
        }
    }
    configs.iter().map(Config::source).collect()
}
