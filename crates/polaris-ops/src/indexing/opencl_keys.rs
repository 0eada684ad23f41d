//! Indices on OpenCL devices: checked, and made dense keys of 32 bits whatever their type and layout,
//! so that other kernels need not know of either.

use polaris_core::{Collapsed, DType, Layout, Shape};
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::indices::Axis;
use crate::opencl::{
    ELEMENT, Enqueue, dtype_code, needs_wide_index, pass_array, pass_axes, work_group,
};
use crate::{Array, Result};

const PARTS: &[&str] = &[ELEMENT, include_str!("keys.cl")];

/// Positions that have one place for the first wrong one.
const STRETCH: usize = 1 << 31;

#[derive(Debug, Clone, Copy)]
struct Config {
    dtype: DType,
    wide: bool,
    work_group: usize,
}

impl Config {
    fn key(&self) -> u64 {
        (dtype_code(self.dtype) << 1 | u64::from(self.wide)) << 16 | self.work_group as u64
    }

    fn source(&self) -> ProgramSource {
        let defines = Defines::new()
            .code("T", self.dtype.name())
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("WORK_GROUP", self.work_group as i64);
        let wide = if self.wide { "_wide" } else { "" };
        let name = format!("keys.cl {}{wide}", self.dtype);
        ProgramSource { name, parts: PARTS, defines, options: "" }
    }
}

/// Whether an axis is short enough for keys.
pub fn fit(length: usize) -> bool {
    u32::try_from(length).is_ok()
}

/// The indices as a dense array of `uint`, under the type `i32`, with the axes in the given order.
/// Waits for the device: a wrong index is an error.
pub fn keys(axis: Axis, device: &OpenClDevice, index: &Array, order: &[usize]) -> Result<Array> {
    let walked = index.permute(order)?;
    let places = Layout::contiguous(*index.shape()).permute(order)?;
    let space = Collapsed::new(walked.shape(), [walked.layout(), &places]);
    let config = Config {
        dtype: index.dtype(),
        wide: needs_wide_index(&space),
        work_group: work_group(device),
    };
    let elements = index.elements();
    let empty = |shape: &[usize]| -> Result<Array> {
        Array::empty(index.device(), DType::I32, Shape::new(shape)?)
    };
    let (keys, wrong) = (empty(&[elements])?, empty(&[elements.div_ceil(STRETCH)])?);
    wrong.buffer().fill(-1i32)?;
    let built = device.kernel(("index_keys", config.key()), "index_keys", || config.source())?;
    let mut launch = device
        .launch(&built)
        .value(elements as u64)
        .value(axis.length as u64)
        .value(space.rank() as u32);
    for axes in [space.dims(), space.strides(0), space.strides(1)] {
        launch = pass_axes(launch, axes, config.wide);
    }
    let launch = pass_array(pass_array(launch, &keys), &wrong);
    pass_array(launch, index).enqueue(&[elements], &[config.work_group])?;
    let wrong = wrong.to_vec::<i32>()?;
    match wrong.iter().enumerate().find(|&(_, &place)| place != -1) {
        Some((stretch, &place)) => {
            Err(axis.out_of_range(index, stretch * STRETCH + place as u32 as usize))
        }
        None => Ok(keys),
    }
}

pub(super) fn shipped_programs() -> Vec<ProgramSource> {
    [(DType::I32, false), (DType::I64, false), (DType::I64, true)]
        .map(|(dtype, wide)| Config { dtype, wide, work_group: 256 }.source())
        .into()
}
