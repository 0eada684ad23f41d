//! Quantisation on OpenCL devices.

use polaris_core::{Collapsed, DType};
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::{Limits, Requantize, Scale};
use crate::opencl::{
    ELEMENT, Enqueue, dtype_code, needs_wide_index, pass_array, pass_axes, work_group,
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

const PARTS: &[&str] = &[ELEMENT, include_str!("quantize.cl")];

/// What one program is specialised for.
#[derive(Debug, Clone, Copy)]
struct Config {
    /// What is computed, as the source numbers it.
    rule: u64,
    from: DType,
    to: DType,
    wide: bool,
    work_group: usize,
}

impl Config {
    fn key(&self) -> u64 {
        let types = dtype_code(self.from) << 8 | dtype_code(self.to);
        ((types << 8 | self.rule << 1 | u64::from(self.wide)) << 16) | self.work_group as u64
    }

    fn source(&self) -> ProgramSource {
        let defines = Defines::new()
            .code("FROM", self.from.name())
            .code("TO", self.to.name())
            .number("RULE", self.rule as i64)
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("WORK_GROUP", self.work_group as i64);
        let wide = if self.wide { "_wide" } else { "" };
        let name = format!("quantize.cl {}_to_{}_{}{wide}", self.from, self.to, self.rule);
        ProgramSource { name, parts: PARTS, defines, options: "" }
    }
}

/// What results are divided by, if anything.
fn divisor(op: &Requantize) -> Option<Scale> {
    match op {
        Requantize::Quantize(scale) | Requantize::Add { output: scale, .. } => Some(*scale),
        Requantize::Dequantize(_) => None,
    }
}

/// Kernels divide by way of the inverse, which must be a number of full precision.
pub fn supports(op: &Requantize) -> bool {
    divisor(op).is_none_or(|scale| (1e-12..1e12).contains(&scale.scale))
}

pub fn run(
    op: &Requantize,
    device: &OpenClDevice,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let second = inputs.last().copied().unwrap_or(output);
    let layouts = [output.layout(), inputs[0].layout(), second.layout()];
    let space = Collapsed::new(output.shape(), layouts);
    let rule = match op {
        Requantize::Quantize(_) => 0,
        Requantize::Dequantize(_) => 1,
        Requantize::Add { .. } => 2,
    };
    let config = Config {
        rule,
        from: inputs[0].dtype(),
        to: output.dtype(),
        wide: needs_wide_index(&space),
        work_group: work_group(device),
    };
    let built = device.kernel(("quantize", config.key()), "quantize", || config.source())?;
    let one = Scale { scale: 1.0, zero: 0 };
    let [a, b] = match op {
        Requantize::Quantize(_) => [one; 2],
        Requantize::Dequantize(scale) => [*scale, one],
        Requantize::Add { inputs, .. } => *inputs,
    };
    let (to, relu) = (divisor(op).unwrap_or(one), matches!(op, Requantize::Add { relu: true, .. }));
    let limits = Limits::new((output.dtype(), to.zero), relu);
    let [low, high] = limits.map_or([0.0; 2], |limits| limits.distances());
    let elements = output.elements();
    let mut launch = device.launch(&built).value(elements as u64).value(space.rank() as u32);
    launch = pass_axes(launch, space.dims(), config.wide);
    for operand in 0..3 {
        launch = pass_axes(launch, space.strides(operand), config.wide);
    }
    for scale in [a, b, to] {
        launch = launch.value(scale.scale).value(scale.zero);
    }
    launch = launch.value(to.scale.recip()).value(low).value(high);
    launch = pass_array(pass_array(launch, output), inputs[0]);
    pass_array(launch, second).enqueue(&[elements], &[config.work_group])
}

/// Each rule for both types of bytes.
pub(super) fn shipped_programs() -> Vec<ProgramSource> {
    let config = |rule, from, to| Config { rule, from, to, wide: false, work_group: 256 };
    let of = |byte| {
        let rules = [(0, DType::F32, byte), (1, byte, DType::F32), (2, byte, byte)];
        rules.map(|(rule, from, to)| config(rule, from, to).source())
    };
    [DType::U8, DType::I8].into_iter().flat_map(of).collect()
}
