//! Common parts of the OpenCL implementations: elements of every type, indices of any layout, tuning decisions.

pub mod radix;
pub mod tuned;

use polaris_core::{Collapsed, DType, MAX_RANK};
use polaris_runtime::Device;
use polaris_runtime::opencl::{Launch, OpenClDevice};

use crate::{Array, Result};

/// Loads and stores of every element type, the first part of every program.
pub const ELEMENT: &str = include_str!("element.cl");

/// The type in which elements of this type are computed.
pub fn compute_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => "float",
        DType::F64 => "double",
        DType::I64 => "long",
        DType::I8 | DType::U8 | DType::I32 | DType::Bool => "int",
    }
}

/// The element type and the compute type, as the source names them, of elements that are only moved:
/// by their size, so that no bit pattern is touched.
pub fn moved_types(dtype: DType) -> (&'static str, &'static str) {
    match dtype.size() {
        1 => ("u8", "int"),
        2 => ("u16", "int"),
        4 => ("i32", "int"),
        _ => ("i64", "long"),
    }
}

/// Work-items in a group of a one-dimensional kernel: a multiple of every wavefront, and no more
/// than the smallest limit of a GPU driver.
pub fn work_group(device: &OpenClDevice) -> usize {
    device.capabilities().max_work_group.min(256)
}

/// A small number for each type, for kernel keys.
pub fn dtype_code(dtype: DType) -> u64 {
    dtype as u64
}

/// How wide indices must be for every element of these operands.
pub fn needs_wide_index<const N: usize>(space: &Collapsed<N>) -> bool {
    let last = |operand: usize| -> usize {
        space
            .dims()
            .iter()
            .zip(space.strides(operand))
            .map(|(&dim, &stride)| dim.saturating_sub(1) * stride)
            .sum()
    };
    space.elements() > u32::MAX as usize || (0..N).any(|operand| last(operand) > u32::MAX as usize)
}

/// Passes lengths or strides as one vector of eight indices.
pub fn pass_axes<'a>(launch: Launch<'a>, values: &[usize], wide: bool) -> Launch<'a> {
    let mut padded = [1usize; MAX_RANK];
    padded[..values.len()].copy_from_slice(values);
    if wide {
        launch.value(padded.map(|v| v as u64))
    } else {
        launch.value(padded.map(|v| v as u32))
    }
}

/// Passes lengths or strides of lanes: those of their first elements, and at the end that of the
/// lanes' own axis.
pub fn pass_lane_axes<'a>(
    launch: Launch<'a>,
    others: &[usize],
    own: usize,
    wide: bool,
) -> Launch<'a> {
    let mut all = [1; MAX_RANK];
    all[..others.len()].copy_from_slice(others);
    all[MAX_RANK - 1] = own;
    pass_axes(launch, &all, wide)
}

/// Passes an array as its memory and the index of its first element.
pub fn pass_array<'a>(launch: Launch<'a>, array: &Array) -> Launch<'a> {
    launch.buffer(array.buffer(), array.layout().offset())
}

/// The one place from which this crate's kernels are enqueued.
pub trait Enqueue {
    /// Enqueues a kernel of this crate with arguments that describe checked arrays.
    ///
    /// # Errors
    /// As [`Launch::run`].
    fn enqueue(self, global: &[usize], local: &[usize]) -> Result<()>;
}

impl Enqueue for Launch<'_> {
    fn enqueue(self, global: &[usize], local: &[usize]) -> Result<()> {
        // SAFETY: launches in this crate are of its own programs. Their arguments are sizes, strides and
        // offsets of arrays, whose layouts lie inside their buffers (`Array` sees to it) and fit together
        // (`Operation::check`, which comes before every kernel); indices that are data are checked before
        // they are used (`indexing`), or kept inside by the kernel (`cached_attention`, `cache_write`,
        // `expert_matmul`, `route`). Within these bounds each kernel reads and writes only what it is
        // given, which the suites of polaris-testkit run in every layout and under every configuration.
        Ok(unsafe { self.run(global, local) }?)
    }
}
