//! A convolution for inference with its epilogue, in one pass over the result.

use polaris_core::DType;
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use super::cpu::packed;
use super::geometry::{Form, Geometry, Roles};
use super::opencl::{self, Kernel};
use super::opencl_launch::{Following, launch_gathers};
use super::problem::{Convolution, OP};
use super::product::Product;
use super::reference;
use crate::copy::contiguous;
use crate::elementwise::Elementwise;
use crate::format::{Format, Role};
use crate::matmul::Activation;
use crate::operation::{Operation, alias_is_harmless, run};
use crate::work::lengths_from;
use crate::{Array, ArrayType, Binary, Class, Error, Result, Ternary, Work};

/// `activation(convolution + bias + residual)`. The arrays are, in this order and as far as the
/// problem has them: x, weight, bias, residual. The weight may be in panels or of blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FusedConvolution {
    /// The convolution.
    pub problem: Convolution,
    /// Whether a number is added to each channel.
    pub bias: bool,
    /// Whether an array of the result's shape is added before the activation.
    pub residual: bool,
    /// What becomes of each sum.
    pub activation: Activation,
}

impl FusedConvolution {
    /// A convolution with nothing after it.
    pub const fn plain(problem: Convolution, bias: bool) -> Self {
        Self { problem, bias, residual: false, activation: Activation::Identity }
    }

    /// Whether nothing but a bias follows the convolution.
    pub fn is_plain(&self) -> bool {
        !self.residual && self.activation == Activation::Identity
    }

    /// Bias and residual, from what follows the weight in the list of arrays.
    pub(super) fn rest<'a>(&self, arrays: &[&'a Array]) -> Result<[Option<&'a Array>; 2]> {
        let expected = usize::from(self.bias) + usize::from(self.residual);
        if arrays.len() != expected {
            let found = arrays.len() + 2;
            return Err(Error::WrongArity { op: OP, expected: expected + 2, found });
        }
        let residual = if self.residual { arrays.last().copied() } else { None };
        Ok([if self.bias { arrays.first().copied() } else { None }, residual])
    }

    /// The arrays of the convolution itself, the residual, and their geometry.
    fn parts<'a>(&self, inputs: &'a [&'a Array], output: &Array) -> Result<Parts<'a>> {
        let plain = &inputs[..inputs.len() - usize::from(self.residual && inputs.len() > 2)];
        let [_, residual] = self.rest(inputs.get(2..).unwrap_or(&[]))?;
        let geometry = Geometry::new(Form::Output, &self.problem, plain, output)?;
        if let Some(residual) = residual {
            check_residual(residual, output)?;
        }
        Ok(Parts { plain, residual, geometry })
    }

    /// The same as a matmul, if it is one.
    fn product(&self, parts: &Parts<'_>, output: &Array) -> Result<Option<Product>> {
        let roles = Roles::new(Form::Output, parts.plain, output)?;
        let Some(mut product) = Product::of(Form::Output, &parts.geometry, &roles)? else {
            return Ok(None);
        };
        product.op.epilogue.activation = self.activation;
        if let Some(residual) = parts.residual {
            let Some(view) = Product::result_view(&parts.geometry, residual)? else {
                return Ok(None);
            };
            product.op.beta = 1.0;
            product.inputs.insert(2, view);
        }
        Ok(Some(product))
    }
}

/// The arrays by what they are to the convolution.
struct Parts<'a> {
    plain: &'a [&'a Array],
    residual: Option<&'a Array>,
    geometry: Geometry,
}

impl Operation for FusedConvolution {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = opencl::KERNELS;

    fn name(&self) -> &'static str {
        "fused_convolution"
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        self.parts(inputs, output).map(|_| ())
    }

    fn accepts(&self, input: usize, format: Format) -> bool {
        input == 1 && format != Format::Dense
    }

    fn supports(
        &self,
        kernel: Kernel,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> bool {
        // The limits of activations are passed as `float`.
        let Ok(parts) = self.parts(inputs, output) else { return false };
        output.dtype() != DType::F64
            && opencl::supports(Form::Output, &parts.geometry, kernel, device, parts.plain, output)
            && (kernel != Kernel::Product
                || self.product(&parts, output).is_ok_and(|product| product.is_some()))
    }

    fn preferred(
        &self,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> Option<Kernel> {
        let parts = self.parts(inputs, output).ok()?;
        let kernel = opencl::preferred(Form::Output, &parts.geometry, device, parts.plain, output)?;
        self.supports(kernel, device, inputs, output).then_some(kernel)
    }

    fn kernel_name(&self, kernel: Kernel, _: &[&Array], output: &Array) -> String {
        let (dtype, activation) = (output.dtype(), self.activation.name());
        format!("{}_{dtype}_{}_{activation}", self.name(), kernel.name())
    }

    /// A weight in panels is the fast way; with others there is one step after the other.
    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        if let Some(expanded) = expanded(inputs)? {
            return self.run_cpu(cpu, &with_weight(inputs, &expanded), output);
        }
        let parts = self.parts(inputs, output)?;
        let [x, weight, rest @ ..] = inputs else { return Ok(()) };
        if let Format::Panels(panels) = weight.format() {
            let groups = self.problem.groups;
            if panels.role != (Role::Convolution { groups }) || panels.dtype != DType::F32 {
                return Err(Error::UnsupportedFormat { op: self.name(), format: weight.format() });
            }
            let [bias, residual] = self.rest(rest)?;
            let (geometry, activation) = (&parts.geometry, self.activation);
            let call = packed::Call { geometry, activation, x, bias, residual };
            return packed::run(cpu, &call, weight.buffer(), output);
        }
        if parts.residual.is_some_and(|residual| residual.overlaps(output)) {
            return Err(Error::AliasedOutput { op: self.name() });
        }
        self.problem.run_cpu(cpu, parts.plain, output)?;
        if let Some(residual) = parts.residual {
            run(&Elementwise { function: Binary::Add.into() }, &[output, residual], output)?;
        }
        match (self.activation, self.activation.function()) {
            (Activation::Clamp { low, high }, _) => {
                let limit = |value: f64| -> Result<Array> {
                    let one = Array::empty(
                        output.device(),
                        output.dtype(),
                        polaris_core::Shape::new(&[1])?,
                    )?;
                    run(&crate::fill::Fill { value }, &[], &one)?;
                    Ok(one)
                };
                let (low, high) = (limit(low)?, limit(high)?);
                let clamp = Elementwise { function: Ternary::Clamp.into() };
                run(&clamp, &[output, &low, &high], output)
            }
            (_, Some(function)) => {
                run(&Elementwise { function: function.into() }, &[output], output)
            }
            _ => Ok(()),
        }
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        kernel: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        if let Some(expanded) = expanded(inputs)? {
            return self.run_opencl(device, kernel, &with_weight(inputs, &expanded), output);
        }
        let parts = self.parts(inputs, output)?;
        if kernel == Kernel::Product
            && let Some(product) = self.product(&parts, output)?
        {
            let inputs: Vec<&Array> = product.inputs.iter().collect();
            return run(&product.op, &inputs, &product.output);
        }
        let roles = Roles::new(Form::Output, parts.plain, output)?;
        let following = Following { activation: self.activation, residual: parts.residual };
        launch_gathers(Form::Output, &parts.geometry, device, kernel, &roles, Some(following))
    }

    fn class(&self) -> Class {
        Class::Convolution
    }

    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        Work::per_result(2 * lengths_from(inputs, 1, 1), inputs, output)
    }

    fn reference(&self, values: &[Vec<f64>], inputs: &[&Array], output: &Array) -> Vec<f64> {
        let parts = self.parts(inputs, output).expect("the arrays should have been checked");
        let plain = &values[..parts.plain.len()];
        let sums = reference::convolution(Form::Output, &self.problem, plain, parts.plain, output);
        let residual = if self.residual { values.last() } else { None };
        (sums.iter().enumerate())
            .map(|(at, sum)| {
                let x = sum + residual.map_or(0.0, |residual| residual[at]);
                crate::matmul::activation_reference(self.activation, x)
            })
            .collect()
    }
}

/// The weight as a dense array, if it is of blocks: it is used many times.
fn expanded(inputs: &[&Array]) -> Result<Option<Array>> {
    match inputs.get(1) {
        Some(weight) if matches!(weight.format(), Format::Block(_)) => contiguous(weight).map(Some),
        _ => Ok(None),
    }
}

fn with_weight<'a>(inputs: &[&'a Array], weight: &'a Array) -> Vec<&'a Array> {
    let mut inputs = inputs.to_vec();
    inputs[1] = weight;
    inputs
}

/// Whether a residual has the type and shape of the result, and may share its memory.
pub(super) fn check_residual(residual: &Array, output: &Array) -> Result<()> {
    if residual.dtype() != output.dtype() {
        let (lhs, rhs) = (residual.dtype(), output.dtype());
        return Err(polaris_core::Error::DTypeMismatch { op: OP, lhs, rhs }.into());
    }
    if residual.shape() != output.shape() {
        let (lhs, rhs) = (*residual.shape(), *output.shape());
        return Err(polaris_core::Error::unequal_shapes(OP, lhs, rhs).into());
    }
    match alias_is_harmless(residual, output) {
        true => Ok(()),
        false => Err(Error::AliasedOutput { op: OP }),
    }
}
