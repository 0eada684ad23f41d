//! Between numbers and the bytes that stand for them, and sums of bytes, on the CPU.
//!
//! OpenCL devices have the same as expressions and conversions of types.

mod bytes;
mod loops;
#[cfg(test)]
mod tests;

use polaris_core::{Collapsed, DType, Error as CoreError};
use polaris_runtime::HostOperands;

pub(crate) use bytes::{Limits, flip};

use crate::cpu::map::SendPointer;
use crate::operation::{alias_is_harmless, writes_each_element_once};
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

/// A function of single elements that takes or gives bytes, `u8` or `i8`.
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

impl Requantize {
    /// Its name in plans.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Quantize(_) => "quantize",
            Self::Dequantize(_) => "dequantize",
            Self::Add { .. } => "add_bytes",
        }
    }

    /// Computes. Operands have the shape of the result.
    ///
    /// # Errors
    /// If the arrays do not fit together, or are not on the CPU.
    pub fn run(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        self.check(inputs, output)?;
        let Some(cpu) = output.device().as_cpu() else {
            let device = output.device().id();
            return Err(polaris_runtime::Error::NotHostMemory { device }.into());
        };
        if output.elements() == 0 {
            return Ok(());
        }
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

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
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
            let what = format!("zero is the byte {}, which {} has not", scale.zero, output.dtype());
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
