//! Padding and flipping as an operation: every element of the output is one of the input, or the
//! constant.

use polaris_core::{DType, Element, Error as CoreError, MAX_RANK, bf16, f16};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use super::opencl::{self, Kernel};
use super::{PadMode, Widths, cpu, padded, reference};
use crate::operation::{Operation, writes_each_element_once};
use crate::{Array, ArrayType, Class, Error, Result, Work};

/// Which element of the input each one of the output is. The types are the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Remap {
    /// Elements are added before and after each axis.
    Pad {
        /// How many, for each axis.
        widths: [(usize, usize); MAX_RANK],
        /// What they are.
        mode: PadMode,
    },
    /// Some axes are turned around.
    Flip {
        /// Which ones.
        axes: [bool; MAX_RANK],
    },
}

impl Remap {
    pub(super) fn widths(&self) -> Widths {
        match *self {
            Self::Pad { widths, .. } => widths,
            Self::Flip { .. } => [(0, 0); MAX_RANK],
        }
    }

    pub(super) fn before(&self, axis: usize) -> usize {
        self.widths()[axis].0
    }

    pub(super) fn is_flipped(&self, axis: usize) -> bool {
        matches!(self, Self::Flip { axes } if axes[axis])
    }

    pub(super) fn mode(&self) -> PadMode {
        match *self {
            Self::Pad { mode, .. } => mode,
            Self::Flip { .. } => PadMode::Constant(0.0),
        }
    }

    /// The constant in the lowest bits, as the type stores it.
    pub(super) fn constant_bits(&self, dtype: DType) -> u64 {
        let PadMode::Constant(value) = self.mode() else {
            return 0;
        };
        match dtype {
            DType::F32 => (value as f32).to_bits().into(),
            DType::F64 => value.to_bits(),
            DType::F16 => <f16 as Element>::from_f64(value).to_bits().into(),
            DType::BF16 => <bf16 as Element>::from_f64(value).to_bits().into(),
            DType::I8 => value as i8 as u64,
            DType::U8 => value as u8 as u64,
            DType::I32 => value as i32 as u64,
            DType::I64 => value as i64 as u64,
            DType::Bool => u64::from(value != 0.0),
        }
    }
}

impl Operation for Remap {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Strided];

    fn name(&self) -> &'static str {
        match self {
            Self::Pad { .. } => "pad",
            Self::Flip { .. } => "flip",
        }
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        let [x] = inputs else {
            return Err(Error::WrongArity { op, expected: 1, found: inputs.len() });
        };
        let (_, expected) = padded(op, x.shape(), &self.widths()[..x.shape().rank()], self.mode())?;
        if *output.shape() != expected {
            return Err(CoreError::unequal_shapes(op, *output.shape(), expected).into());
        }
        if output.dtype() != x.dtype() {
            let (lhs, rhs) = (output.dtype(), x.dtype());
            return Err(CoreError::DTypeMismatch { op, lhs, rhs }.into());
        }
        writes_each_element_once(op, output)?;
        if x.overlaps(output) {
            return Err(Error::AliasedOutput { op });
        }
        Ok(())
    }

    fn supports(&self, _: Kernel, _: &OpenClDevice, _: &[&Array], _: &Array) -> bool {
        opencl::supports(self)
    }

    fn kernel_name(&self, kernel: Kernel, _: &[&Array], output: &Array) -> String {
        format!("{}_{}_{}", self.name(), output.dtype(), kernel.name())
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        cpu::remap(self, cpu, inputs[0], output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        _: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        opencl::remap(self, device, inputs[0], output)
    }

    fn class(&self) -> Class {
        Class::Movement
    }

    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        Work::new(0, inputs, output)
    }

    fn reference(&self, inputs: &[Vec<f64>], arrays: &[&Array], output: &Array) -> Vec<f64> {
        reference::remap(self, &inputs[0], arrays[0].shape(), output)
    }
}
