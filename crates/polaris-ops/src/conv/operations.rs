//! The three operations, which differ in the array that is computed.

use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use super::geometry::{Form, Geometry};
use super::opencl::{self, Kernel};
use super::problem::Convolution;
use super::{cpu, reference};
use crate::operation::Operation;
use crate::work::lengths_from;
use crate::{Array, ArrayType, Class, Result, Work};

/// The gradient of a [`Convolution`] with respect to its input, which is the transposed convolution.
/// The arrays are the gradient of the output, the weight and, if there are three, a bias for each
/// channel of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvolutionInputGradient {
    /// The convolution.
    pub problem: Convolution,
}

/// The gradient of a [`Convolution`] with respect to its weight. The arrays are x and the gradient of
/// the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvolutionWeightGradient {
    /// The convolution.
    pub problem: Convolution,
}

macro_rules! operation {
    ($operation:ident, $form:expr, |$op:ident| $problem:expr) => {
        impl $operation {
            fn geometry(&self, inputs: &[&Array], output: &Array) -> Result<Geometry> {
                let $op = self;
                Geometry::new($form, $problem, inputs, output)
            }
        }

        impl Operation for $operation {
            type Kernel = Kernel;

            const KERNELS: &'static [Kernel] = opencl::KERNELS;

            fn name(&self) -> &'static str {
                $form.name()
            }

            fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
                self.geometry(inputs, output).map(|_| ())
            }

            fn supports(
                &self,
                kernel: Kernel,
                device: &OpenClDevice,
                inputs: &[&Array],
                output: &Array,
            ) -> bool {
                self.geometry(inputs, output).is_ok_and(|geometry| {
                    opencl::supports($form, &geometry, kernel, device, inputs, output)
                })
            }

            fn preferred(
                &self,
                device: &OpenClDevice,
                inputs: &[&Array],
                output: &Array,
            ) -> Option<Kernel> {
                let geometry = self.geometry(inputs, output).ok()?;
                opencl::preferred($form, &geometry, device, inputs, output)
            }

            fn kernel_name(&self, kernel: Kernel, _: &[&Array], output: &Array) -> String {
                format!("{}_{}_{}", self.name(), output.dtype(), kernel.name())
            }

            fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
                cpu::run($form, &self.geometry(inputs, output)?, cpu, inputs, output)
            }

            fn run_opencl(
                &self,
                device: &OpenClDevice,
                kernel: Kernel,
                inputs: &[&Array],
                output: &Array,
            ) -> Result<()> {
                let geometry = self.geometry(inputs, output)?;
                opencl::run($form, &geometry, device, kernel, inputs, output)
            }

            fn class(&self) -> Class {
                Class::Convolution
            }

            fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
                let taps = lengths_from(inputs, 1, 1);
                match $form {
                    Form::Output => Work::per_result(2 * taps, inputs, output),
                    Form::InputGradient => Work::per_input(2 * taps, inputs, output),
                    // A product for each element of the gradient and each weight of its channel.
                    Form::WeightGradient => {
                        let weights = lengths_from(&[*output], 0, 1);
                        let gradient = inputs.get(1).map_or(0, |g| g.layout.elements() as u64);
                        Work::new(2 * weights * gradient, inputs, output)
                    }
                }
            }

            fn reference(
                &self,
                values: &[Vec<f64>],
                inputs: &[&Array],
                output: &Array,
            ) -> Vec<f64> {
                let $op = self;
                reference::convolution($form, $problem, values, inputs, output)
            }
        }
    };
}

operation!(Convolution, Form::Output, |op| op);
operation!(ConvolutionInputGradient, Form::InputGradient, |op| &op.problem);
operation!(ConvolutionWeightGradient, Form::WeightGradient, |op| &op.problem);
