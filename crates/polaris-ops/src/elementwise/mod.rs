//! Functions of one, two or three arrays, element by element, with NumPy's broadcasting.

mod cpu;
pub(crate) mod cpu_functions;
mod function;
mod opencl;
pub(crate) mod reference;
mod suite;

pub(crate) use cpu_functions::same;
pub use function::{Binary, Function, Ternary, Unary};
pub use opencl::Kernel;
pub(crate) use opencl::{
    float_expression as opencl_float_expression, shipped_programs,
    unary_expression as opencl_expression, vector_layout,
};
pub(crate) use suite::FAMILY;

use polaris_core::{DType, Error as CoreError, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use crate::operation::{Operation, alias_is_harmless, run, writes_each_element_once};
use crate::{Array, Error, Result};

/// A function applied to each element. Inputs broadcast to the output's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elementwise {
    /// The function.
    pub function: Function,
}

/// `f(x)` for each element.
///
/// # Errors
/// If the function is not defined for the type, or there is no room for the result.
pub fn unary(function: Unary, x: &Array) -> Result<Array> {
    apply(function.into(), &[x])
}

/// `f(a, b)` for each pair of elements.
///
/// # Errors
/// If shapes or types do not fit, or there is no room for the result.
pub fn binary(function: Binary, a: &Array, b: &Array) -> Result<Array> {
    apply(function.into(), &[a, b])
}

/// `f(a, b, c)` for each triple of elements.
///
/// # Errors
/// If shapes or types do not fit, or there is no room for the result.
pub fn ternary(function: Ternary, a: &Array, b: &Array, c: &Array) -> Result<Array> {
    apply(function.into(), &[a, b, c])
}

fn apply(function: Function, inputs: &[&Array]) -> Result<Array> {
    let op = Elementwise { function };
    let mut shape = Shape::SCALAR;
    for input in inputs {
        shape = Shape::broadcast(function.name(), &shape, input.shape())?;
    }
    let operand = inputs.last().expect("an elementwise function should have an input");
    let output = Array::empty(operand.device(), function.output_dtype(operand.dtype()), shape)?;
    run(&op, inputs, &output)?;
    Ok(output)
}

impl Operation for Elementwise {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Vector, Kernel::Strided];

    fn name(&self) -> &'static str {
        self.function.name()
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        if inputs.len() != self.function.arity() {
            let (expected, found) = (self.function.arity(), inputs.len());
            return Err(Error::WrongArity { op, expected, found });
        }
        let dtype = inputs[inputs.len() - 1].dtype();
        for (index, input) in inputs.iter().enumerate() {
            input.layout().broadcast_to(op, output.shape())?;
            let expected = self.function.input_dtype(index, dtype);
            if input.dtype() != expected {
                return Err(
                    CoreError::DTypeMismatch { op, lhs: input.dtype(), rhs: expected }.into()
                );
            }
            if !alias_is_harmless(input, output) {
                return Err(Error::AliasedOutput { op });
            }
        }
        if !self.function.is_defined_for(dtype) {
            let hint = if dtype.is_float() { "cast to bool first" } else { "cast to f32 first" };
            return Err(CoreError::UnsupportedDType { op, dtype, hint }.into());
        }
        let expected = self.function.output_dtype(dtype);
        if output.dtype() != expected {
            return Err(CoreError::DTypeMismatch { op, lhs: output.dtype(), rhs: expected }.into());
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

    fn kernel_name(&self, kernel: Kernel, inputs: &[&Array], _output: &Array) -> String {
        let dtype = inputs.last().map_or(DType::F32, |input| input.dtype());
        format!("{}_{dtype}_{}", self.name(), kernel.name())
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        cpu::run(self.function, cpu, inputs, output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        kernel: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        opencl::run(self.function, device, kernel, inputs, output)
    }

    fn works_in_place(&self) -> bool {
        true
    }

    fn reference(&self, inputs: &[Vec<f64>], arrays: &[&Array], output: &Array) -> Vec<f64> {
        reference::elementwise(self.function, inputs, arrays, output)
    }
}
