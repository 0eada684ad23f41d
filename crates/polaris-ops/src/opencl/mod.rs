//! What the OpenCL implementations share: elements of every type, indices of any layout, and what
//! tuning decided.

pub mod tuned;

use polaris_core::{Collapsed, DType, MAX_RANK};
use polaris_runtime::Device;
use polaris_runtime::opencl::{Launch, OpenClDevice, ProgramSource};

use crate::Array;

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

/// Passes an array as its memory and the index of its first element.
pub fn pass_array<'a>(launch: Launch<'a>, array: &Array) -> Launch<'a> {
    launch.buffer(array.buffer(), array.layout().offset())
}

/// Every program configuration that the dispatcher ships, for the machine-code report. The names
/// begin with the `.cl` file.
pub fn shipped_programs() -> Vec<ProgramSource> {
    let mut programs = crate::elementwise::shipped_programs();
    programs.extend(crate::copy::shipped_programs());
    programs.extend(crate::random::shipped_programs());
    programs.extend(crate::reduce::shipped_programs());
    programs.extend(crate::softmax::shipped_programs());
    programs.extend(crate::matmul::shipped_programs());
    programs.extend(crate::norm::shipped_programs());
    programs.extend(crate::fused::shipped_programs());
    programs.extend(crate::batch_norm::shipped_programs());
    programs.extend(crate::pool::shipped_programs());
    programs.extend(crate::cross_entropy::shipped_programs());
    programs
}
