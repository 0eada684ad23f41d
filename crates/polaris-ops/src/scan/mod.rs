//! Running sums along an axis. The result is the same run after run: elements are added in an order
//! that depends on the sizes alone, not on threads or timing.

mod cpu;
mod opencl;
mod suite;

pub use opencl::Kernel;
pub(crate) use opencl::shipped_programs;
pub(crate) use suite::FAMILY;

use polaris_core::Error as CoreError;
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use crate::lanes::Lanes;
use crate::operation::{Operation, run, writes_each_element_once};
use crate::{Array, ArrayType, Class, Error, Result, Work};

/// The running sum along an axis, of one input of the output's shape and type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CumSum {
    /// The axis.
    pub axis: usize,
    /// Whether it runs from the end.
    pub reverse: bool,
}

/// The running sum along an axis: each result is the sum of all elements up to its own, or from its
/// own on if `reverse` is set. Each of the two is the other's gradient. Half precisions are summed in
/// `f32` or wider.
///
/// # Errors
/// If the axis does not exist, the type is not a floating-point one, or there is no room for the
/// result.
pub fn cumsum(x: &Array, axis: usize, reverse: bool) -> Result<Array> {
    let output = Array::empty(x.device(), x.dtype(), *x.shape())?;
    run(&CumSum { axis, reverse }, &[x], &output)?;
    Ok(output)
}

impl CumSum {
    fn lanes(&self, x: &Array, output: &Array) -> Result<Lanes<2>> {
        Lanes::new(output.shape(), self.axis, [output.layout(), x.layout()])
    }
}

impl Operation for CumSum {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] =
        &[Kernel::Columns, Kernel::Segments, Kernel::Group, Kernel::Serial];

    fn name(&self) -> &'static str {
        "cumsum"
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        let [x] = inputs else {
            return Err(Error::WrongArity { op, expected: 1, found: inputs.len() });
        };
        if x.shape() != output.shape() {
            let (lhs, rhs) = (*x.shape(), *output.shape());
            return Err(CoreError::unequal_shapes(op, lhs, rhs).into());
        }
        let (lhs, rhs) = (x.dtype(), output.dtype());
        if !lhs.is_float() {
            let hint = "cast to f32 first";
            return Err(CoreError::UnsupportedDType { op, dtype: lhs, hint }.into());
        }
        if lhs != rhs {
            return Err(CoreError::DTypeMismatch { op, lhs, rhs }.into());
        }
        output.shape().axis_mask(op, &[self.axis])?;
        writes_each_element_once(op, output)?;
        if x.overlaps(output) {
            return Err(Error::AliasedOutput { op });
        }
        Ok(())
    }

    fn supports(
        &self,
        kernel: Kernel,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> bool {
        opencl::supports(self, kernel, device, inputs[0], output)
    }

    fn kernel_name(&self, kernel: Kernel, _: &[&Array], output: &Array) -> String {
        format!("{}_{}_{}", self.name(), output.dtype(), kernel.name())
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        cpu::run(self, cpu, inputs[0], output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        kernel: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        opencl::run(self, device, kernel, inputs[0], output)
    }

    /// By the definition: one by one.
    fn class(&self) -> Class {
        Class::Reduction
    }

    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        Work::per_input(1, inputs, output)
    }

    fn reference(&self, inputs: &[Vec<f64>], _: &[&Array], output: &Array) -> Vec<f64> {
        let shape = output.shape();
        let (length, inner) = (shape[self.axis], shape[self.axis + 1..].iter().product::<usize>());
        let mut results = inputs[0].clone();
        for step in 1..length {
            for lane in 0..results.len() / length {
                let start = lane / inner * length * inner + lane % inner;
                let at = |step: usize| {
                    let index = if self.reverse { length - 1 - step } else { step };
                    start + index * inner
                };
                results[at(step)] += results[at(step - 1)];
            }
        }
        results
    }
}
