//! Random numbers on OpenCL devices.

use polaris_core::DType;
use polaris_runtime::Device;
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::philox::{FAR, LOG2, MIDDLE, NEAR};
use super::{Distribution, Random};
use crate::opencl::{ELEMENT, Enqueue, dtype_code, pass_array, work_group};
use crate::{Array, Result, copy};

/// The ways to make random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Straight into a dense array.
    Dense,
    /// Into a dense array first, which is then copied.
    Scattered,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Scattered => "scattered",
        }
    }
}

const PARTS: &[&str] = &[ELEMENT, include_str!("random.cl")];

#[derive(Debug, Clone, Copy)]
struct Config {
    dtype: DType,
    distribution: i64,
    work_group: usize,
}

impl Config {
    fn new(op: &Random, dtype: DType, work_group: usize) -> Self {
        let distribution = match op.distribution {
            Distribution::Bits => 0,
            Distribution::Uniform { .. } => 1,
            Distribution::Normal { .. } => 2,
        };
        Self { dtype, distribution, work_group }
    }

    fn key(&self) -> u64 {
        (dtype_code(self.dtype) << 8 | self.distribution as u64) << 16 | self.work_group as u64
    }

    fn source(&self) -> ProgramSource {
        // Horner's scheme as text. The coefficients are bit patterns: a decimal number may be read
        // differently by another compiler.
        let horner = |coefficients: &[f32; 9]| {
            let number = |c: f32| format!("as_float({:#010x}u)", c.to_bits());
            let highest = number(coefficients[8]);
            let lower = coefficients[..8].iter().rev();
            lower.fold(highest, |sum, &c| format!("({sum} * (x) + {})", number(c)))
        };
        let defines = Defines::new()
            .code("OUT", self.dtype.name())
            .number("DISTRIBUTION", self.distribution)
            .number("WIDE", self.dtype.size() == 8 && self.distribution != 2)
            .number("IS_BOOL", self.dtype == DType::Bool)
            .code("R", if self.dtype == DType::F64 { "double" } else { "float" })
            .code("LOG2(x)", horner(&LOG2))
            .code("NEAR(x)", horner(&NEAR))
            .code("MIDDLE(x)", horner(&MIDDLE))
            .code("FAR(x)", horner(&FAR))
            .number("WORK_GROUP", self.work_group as i64);
        let name = format!(
            "random.cl {}_{}",
            ["bits", "uniform", "normal"][self.distribution as usize],
            self.dtype
        );
        ProgramSource { name, parts: PARTS, defines, options: "" }
    }
}

pub fn supports(kernel: Kernel, device: &OpenClDevice, output: &Array) -> bool {
    device.capabilities().supports(output.dtype())
        && output.layout().is_contiguous() == (kernel == Kernel::Dense)
}

pub fn run(op: &Random, device: &OpenClDevice, kernel: Kernel, output: &Array) -> Result<()> {
    if kernel == Kernel::Scattered {
        let dense = Array::empty(output.device(), output.dtype(), *output.shape())?;
        run(op, device, Kernel::Dense, &dense)?;
        return copy::into(&dense, output);
    }
    let config = Config::new(op, output.dtype(), work_group(device));
    let built = device.kernel(("random", config.key()), "random_dense", || config.source())?;
    let elements = output.elements();
    let (low, range) = match op.distribution {
        Distribution::Bits => (0.0, 0.0),
        Distribution::Uniform { low, high } => (low, high - low),
        Distribution::Normal { mean, deviation } => (mean, deviation),
    };
    let launch = device.launch(&built).value(elements as u64).value(op.seed).value(op.offset);
    let launch = match output.dtype() {
        DType::F64 => launch.value(low).value(range),
        _ => launch.value(low as f32).value(range as f32),
    };
    pass_array(launch, output).enqueue(&[elements.div_ceil(4)], &[config.work_group])
}

pub(crate) fn shipped_programs() -> Vec<ProgramSource> {
    let config = |dtype, distribution| Config { dtype, distribution, work_group: 256 };
    let floats = [DType::F32, DType::F64, DType::F16, DType::BF16];
    let whole = [DType::I8, DType::U8, DType::I32, DType::I64, DType::Bool];
    let floats = floats.into_iter().flat_map(|dtype| [config(dtype, 1), config(dtype, 2)]);
    floats
        .chain(whole.into_iter().map(|dtype| config(dtype, 0)))
        .map(|config| config.source())
        .collect()
}
