//! Quantisation: conversions between floats and int8, and quantised additions.

mod bytes;
mod loops;
mod opencl;
mod suite;
#[cfg(test)]
mod tests;

use polaris_core::{Collapsed, DType, Error as CoreError};
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

pub(crate) use bytes::{Bounds, Limits, flip};
pub use opencl::Kernel;
pub(crate) use suite::FAMILY;

use crate::cpu::map::SendPointer;
use crate::operation::{Operation, alias_is_harmless, writes_each_element_once};
use crate::{Array, Error, Result};
use loops::{Bytes, Quantizer};

const OP: &str = "quantize";

/// Fewer elements than this are not worth a second thread.
const GRAIN: usize = 32 * 1024;

/// How bytes stand for numbers: `(byte - zero) * scale`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// The number that one step stands for.
    pub scale: f32,
    /// The byte that stands for zero.
    pub zero: i32,
}

/// A elementwise function that takes or gives bytes, `u8` or `i8`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Requantize {
    /// The bytes that stand for numbers of `f32`: `saturate(round(x / scale) + zero)`, ties to even.
    Quantize(Scale),
    /// The numbers of `f32` that bytes stand for.
    Dequantize(Scale),
    /// The bytes that stand for the sum of two arrays of bytes.
    Add {
        /// Of the operands.
        inputs: [Scale; 2],
        /// Of the result.
        output: Scale,
        /// Whether negative sums become zero.
        relu: bool,
    },
}

impl Operation for Requantize {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Strided];

    fn name(&self) -> &'static str {
        match self {
            Self::Quantize(_) => "quantize",
            Self::Dequantize(_) => "dequantize",
            Self::Add { .. } => "quantized_add",
        }
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        self.check_arrays(inputs, output)
    }

    fn supports(&self, _: Kernel, _: &OpenClDevice, _: &[&Array], _: &Array) -> bool {
        opencl::supports(self)
    }

    fn kernel_name(&self, kernel: Kernel, inputs: &[&Array], output: &Array) -> String {
        let dtype =
            if matches!(self, Self::Quantize(_)) { output.dtype() } else { inputs[0].dtype() };
        format!("{}_{dtype}_{}", self.name(), kernel.name())
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        let second = inputs.last().copied().unwrap_or(output);
        let layouts = [output.layout(), inputs[0].layout(), second.layout()];
        let space = Collapsed::new(output.shape(), layouts);
        let buffers: Vec<_> = inputs.iter().map(|input| input.buffer()).collect();
        let operands = HostOperands::new(OP, &buffers, output.buffer())?;
        let starts = [
            SendPointer(operands.output()),
            SendPointer(operands.input(0).cast_mut()),
            SendPointer(operands.input(inputs.len() - 1).cast_mut()),
        ];
        let sizes = [output, inputs[0], second].map(|array| array.dtype().size());
        let (length, strides) = space.inner();
        let rows = space.elements() / length;
        let pieces = length.div_ceil(GRAIN);
        let work = |item: usize| {
            let at = space.row(item / pieces);
            let first = item % pieces * GRAIN;
            let count = GRAIN.min(length - first);
            let start: [*mut u8; 3] = std::array::from_fn(|operand| {
                let element = at[operand] + first * strides[operand];
                starts[operand].get().wrapping_add(element * sizes[operand])
            });
            let row = Row { start, strides, count };
            self.row(cpu.simd(), inputs, output, &row);
        };
        let grain = (GRAIN / length).max(1);
        cpu.pool().for_chunks(rows * pieces, grain, |chunk| chunk.for_each(work));
        Ok(())
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        _: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        opencl::run(self, device, inputs, output)
    }

    fn works_in_place(&self) -> bool {
        true
    }

    fn reference(&self, values: &[Vec<f64>], _: &[&Array], output: &Array) -> Vec<f64> {
        // In `f32`, as ONNX defines it: what `f64` would make of ties is another byte.
        let float = |scale: &Scale, byte: f64| (byte as f32 - scale.zero as f32) * scale.scale;
        let byte = |scale: &Scale, relu: bool, value: f32| {
            let limits = Limits::new((output.dtype(), scale.zero), relu);
            let limits = limits.expect("the zero point should have been checked");
            f64::from(limits.whole(value / scale.scale))
        };
        match self {
            Self::Quantize(scale) => {
                values[0].iter().map(|&x| byte(scale, false, x as f32)).collect()
            }
            Self::Dequantize(scale) => {
                values[0].iter().map(|&x| f64::from(float(scale, x))).collect()
            }
            Self::Add { inputs: [a, b], output: scale, relu } => (values[0].iter().zip(&values[1]))
                .map(|(&x, &y)| byte(scale, *relu, float(a, x) + float(b, y)))
                .collect(),
        }
    }
}

impl Requantize {
    /// Computes a row, whose memory is registered and this thread's alone.
    fn row(
        &self,
        level: polaris_runtime::cpu::SimdLevel,
        inputs: &[&Array],
        output: &Array,
        row: &Row,
    ) {
        let bytes = |operand: usize, scale: &Scale| Bytes {
            flip: flip(inputs[operand].dtype()),
            zero: (scale.zero + i32::from(flip(inputs[operand].dtype()))) as f32,
            scale: scale.scale,
        };
        match self {
            Self::Quantize(scale) => {
                if let Some(to) = Quantizer::new(output.dtype(), scale, false) {
                    loops::quantize(level, row, &to);
                }
            }
            Self::Dequantize(scale) => loops::dequantize(level, row, &bytes(0, scale)),
            Self::Add { inputs: scales, output: scale, relu } => {
                if let Some(to) = Quantizer::new(output.dtype(), scale, *relu) {
                    let [a, b] = scales;
                    loops::add(level, row, &[bytes(0, a), bytes(1, b)], &to);
                }
            }
        }
    }

    fn check_arrays(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let expected = if matches!(self, Self::Add { .. }) { 2 } else { 1 };
        if inputs.len() != expected {
            return Err(Error::WrongArity { op: OP, expected, found: inputs.len() });
        }
        let check = |array: &Array, bytes: bool| -> Result<()> {
            let fits = match array.dtype() {
                DType::U8 | DType::I8 => bytes,
                DType::F32 => !bytes,
                _ => false,
            };
            let (dtype, hint) = (array.dtype(), "bytes stand for numbers of f32");
            if fits {
                Ok(())
            } else {
                Err(CoreError::UnsupportedDType { op: OP, dtype, hint }.into())
            }
        };
        for input in inputs {
            check(input, !matches!(self, Self::Quantize(_)))?;
            if input.shape() != output.shape() {
                let (lhs, rhs) = (*input.shape(), *output.shape());
                return Err(CoreError::unequal_shapes(OP, lhs, rhs).into());
            }
            if !alias_is_harmless(input, output) {
                return Err(Error::AliasedOutput { op: OP });
            }
        }
        check(output, !matches!(self, Self::Dequantize(_)))?;
        let made = match self {
            Self::Quantize(scale) | Self::Add { output: scale, .. } => Some(scale),
            Self::Dequantize(_) => None,
        };
        if let Some(scale) =
            made.filter(|scale| Quantizer::new(output.dtype(), scale, false).is_none())
        {
            let what =
                format!("the zero point {} is out of range for {}", scale.zero, output.dtype());
            return Err(Error::InvalidParameter { op: OP, what });
        }
        writes_each_element_once(OP, output)
    }
}

/// A row of the result and of the operands; strides are in elements.
pub(crate) struct Row {
    start: [*mut u8; 3],
    strides: [usize; 3],
    count: usize,
}

impl Row {
    fn is_dense(&self) -> bool {
        self.strides == [1; 3]
    }
}
