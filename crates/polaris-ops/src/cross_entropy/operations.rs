//! The two operations: their arrays and checks.

use polaris_core::{DType, Error as CoreError, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use super::opencl::Kernel;
use super::{CrossEntropyOptions, cpu, opencl, reference};
use crate::operation::sum_dtype;
use crate::operation::{Operation, alias_is_harmless, check_apart, writes_each_element_once};
use crate::{Array, Error, Result};

/// The losses of rows. The arrays are logits `[rows, classes]`, targets `[rows]`, and weights
/// `[classes]` if there are any; the output is `[rows]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrossEntropy {
    /// What a loss is made of.
    pub options: CrossEntropyOptions,
    /// Whether classes have weights.
    pub has_weights: bool,
}

/// The gradient of [`CrossEntropy`] with respect to the logits. The arrays are logits, targets, the
/// gradient of the losses, and weights if there are any; the output has the shape and type of the
/// logits and may be the logits themselves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrossEntropyGradient {
    /// What a loss was made of.
    pub options: CrossEntropyOptions,
    /// Whether classes have weights.
    pub has_weights: bool,
}

/// The arrays of an operation by their meaning.
#[derive(Clone, Copy)]
pub struct Arrays<'a> {
    pub options: CrossEntropyOptions,
    pub logits: &'a Array,
    pub targets: &'a Array,
    pub g: Option<&'a Array>,
    pub weights: Option<&'a Array>,
    pub output: &'a Array,
}

impl Arrays<'_> {
    pub fn rows(&self) -> usize {
        self.logits.shape()[0]
    }

    pub fn classes(&self) -> usize {
        self.logits.shape()[1]
    }

    fn check(&self, op: &'static str) -> Result<()> {
        let Self { options, logits, targets, output, .. } = *self;
        let dtype = logits.dtype();
        if !dtype.is_float() {
            return Err(CoreError::UnsupportedDType { op, dtype, hint: "cast to f32 first" }.into());
        }
        if !matches!(targets.dtype(), DType::I32 | DType::I64) {
            let hint = "targets are indices of classes: cast them to i64";
            return Err(CoreError::UnsupportedDType { op, dtype: targets.dtype(), hint }.into());
        }
        let [rows, classes] = logits.shape()[..] else {
            let what = format!("logits are {}; they must be [rows, classes]", logits.shape());
            return Err(Error::InvalidParameter { op, what });
        };
        if !(0.0..=1.0).contains(&options.smoothing) {
            let what = format!("smoothing is {}; it must be from 0 to 1", options.smoothing);
            return Err(Error::InvalidParameter { op, what });
        }
        let fits = |array: &Array, expected: &[usize], dtype: DType| -> Result<()> {
            let expected = Shape::new(expected)?;
            if *array.shape() != expected {
                let lhs = *array.shape();
                return Err(CoreError::unequal_shapes(op, lhs, expected).into());
            }
            if array.dtype() != dtype {
                let lhs = array.dtype();
                return Err(CoreError::DTypeMismatch { op, lhs, rhs: dtype }.into());
            }
            Ok(())
        };
        let loss = sum_dtype(dtype);
        fits(targets, &[rows], targets.dtype())?;
        self.g.map_or(Ok(()), |g| fits(g, &[rows], loss))?;
        self.weights.map_or(Ok(()), |weights| fits(weights, &[classes], loss))?;
        for input in [Some(targets), self.g, self.weights].into_iter().flatten() {
            check_apart(op, input, output)?;
        }
        match self.g {
            None => {
                fits(output, &[rows], loss)?;
                check_apart(op, logits, output)?;
            }
            Some(_) => {
                fits(output, &[rows, classes], dtype)?;
                if !alias_is_harmless(logits, output) {
                    return Err(Error::AliasedOutput { op });
                }
            }
        }
        writes_each_element_once(op, output)?;
        self.check_targets(op, classes)
    }

    /// Every target must be a class or ignored.
    fn check_targets(&self, op: &'static str, classes: usize) -> Result<()> {
        let ignored = self.options.ignore_index;
        let is_wrong = |value: i64| {
            Some(value) != ignored && !usize::try_from(value).is_ok_and(|class| class < classes)
        };
        let wrong = match self.targets.dtype() {
            DType::I32 => find(&self.targets.to_vec::<i32>()?, |&value| is_wrong(value.into())),
            _ => find(&self.targets.to_vec::<i64>()?, |&value| is_wrong(value)),
        };
        match wrong {
            Some((row, value)) => Err(Error::TargetOutOfRange { op, row, value, classes }),
            None => Ok(()),
        }
    }
}

/// The first value that is wrong, and where it is.
fn find<T: Copy + Into<i64>>(values: &[T], wrong: impl Fn(&T) -> bool) -> Option<(usize, i64)> {
    values.iter().position(wrong).map(|row| (row, values[row].into()))
}

/// Both operations differ in their arrays only.
macro_rules! operation {
    ($operation:ident, $name:literal, gradient: $gradient:literal) => {
        impl $operation {
            /// How many arrays there are.
            fn arity(&self) -> usize {
                2 + usize::from($gradient) + usize::from(self.has_weights)
            }

            fn arrays<'a>(&self, inputs: &[&'a Array], output: &'a Array) -> Arrays<'a> {
                let (logits, targets) = (inputs[0], inputs[1]);
                let mut rest = inputs[2..].iter().copied();
                let g = if $gradient { rest.next() } else { None };
                let weights = if self.has_weights { rest.next() } else { None };
                Arrays { options: self.options, logits, targets, g, weights, output }
            }
        }

        impl Operation for $operation {
            type Kernel = Kernel;

            const KERNELS: &'static [Kernel] = &[Kernel::Group, Kernel::Serial];

            fn name(&self) -> &'static str {
                $name
            }

            fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
                let (op, expected, found) = (self.name(), self.arity(), inputs.len());
                if found != expected {
                    return Err(Error::WrongArity { op, expected, found });
                }
                self.arrays(inputs, output).check(op)
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

            fn kernel_name(&self, kernel: Kernel, inputs: &[&Array], _: &Array) -> String {
                format!("{}_{}_{}", self.name(), inputs[0].dtype(), kernel.name())
            }

            fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
                cpu::run($name, &self.arrays(inputs, output), cpu, inputs)
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

            fn reference(&self, inputs: &[Vec<f64>], arrays: &[&Array], _: &Array) -> Vec<f64> {
                let classes = arrays[0].shape()[1];
                let g = $gradient.then(|| &inputs[2][..]);
                let weights = self.has_weights.then(|| &inputs[inputs.len() - 1][..]);
                reference::rows(self.options, [&inputs[0], &inputs[1]], classes, g, weights)
            }
        }
    };
}

operation!(CrossEntropy, "cross_entropy", gradient: false);
operation!(CrossEntropyGradient, "cross_entropy_gradient", gradient: true);
