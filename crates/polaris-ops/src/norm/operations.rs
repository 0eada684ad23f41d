//! The three operations: their arrays and checks.

use polaris_core::{Error as CoreError, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use super::opencl::Kernel;
use super::{NormKind, Part, cpu, cpu_columns, last_axis, op_name, opencl, reference};
use crate::operation::sum_dtype;
use crate::operation::{Operation, alias_is_harmless, check_apart, writes_each_element_once};
use crate::{Array, ArrayType, Class, Error, Result, Work};

/// Normalisation along the last axis. The arrays are x, then weight and bias as far as the problem
/// has them; the output has x's shape and type and may be x itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Norm {
    /// By what a row is normalised.
    pub kind: NormKind,
    /// Added to the variance, so that a row of equal elements has a result.
    pub epsilon: f64,
    /// Whether the normalised elements are multiplied by a weight.
    pub has_weight: bool,
    /// Whether a bias is added at the end.
    pub has_bias: bool,
}

/// The gradient of [`Norm`] with respect to x. The arrays are x, the gradient of the output, and
/// the weight if there is one; the output has x's shape and type and may be x or the gradient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormGradient {
    /// By what a row was normalised.
    pub kind: NormKind,
    /// What was added to the variance.
    pub epsilon: f64,
    /// Whether the normalised elements were multiplied by a weight.
    pub has_weight: bool,
}

/// The gradient of [`Norm`] with respect to its weight. The arrays are x and the gradient of the
/// output; the output is as long as the last axis, in `f64` for `f64` and in `f32` otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormWeightGradient {
    /// By what a row was normalised.
    pub kind: NormKind,
    /// What was added to the variance.
    pub epsilon: f64,
}

/// What must hold of every operation: the number of arrays, the type of x and the parameter.
/// Returns the length of the rows.
fn check_rows(op: &'static str, expected: usize, epsilon: f64, inputs: &[&Array]) -> Result<usize> {
    if inputs.len() != expected {
        return Err(Error::WrongArity { op, expected, found: inputs.len() });
    }
    let dtype = inputs[0].dtype();
    if !dtype.is_float() {
        return Err(CoreError::UnsupportedDType { op, dtype, hint: "cast to f32 first" }.into());
    }
    if !(epsilon >= 0.0 && epsilon.is_finite()) {
        let what = format!("epsilon is {epsilon}; it must be finite and not negative");
        return Err(Error::InvalidParameter { op, what });
    }
    last_axis(op, inputs[0].shape())
}

/// An array must have the type of x and this shape.
fn check_array(op: &'static str, x: &Array, array: &Array, shape: &Shape) -> Result<()> {
    if array.shape() != shape {
        return Err(CoreError::unequal_shapes(op, *array.shape(), *shape).into());
    }
    if array.dtype() != x.dtype() {
        return Err(CoreError::DTypeMismatch { op, lhs: array.dtype(), rhs: x.dtype() }.into());
    }
    Ok(())
}

/// What [`Norm`] and [`NormGradient`] share: `rows` arrays of x's shape, then those as long as a row.
fn check_elements(
    op: &'static str,
    length: usize,
    rows: usize,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let row = Shape::new(&[length])?;
    for (index, input) in inputs.iter().enumerate() {
        if index < rows {
            check_array(op, inputs[0], input, inputs[0].shape())?;
            if !alias_is_harmless(input, output) {
                return Err(Error::AliasedOutput { op });
            }
        } else {
            check_array(op, inputs[0], input, &row)?;
            check_apart(op, input, output)?;
        }
    }
    check_array(op, inputs[0], output, inputs[0].shape())?;
    writes_each_element_once(op, output)
}

/// The methods that are the same for all three.
macro_rules! common_methods {
    ($part:expr) => {
        fn name(&self) -> &'static str {
            op_name(self.kind, $part)
        }

        fn kernel_name(&self, kernel: Kernel, inputs: &[&Array], _: &Array) -> String {
            format!("{}_{}_{}", self.name(), inputs[0].dtype(), kernel.name())
        }

        fn supports(
            &self,
            kernel: Kernel,
            device: &OpenClDevice,
            inputs: &[&Array],
            output: &Array,
        ) -> bool {
            opencl::supports(&self.arrays(inputs, output), kernel, device)
        }

        fn preferred(
            &self,
            device: &OpenClDevice,
            inputs: &[&Array],
            output: &Array,
        ) -> Option<Kernel> {
            opencl::preferred(&self.arrays(inputs, output), device)
        }

        fn run_opencl(
            &self,
            device: &OpenClDevice,
            kernel: Kernel,
            inputs: &[&Array],
            output: &Array,
        ) -> Result<()> {
            opencl::run(&self.arrays(inputs, output), device, kernel)
        }
    };
}

/// The arrays of an operation by their meaning.
pub(super) struct Arrays<'a> {
    pub part: Part,
    pub kind: NormKind,
    pub epsilon: f64,
    pub x: &'a Array,
    pub g: Option<&'a Array>,
    pub weight: Option<&'a Array>,
    pub bias: Option<&'a Array>,
    pub output: &'a Array,
}

impl Norm {
    fn arrays<'a>(&self, inputs: &[&'a Array], output: &'a Array) -> Arrays<'a> {
        let mut rest = inputs[1..].iter().copied();
        let weight = if self.has_weight { rest.next() } else { None };
        let bias = if self.has_bias { rest.next() } else { None };
        let Self { kind, epsilon, .. } = *self;
        Arrays { part: Part::Output, kind, epsilon, x: inputs[0], g: None, weight, bias, output }
    }
}

impl NormGradient {
    fn arrays<'a>(&self, inputs: &[&'a Array], output: &'a Array) -> Arrays<'a> {
        let Self { kind, epsilon, .. } = *self;
        let (part, x, g) = (Part::Gradient, inputs[0], Some(inputs[1]));
        let weight = inputs.get(2).copied();
        Arrays { part, kind, epsilon, x, g, weight, bias: None, output }
    }
}

impl NormWeightGradient {
    fn arrays<'a>(&self, inputs: &[&'a Array], output: &'a Array) -> Arrays<'a> {
        let Self { kind, epsilon } = *self;
        let (part, x, g) = (Part::WeightGradient, inputs[0], Some(inputs[1]));
        Arrays { part, kind, epsilon, x, g, weight: None, bias: None, output }
    }
}

impl Operation for Norm {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Group, Kernel::Serial];

    common_methods!(Part::Output);

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        let expected = 1 + usize::from(self.has_weight) + usize::from(self.has_bias);
        let length = check_rows(op, expected, self.epsilon, inputs)?;
        check_elements(op, length, 1, inputs, output)
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        cpu::run(&self.arrays(inputs, output), cpu, inputs)
    }

    fn class(&self) -> Class {
        Class::Reduction
    }

    /// Two moments, and what is done with them.
    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        Work::per_input(6, inputs, output)
    }

    fn reference(&self, inputs: &[Vec<f64>], arrays: &[&Array], _: &Array) -> Vec<f64> {
        let length = arrays[0].shape().last().copied().unwrap_or(1);
        let weight = self.has_weight.then(|| &inputs[1][..]);
        let bias = self.has_bias.then(|| &inputs[1 + usize::from(self.has_weight)][..]);
        reference::norm(self.kind, self.epsilon, &inputs[0], length, weight, bias)
    }
}

impl Operation for NormGradient {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Group, Kernel::Serial];

    common_methods!(Part::Gradient);

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        let length = check_rows(op, 2 + usize::from(self.has_weight), self.epsilon, inputs)?;
        check_elements(op, length, 2, inputs, output)
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        cpu::run(&self.arrays(inputs, output), cpu, inputs)
    }

    fn reference(&self, inputs: &[Vec<f64>], arrays: &[&Array], _: &Array) -> Vec<f64> {
        let length = arrays[0].shape().last().copied().unwrap_or(1);
        let weight = inputs.get(2).map(|weight| &weight[..]);
        reference::gradient(self.kind, self.epsilon, &inputs[0], &inputs[1], length, weight)
    }
}

impl Operation for NormWeightGradient {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Columns, Kernel::Serial];

    common_methods!(Part::WeightGradient);

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        let length = check_rows(op, 2, self.epsilon, inputs)?;
        check_array(op, inputs[0], inputs[1], inputs[0].shape())?;
        let (found, expected) = (*output.shape(), Shape::new(&[length])?);
        if found != expected {
            return Err(CoreError::unequal_shapes(op, found, expected).into());
        }
        let expected = sum_dtype(inputs[0].dtype());
        if output.dtype() != expected {
            return Err(CoreError::DTypeMismatch { op, lhs: output.dtype(), rhs: expected }.into());
        }
        writes_each_element_once(op, output)?;
        inputs.iter().try_for_each(|input| check_apart(op, input, output))
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        cpu_columns::run(&self.arrays(inputs, output), cpu, inputs)
    }

    fn reference(&self, inputs: &[Vec<f64>], arrays: &[&Array], _: &Array) -> Vec<f64> {
        let length = arrays[0].shape().last().copied().unwrap_or(1);
        reference::weight_gradient(self.kind, self.epsilon, &inputs[0], &inputs[1], length)
    }
}
