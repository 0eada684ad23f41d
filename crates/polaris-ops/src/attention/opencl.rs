//! Attention on OpenCL devices.

use polaris_core::{DType, Layout};
use polaris_runtime::opencl::OpenClDevice;
use polaris_runtime::{Buffer, Device, DeviceExt};

use super::geometry::Sizes;
use super::opencl_program::{Config, LOCAL_BYTES, MOST_WIDTH, TILE, TILED_GROUP, Task, Widths};
use super::operations::Arrays;
use crate::Result;
use crate::opencl::{Enqueue, pass_array, pass_axes, work_group};
use crate::operation::sum_dtype;

/// The kernels of attention and its gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// A work-group for each block of queries, or of keys for their gradients, which passes over
    /// tiles of scores in local memory.
    Tiled,
    /// A work-item for each query or key: slow, and little that a compiler could get wrong.
    Serial,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tiled => "tiled",
            Self::Serial => "serial",
        }
    }
}

pub fn supports(kernel: Kernel, device: &OpenClDevice, sizes: &Sizes, arrays: &Arrays<'_>) -> bool {
    let capabilities = device.capabilities();
    let dtype = arrays.q.dtype();
    let Sizes { queries, keys, depth, values, .. } = *sizes;
    // Kernels count queries and keys in 32 bits, and go beyond the last one by a tile.
    let most = i32::MAX as usize / 4;
    let fits = [queries, keys, depth, values, sizes.rows(), sizes.key_rows()]
        .into_iter()
        .all(|size| size <= most);
    capabilities.supports(dtype)
        && capabilities.supports(sum_dtype(dtype))
        && fits
        && is_near(arrays)
        && match kernel {
            Kernel::Tiled => {
                dtype != DType::F64
                    && depth.min(values) > 0
                    && depth.max(values) <= MOST_WIDTH * TILE
                    && capabilities.max_work_group >= TILED_GROUP
                    && capabilities.local_memory_bytes >= LOCAL_BYTES as u64
            }
            Kernel::Serial => true,
        }
}

pub fn run(
    kernel: Kernel,
    device: &OpenClDevice,
    sizes: &Sizes,
    arrays: &Arrays<'_>,
) -> Result<()> {
    let output = arrays.output;
    let means = match (kernel, &arrays.given) {
        (Kernel::Tiled, Some(_)) => sizes.rows(),
        _ => 0,
    };
    let means = output.device().allocate(output.dtype(), means.max(1))?;
    let launcher = Launcher { kernel, device, sizes, arrays, means: &means };
    if arrays.given.is_none() {
        return launcher.launch(Task::Forward);
    }
    launcher.launch(Task::GradientOfQ)?;
    launcher.launch(Task::GradientsOfKV)
}

struct Launcher<'a> {
    kernel: Kernel,
    device: &'a OpenClDevice,
    sizes: &'a Sizes,
    arrays: &'a Arrays<'a>,
    means: &'a Buffer,
}

impl Launcher<'_> {
    /// Rows of work of a task.
    fn rows(&self, task: Task) -> usize {
        match task {
            Task::Forward | Task::GradientOfQ => self.sizes.rows(),
            Task::GradientsOfKV => self.sizes.key_rows(),
        }
    }

    /// Work-items, and how many there are work for.
    fn items(&self, task: Task, config: &Config) -> (usize, usize) {
        let Sizes { batch, heads, key_heads, queries, keys, .. } = *self.sizes;
        if self.kernel == Kernel::Serial {
            return (self.rows(task), self.rows(task));
        }
        let groups = match task {
            Task::Forward | Task::GradientOfQ => batch * heads * queries.div_ceil(TILE),
            Task::GradientsOfKV => batch * key_heads * keys.div_ceil(TILE),
        };
        (groups * config.work_group, groups)
    }

    fn launch(&self, task: Task) -> Result<()> {
        let Self { device, sizes, arrays, .. } = *self;
        if self.rows(task) == 0 {
            return Ok(());
        }
        let (q, output) = (arrays.q, arrays.output);
        let spread = match arrays.mask {
            Some(mask) => mask.layout().broadcast_to("attention", &sizes.score_shape()?)?,
            None => *q.layout(),
        };
        let mask = arrays.mask.unwrap_or(q);
        let [o, l, g] =
            arrays.given.map_or([q, output, q], |given| [given.output, given.log_sum_exp, given.g]);
        let layouts = [
            q.layout(),
            arrays.k.layout(),
            arrays.v.layout(),
            &spread,
            o.layout(),
            g.layout(),
            l.layout(),
        ];
        let tiles = |elements: usize| elements.div_ceil(TILE).max(1);
        let is_tiled = self.kernel == Kernel::Tiled;
        let config = Config {
            task,
            dtype: q.dtype(),
            widths: is_tiled
                .then(|| Widths { depth: tiles(sizes.depth), values: tiles(sizes.values) }),
            work_group: if is_tiled { TILED_GROUP } else { work_group(device) },
        };
        let (items, work) = self.items(task, &config);
        let built =
            device.kernel(("attention", config.key()), config.entry(), || config.source())?;
        let mut launch = device.launch(&built);
        launch = match sum_dtype(q.dtype()) {
            DType::F64 => launch.value(sizes.scale),
            _ => launch.value(sizes.scale as f32),
        };
        let numbers = [
            sizes.heads,
            sizes.group(),
            sizes.queries,
            sizes.keys,
            sizes.depth,
            sizes.values,
            usize::from(arrays.mask.is_some()),
            work,
        ];
        launch = launch.value(sizes.border as i32).value(numbers.map(|number| number as u32));
        for axis in 0..4 {
            let stride = |layout: &Layout| layout.strides().get(axis).copied().unwrap_or(0);
            launch = pass_axes(launch, &layouts.map(stride), false);
        }
        let (first, second) = parts(task, sizes);
        launch =
            launch.value(second as u64).buffer(output.buffer(), output.layout().offset() + first);
        for array in [q, arrays.k, arrays.v, mask, o, g, l] {
            launch = pass_array(launch, array);
        }
        launch.buffer(self.means, 0).enqueue(&[items], &[config.work_group])
    }
}

/// Where a task's first result begins in the output, and its second one from there.
fn parts(task: Task, sizes: &Sizes) -> (usize, usize) {
    let [of_k, of_v] = sizes.gradient_starts();
    match task {
        Task::Forward => (0, sizes.rows() * sizes.values),
        Task::GradientOfQ => (0, 0),
        Task::GradientsOfKV => (of_k, of_v - of_k),
    }
}

/// Whether indices of 32 bits reach all elements of every array.
fn is_near(arrays: &Arrays<'_>) -> bool {
    let given = arrays.given.map(|given| [given.output, given.log_sum_exp, given.g]);
    let arrays = [arrays.q, arrays.k, arrays.v, arrays.output].into_iter().chain(arrays.mask);
    let mut arrays = arrays.chain(given.into_iter().flatten());
    arrays.all(|array| array.layout().end() <= u32::MAX as usize)
}
