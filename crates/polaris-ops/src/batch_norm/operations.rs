//! The four operations: their arrays and checks.

use polaris_core::{DType, Error as CoreError, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use super::opencl::Kernel;
use super::{channel_axis, cpu, cpu_channels, opencl, reference};
use crate::operation::sum_dtype;
use crate::operation::{Operation, alias_is_harmless, check_apart, writes_each_element_once};
use crate::{Array, ArrayType, Error, Result, Work};

/// The mean and the variance of each channel of one array; the output is `[2, C]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchStatistics;

/// Normalisation by given statistics. The arrays are x, mean, variance, then weight and bias as far
/// as the problem has them; the output has x's shape and type and may be x itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchNorm {
    /// Added to the variance.
    pub epsilon: f64,
    /// Whether the normalised elements are multiplied by a weight.
    pub has_weight: bool,
    /// Whether a bias is added at the end.
    pub has_bias: bool,
}

/// The gradients of [`BatchNorm`] with respect to weight and bias. The arrays are x, the gradient of
/// the result, mean and variance; the output is `[2, C]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchNormSums {
    /// What was added to the variance.
    pub epsilon: f64,
}

/// The gradient of [`BatchNorm`] with respect to x. The arrays are x, the gradient of the result,
/// mean, variance, the weight if there is one, and in training the gradients with respect to weight
/// and bias; the output has x's shape and type and may be x or the gradient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchNormGradient {
    /// What was added to the variance.
    pub epsilon: f64,
    /// Whether the normalised elements were multiplied by a weight.
    pub has_weight: bool,
    /// Whether the statistics were those of x itself.
    pub training: bool,
}

/// The arrays of an operation by their meaning.
#[derive(Clone, Copy)]
pub struct Arrays<'a> {
    pub epsilon: f64,
    pub x: &'a Array,
    pub g: Option<&'a Array>,
    /// Mean and variance.
    pub statistics: Option<[&'a Array; 2]>,
    pub weight: Option<&'a Array>,
    pub bias: Option<&'a Array>,
    /// The gradients with respect to weight and bias.
    pub sums: Option<[&'a Array; 2]>,
    pub output: &'a Array,
}

impl<'a> Arrays<'a> {
    fn new(epsilon: f64, x: &'a Array, output: &'a Array) -> Self {
        let (g, statistics, weight, bias, sums) = (None, None, None, None, None);
        Self { epsilon, x, g, statistics, weight, bias, sums, output }
    }

    /// Of an array that is among the channels' numbers.
    fn columns(&self) -> impl Iterator<Item = (&'a Array, DType)> {
        let (own, sums) = (self.x.dtype(), sum_dtype(self.x.dtype()));
        let statistics = self.statistics.into_iter().chain(self.sums).flatten();
        let weights = [self.weight, self.bias].into_iter().flatten();
        weights.map(move |array| (array, own)).chain(statistics.map(move |array| (array, sums)))
    }

    /// What must hold of all operations but for their output. Returns the number of channels.
    fn check(&self, op: &'static str) -> Result<usize> {
        let dtype = self.x.dtype();
        if !dtype.is_float() {
            return Err(CoreError::UnsupportedDType { op, dtype, hint: "cast to f32 first" }.into());
        }
        let epsilon = self.epsilon;
        if !(epsilon >= 0.0 && epsilon.is_finite()) {
            let what = format!("epsilon is {epsilon}; it must be finite and not negative");
            return Err(Error::InvalidParameter { op, what });
        }
        let channels = channel_axis(op, self.x.shape())?;
        if let Some(g) = self.g {
            fits(op, g, self.x.shape(), dtype)?;
        }
        let shape = Shape::new(&[channels])?;
        for (array, dtype) in self.columns() {
            fits(op, array, &shape, dtype)?;
            check_apart(op, array, self.output)?;
        }
        Ok(channels)
    }

    /// Of an operation whose output has x's shape.
    fn check_elements(&self, op: &'static str) -> Result<()> {
        self.check(op)?;
        fits(op, self.output, self.x.shape(), self.x.dtype())?;
        for input in [Some(self.x), self.g].into_iter().flatten() {
            if !alias_is_harmless(input, self.output) {
                return Err(Error::AliasedOutput { op });
            }
        }
        writes_each_element_once(op, self.output)
    }

    /// Of an operation whose output has two numbers for each channel.
    fn check_channels(&self, op: &'static str) -> Result<()> {
        let channels = self.check(op)?;
        fits(op, self.output, &Shape::new(&[2, channels])?, sum_dtype(self.x.dtype()))?;
        for input in [Some(self.x), self.g].into_iter().flatten() {
            check_apart(op, input, self.output)?;
        }
        writes_each_element_once(op, self.output)
    }
}

fn fits(op: &'static str, array: &Array, shape: &Shape, dtype: DType) -> Result<()> {
    if array.shape() != shape {
        return Err(CoreError::unequal_shapes(op, *array.shape(), *shape).into());
    }
    if array.dtype() != dtype {
        return Err(CoreError::DTypeMismatch { op, lhs: array.dtype(), rhs: dtype }.into());
    }
    Ok(())
}

impl BatchStatistics {
    fn arity(&self) -> usize {
        1
    }

    fn arrays<'a>(&self, inputs: &[&'a Array], output: &'a Array) -> Arrays<'a> {
        Arrays::new(0.0, inputs[0], output)
    }
}

impl BatchNorm {
    fn arity(&self) -> usize {
        3 + usize::from(self.has_weight) + usize::from(self.has_bias)
    }

    fn arrays<'a>(&self, inputs: &[&'a Array], output: &'a Array) -> Arrays<'a> {
        let mut rest = inputs[3..].iter().copied();
        Arrays {
            statistics: Some([inputs[1], inputs[2]]),
            weight: if self.has_weight { rest.next() } else { None },
            bias: if self.has_bias { rest.next() } else { None },
            ..Arrays::new(self.epsilon, inputs[0], output)
        }
    }
}

impl BatchNormSums {
    fn arity(&self) -> usize {
        4
    }

    fn arrays<'a>(&self, inputs: &[&'a Array], output: &'a Array) -> Arrays<'a> {
        Arrays {
            g: Some(inputs[1]),
            statistics: Some([inputs[2], inputs[3]]),
            ..Arrays::new(self.epsilon, inputs[0], output)
        }
    }
}

impl BatchNormGradient {
    fn arity(&self) -> usize {
        4 + usize::from(self.has_weight) + 2 * usize::from(self.training)
    }

    fn arrays<'a>(&self, inputs: &[&'a Array], output: &'a Array) -> Arrays<'a> {
        let (weight, sums) = inputs[4..].split_at(usize::from(self.has_weight));
        Arrays {
            g: Some(inputs[1]),
            statistics: Some([inputs[2], inputs[3]]),
            weight: weight.first().copied(),
            sums: if let [of_weight, of_bias] = sums { Some([*of_weight, *of_bias]) } else { None },
            ..Arrays::new(self.epsilon, inputs[0], output)
        }
    }
}

/// The methods that are the same for all four.
macro_rules! operation {
    ($operation:ident, $name:literal, $check:ident, $cpu:path, $kernels:expr,
     |$this:ident, $inputs:ident, $arrays:ident| $reference:expr) => {
        impl Operation for $operation {
            type Kernel = Kernel;

            const KERNELS: &'static [Kernel] = $kernels;

            fn name(&self) -> &'static str {
                $name
            }

            fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
                let (op, expected, found) = ($name, self.arity(), inputs.len());
                if found != expected {
                    return Err(Error::WrongArity { op, expected, found });
                }
                self.arrays(inputs, output).$check(op)
            }

            fn supports(
                &self,
                kernel: Kernel,
                device: &OpenClDevice,
                inputs: &[&Array],
                output: &Array,
            ) -> bool {
                let arrays = self.arrays(inputs, output);
                Self::KERNELS.contains(&kernel) && opencl::supports(&arrays, kernel, device)
            }

            fn kernel_name(&self, kernel: Kernel, inputs: &[&Array], _: &Array) -> String {
                format!("{}_{}_{}", $name, inputs[0].dtype(), kernel.name())
            }

            fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
                $cpu($name, &self.arrays(inputs, output), cpu, inputs)
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

            fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
                Work::per_result(2, inputs, output)
            }

            fn works_in_place(&self) -> bool {
                $name == "batch_norm"
            }

            fn reference(&self, $inputs: &[Vec<f64>], arrays: &[&Array], _: &Array) -> Vec<f64> {
                let ($this, $arrays) = (self, arrays[0].shape());
                $reference
            }
        }
    };
}

operation!(
    BatchStatistics,
    "batch_statistics",
    check_channels,
    cpu_channels::run,
    &[Kernel::Group, Kernel::Serial],
    |_this, inputs, shape| reference::statistics(&inputs[0], shape)
);
operation!(
    BatchNorm,
    "batch_norm",
    check_elements,
    cpu::run,
    &[Kernel::Items],
    |this, inputs, shape| {
        let weight = this.has_weight.then(|| &inputs[3][..]);
        let bias = this.has_bias.then(|| &inputs[inputs.len() - 1][..]);
        reference::norm(inputs, shape, weight, bias, this.epsilon)
    }
);
operation!(
    BatchNormSums,
    "batch_norm_weight_gradient",
    check_channels,
    cpu_channels::run,
    &[Kernel::Group, Kernel::Serial],
    |this, inputs, shape| reference::sums(inputs, shape, this.epsilon)
);
operation!(
    BatchNormGradient,
    "batch_norm_gradient",
    check_elements,
    cpu::run,
    &[Kernel::Items],
    |this, inputs, shape| {
        let weight = this.has_weight.then(|| &inputs[4][..]);
        let sums =
            this.training.then(|| [&inputs[inputs.len() - 2][..], &inputs[inputs.len() - 1]]);
        reference::gradient(inputs, shape, weight, sums, this.epsilon)
    }
);
