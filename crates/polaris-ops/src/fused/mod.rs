//! Chains of elementwise functions in one kernel: `gelu(a * x + b)`, the gradient of an activation
//! or the step of an optimiser reads its inputs once and writes its result once, instead of one launch and one pass
//! over memory for each function.
//!
//! ```
//! use polaris_ops::fused::{Builder, evaluate_into};
//! use polaris_ops::Array;
//! use polaris_runtime::{Runtime, RuntimeOptions};
//!
//! // One step of gradient descent, over the weights themselves.
//! let build = Builder::new(2);
//! let [weight, gradient] = build.inputs();
//! let rate = build.scalar(0.5);
//! let mut step = build.finish(weight - rate * gradient)?;
//!
//! let runtime = Runtime::discover(&RuntimeOptions::default())?;
//! let w = Array::from_slice(runtime.cpu(), &[2], &[1.0f32, 2.0])?;
//! let g = Array::from_slice(runtime.cpu(), &[2], &[4.0f32, -2.0])?;
//! evaluate_into(&step, &[&w, &g], &w)?;
//! assert_eq!(w.to_vec::<f32>()?, [-1.0, 3.0]);
//! // Another rate is no other program.
//! step.scalars_mut()[0] = 0.25;
//! evaluate_into(&step, &[&w, &g], &w)?;
//! assert_eq!(w.to_vec::<f32>()?, [-2.0, 3.5]);
//! # Ok::<(), polaris_ops::Error>(())
//! ```

mod builder;
mod cpu;
mod cpu_blocks;
mod expression;
mod gradient;
mod opencl;
mod reference;
mod schedule;
mod suite;
#[cfg(test)]
mod tests;

pub use builder::{Builder, Operand, Value};
pub use expression::{Expression, MAX_INPUTS, MAX_NODES, MAX_SCALARS, Node};
pub use opencl::Kernel;
pub(crate) use opencl::shipped_programs;
pub(crate) use suite::FAMILY;

use polaris_core::{DType, Error as CoreError, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use crate::cpu::blocks::Compute;
use crate::operation::{Operation, alias_is_harmless, run, writes_each_element_once};
use crate::{Array, ArrayType, Error, Result, Work};

const NAME: &str = "fused";

/// The value of an expression for each element of its inputs, which broadcast to one shape. The
/// result has the type of the first input that is not `bool`, and is `bool` for a comparison.
///
/// Inputs are `f32`, `f16`, `bf16` and `bool` in any mixture, computed in `f32`; or `f64` and `bool`, computed in
/// `f64`. A bool is 1 or 0, and whatever is not 0 counts as true.
///
/// # Errors
/// If number, shapes or types of the inputs do not fit, or there is no room for the result.
pub fn evaluate(expression: &Expression, inputs: &[&Array]) -> Result<Array> {
    let Some(first) = inputs.first() else {
        return Err(Error::WrongArity { op: NAME, expected: expression.inputs(), found: 0 });
    };
    let mut shape = Shape::SCALAR;
    for input in inputs {
        shape = Shape::broadcast(NAME, &shape, input.shape())?;
    }
    let output = Array::empty(first.device(), expression.output_dtype(inputs), shape)?;
    run(expression, inputs, &output)?;
    Ok(output)
}

/// [`evaluate`] into an array that is there, of `bool` or any type that is computed as the inputs
/// are. It may be an input itself, of the same layout.
///
/// # Errors
/// As for [`evaluate`]; `AliasedOutput` if the output overlaps an input in another way.
pub fn evaluate_into(expression: &Expression, inputs: &[&Array], output: &Array) -> Result<()> {
    run(expression, inputs, output)
}

/// The type in which an expression of these arrays is computed.
fn compute(inputs: &[&Array], output: &Array) -> Compute {
    let mut dtypes = inputs.iter().map(|input| input.dtype()).chain([output.dtype()]);
    if dtypes.any(|dtype| dtype == DType::F64) { Compute::F64 } else { Compute::F32 }
}

impl Operation for Expression {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Vector, Kernel::Strided];

    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = NAME;
        let (expected, found) = (self.inputs(), inputs.len());
        if expected != found {
            return Err(Error::WrongArity { op, expected, found });
        }
        let computed = compute(inputs, output);
        for array in inputs.iter().copied().chain([output]) {
            let dtype = array.dtype();
            if !dtype.is_float() && dtype != DType::Bool {
                let hint = "cast to f32 first";
                return Err(CoreError::UnsupportedDType { op, dtype, hint }.into());
            }
            if dtype.is_float() && Compute::of(dtype) != computed {
                return Err(CoreError::DTypeMismatch { op, lhs: dtype, rhs: DType::F64 }.into());
            }
        }
        for input in inputs {
            input.layout().broadcast_to(op, output.shape())?;
            if !alias_is_harmless(input, output) {
                return Err(Error::AliasedOutput { op });
            }
        }
        writes_each_element_once(op, output)
    }

    fn supports(
        &self,
        kernel: Kernel,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> bool {
        opencl::supports(kernel, device, inputs, output)
    }

    fn kernel_name(&self, kernel: Kernel, inputs: &[&Array], output: &Array) -> String {
        let dtype = inputs.last().unwrap_or(&output).dtype();
        format!("{NAME}_{:016x}_{dtype}_{}", self.fingerprint().0, kernel.name())
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        match compute(inputs, output) {
            Compute::F64 => cpu::run::<f64>(self, cpu, inputs, output),
            _ => cpu::run::<f32>(self, cpu, inputs, output),
        }
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        kernel: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        opencl::run(self, device, kernel, inputs, output)
    }

    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        let functions = self.nodes().iter().filter(|node| !node.arguments().is_empty());
        Work::per_result(functions.count().max(1) as u64, inputs, output)
    }

    fn works_in_place(&self) -> bool {
        true
    }

    fn reference(&self, inputs: &[Vec<f64>], arrays: &[&Array], output: &Array) -> Vec<f64> {
        reference::evaluate(self, inputs, arrays, output)
    }
}
