//! Padding, its gradient and flips on OpenCL devices.

use polaris_core::{Collapsed, DType};
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::geometry::{Axis, axes};
use super::{PadGradient, PadMode, Remap};
use crate::opencl::{
    ELEMENT, Enqueue, compute_type, dtype_code, moved_types, needs_wide_index, pass_array,
    pass_axes, work_group,
};
use crate::{Array, Result};

/// The kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Any layout, one element at a time.
    Strided,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strided => "strided",
        }
    }
}

const PAD: &[&str] = &[ELEMENT, include_str!("pad.cl")];
const FOLD: &[&str] = &[ELEMENT, include_str!("fold.cl")];

/// What one program is specialised for.
#[derive(Debug, Clone, Copy)]
struct Config {
    /// Whether it is the gradient, which computes and does not only move.
    fold: bool,
    dtype: DType,
    wide: bool,
    work_group: usize,
}

impl Config {
    fn key(&self) -> u64 {
        let flags = u64::from(self.fold) << 1 | u64::from(self.wide);
        (dtype_code(self.dtype) << 8 | flags) << 16 | self.work_group as u64
    }

    fn source(&self) -> ProgramSource {
        let (element, compute) = match self.fold {
            true => (self.dtype.name(), compute_type(self.dtype)),
            false => moved_types(self.dtype),
        };
        let defines = Defines::new()
            .code("T", element)
            .code("C", compute)
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("WORK_GROUP", self.work_group as i64);
        let (parts, file) = if self.fold { (FOLD, "fold.cl") } else { (PAD, "pad.cl") };
        let wide = if self.wide { "_wide" } else { "" };
        let name = format!("{file} {element}{wide}");
        ProgramSource { name, parts, defines, options: "" }
    }
}

fn mode_code(mode: PadMode) -> u32 {
    match mode {
        PadMode::Constant(_) => 0,
        PadMode::Reflect => 1,
        PadMode::Replicate => 2,
        PadMode::Circular => 3,
    }
}

/// Whether widths fit what kernels take.
pub fn supports(op: &Remap) -> bool {
    op.widths().iter().all(|&(before, after)| u32::try_from(before.max(after)).is_ok())
}

pub fn remap(op: &Remap, device: &OpenClDevice, x: &Array, output: &Array) -> Result<()> {
    let axes = axes(op, x.layout(), output.layout());
    let wide = {
        let space = |array: &Array| Collapsed::new(array.shape(), [array.layout()]);
        needs_wide_index(&space(x)) || needs_wide_index(&space(output))
    };
    let config = Config { fold: false, dtype: x.dtype(), wide, work_group: work_group(device) };
    let built = device.kernel(("pad", config.key()), "pad", || config.source())?;
    let flipped = |bits, (k, axis): (usize, &Axis)| bits | u32::from(axis.flipped) << k;
    let elements = output.elements();
    let mut launch = device
        .launch(&built)
        .value(elements as u64)
        .value(axes.len() as u32)
        .value(mode_code(op.mode()))
        .value(axes.iter().enumerate().fold(0, flipped))
        .value(op.constant_bits(x.dtype()) as i64);
    let of = |value: fn(&Axis) -> usize| axes.iter().map(value).collect::<Vec<usize>>();
    for widths in [of(|axis| axis.before), of(|axis| axis.length - axis.source - axis.before)] {
        launch = pass_axes(launch, &widths, false);
    }
    for values in
        [of(|axis| axis.length), of(|axis| axis.output_stride), of(|axis| axis.input_stride)]
    {
        launch = pass_axes(launch, &values, wide);
    }
    let launch = pass_array(pass_array(launch, output), x);
    launch.enqueue(&[elements], &[config.work_group])
}

pub fn fold(op: &PadGradient, device: &OpenClDevice, g: &Array, output: &Array) -> Result<()> {
    let walk = op.space(g, output)?;
    let config = Config {
        fold: true,
        dtype: output.dtype(),
        wide: needs_wide_index(&walk.space),
        work_group: work_group(device),
    };
    let built = device.kernel(("pad", config.key()), "fold", || config.source())?;
    let elements = output.elements();
    let mut launch = device
        .launch(&built)
        .value(elements as u64)
        .value(walk.space.rank() as u32)
        .value(mode_code(op.mode));
    for value in [output.shape()[op.axis], op.before, op.after, walk.stride] {
        launch = launch.value(value as u64);
    }
    launch = pass_axes(launch, walk.space.dims(), config.wide);
    for operand in 0..3 {
        launch = pass_axes(launch, walk.space.strides(operand), config.wide);
    }
    let launch = pass_array(pass_array(launch, output), g);
    launch.enqueue(&[elements], &[config.work_group])
}

/// Moves of each size, sums of each type, and wide indices.
pub(crate) fn shipped_programs() -> Vec<ProgramSource> {
    let config = |fold, dtype, wide| Config { fold, dtype, wide, work_group: 256 };
    let moved = [DType::U8, DType::F16, DType::F32, DType::F64];
    let summed = [DType::F32, DType::F16, DType::BF16, DType::F64];
    let mut configs: Vec<Config> = moved.map(|dtype| config(false, dtype, false)).into();
    configs.extend(summed.map(|dtype| config(true, dtype, false)));
    configs.extend([config(false, DType::F32, true), config(true, DType::F32, true)]);
    configs.iter().map(Config::source).collect()
}
