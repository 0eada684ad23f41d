//! Softmax and log-softmax along one axis, and their gradients. The result is the same run after
//! run: each row is summed in an order that depends on its length alone, not on threads or timing.

mod cpu;
pub(crate) mod cpu_loops;
mod opencl;
mod reference;
mod suite;
#[cfg(test)]
mod tests;

pub use opencl::Kernel;
pub(crate) use opencl::shipped_programs;
pub(crate) use suite::FAMILY;

use polaris_core::{Collapsed, Error as CoreError, Layout, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use crate::operation::{Operation, alias_is_harmless, run, writes_each_element_once};
use crate::{Array, ArrayType, Class, Error, Result, Work};

/// Softmax along one axis, of one input of the output's shape and type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Softmax {
    /// The axis along which results add up to one.
    pub axis: usize,
    /// Whether the logarithm of the softmax is wanted.
    pub log: bool,
}

/// The gradient of [`Softmax`]. Its inputs are `y`, the result of the forward operation, and `g`,
/// the gradient with respect to it; all have the output's shape and type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoftmaxGradient {
    /// The axis of the forward operation.
    pub axis: usize,
    /// Whether the forward operation was the log-softmax.
    pub log: bool,
}

/// `exp(x) / sum(exp(x))` along an axis, computed without overflow. Half precisions are computed in
/// `f32`. A row with a NaN or a positive infinity, or of nothing but negative infinities, becomes
/// NaN. A single value without an axis counts as a row of one element along axis 0.
///
/// # Errors
/// If the axis does not exist, the type is not a floating-point one, or there is no room for the
/// result.
pub fn softmax(x: &Array, axis: usize) -> Result<Array> {
    like(x, &Softmax { axis, log: false }, &[x])
}

/// `x - log(sum(exp(x)))` along an axis; otherwise as [`softmax`].
///
/// # Errors
/// As for [`softmax`].
pub fn log_softmax(x: &Array, axis: usize) -> Result<Array> {
    like(x, &Softmax { axis, log: true }, &[x])
}

/// The gradient of [`softmax`] with respect to `x`: `y * (g - sum(g * y))`, where `y` is its result
/// and `g` the gradient with respect to `y`.
///
/// # Errors
/// If shapes or types differ, or as for [`softmax`].
pub fn softmax_gradient(y: &Array, g: &Array, axis: usize) -> Result<Array> {
    like(g, &SoftmaxGradient { axis, log: false }, &[y, g])
}

/// The gradient of [`log_softmax`] with respect to `x`: `g - exp(y) * sum(g)`, where `y` is its
/// result and `g` the gradient with respect to `y`.
///
/// # Errors
/// If shapes or types differ, or as for [`softmax`].
pub fn log_softmax_gradient(y: &Array, g: &Array, axis: usize) -> Result<Array> {
    like(g, &SoftmaxGradient { axis, log: true }, &[y, g])
}

/// Runs an operation into a new array like the given one.
fn like<O: Operation>(array: &Array, op: &O, inputs: &[&Array]) -> Result<Array> {
    let output = Array::empty(array.device(), array.dtype(), *array.shape())?;
    run(op, inputs, &output)?;
    Ok(output)
}

/// Any of the four, as what is below sees them.
#[derive(Debug, Clone, Copy)]
struct Form {
    axis: usize,
    log: bool,
    gradient: bool,
}

impl Form {
    const fn name(self) -> &'static str {
        match (self.gradient, self.log) {
            (false, false) => "softmax",
            (false, true) => "log_softmax",
            (true, false) => "softmax_gradient",
            (true, true) => "log_softmax_gradient",
        }
    }

    fn check(self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        let (expected, found) = (if self.gradient { 2 } else { 1 }, inputs.len());
        if found != expected {
            return Err(Error::WrongArity { op, expected, found });
        }
        for input in inputs {
            if input.shape() != output.shape() {
                let (lhs, rhs) = (*input.shape(), *output.shape());
                return Err(CoreError::unequal_shapes(op, lhs, rhs).into());
            }
            let (lhs, rhs) = (input.dtype(), output.dtype());
            if !lhs.is_float() {
                let hint = "cast to f32 first";
                return Err(CoreError::UnsupportedDType { op, dtype: lhs, hint }.into());
            }
            if lhs != rhs {
                return Err(CoreError::DTypeMismatch { op, lhs, rhs }.into());
            }
            if !alias_is_harmless(input, output) {
                return Err(Error::AliasedOutput { op });
            }
        }
        // A single value is a row of one element.
        if output.shape().rank() > 0 || self.axis > 0 {
            output.shape().axis_mask(op, &[self.axis])?;
        }
        writes_each_element_once(op, output)
    }

    /// The number of elements in a row of this shape.
    fn length(self, shape: &Shape) -> usize {
        shape.get(self.axis).copied().unwrap_or(1)
    }
}

/// How the rows lie: a row is what one sum is taken over. Operands are the output, the first input
/// and the second one, which is the first again where there is none.
struct Rows {
    /// Elements of a row.
    length: usize,
    /// The distance between a row's neighbours in each operand.
    strides: [usize; 3],
    /// The first elements of the rows.
    starts: Collapsed<3>,
}

impl Rows {
    fn new(form: Form, inputs: &[&Array], output: &Array) -> Result<Self> {
        let last = inputs.len() - 1;
        let layouts = [output.layout(), inputs[0].layout(), inputs[last].layout()];
        let axes = || (0..output.shape().rank()).filter(move |&axis| axis != form.axis);
        let dims: Vec<usize> = axes().map(|axis| output.shape()[axis]).collect();
        let shape = Shape::new(&dims)?;
        let start = |layout: &Layout| -> Result<Layout> {
            let strides: Vec<usize> = axes().map(|axis| layout.strides()[axis]).collect();
            Ok(Layout::new(shape, &strides, layout.offset())?)
        };
        let starts = [start(layouts[0])?, start(layouts[1])?, start(layouts[2])?];
        Ok(Self {
            length: form.length(output.shape()),
            strides: layouts.map(|layout| layout.strides().get(form.axis).copied().unwrap_or(1)),
            starts: Collapsed::new(&shape, [&starts[0], &starts[1], &starts[2]]),
        })
    }

    /// Whether at least this many rows lie side by side: neighbouring rows have neighbouring
    /// elements, and a row's own are spread out.
    fn are_side_by_side(&self, least: usize) -> bool {
        let (length, [_, stride, _]) = self.starts.inner();
        stride == 1 && length >= least && self.strides[1] != 1
    }
}

/// Both operations differ in their form only.
macro_rules! operation {
    ($operation:ident, gradient: $gradient:literal) => {
        impl $operation {
            const fn form(&self) -> Form {
                Form { axis: self.axis, log: self.log, gradient: $gradient }
            }
        }

        impl Operation for $operation {
            type Kernel = Kernel;

            const KERNELS: &'static [Kernel] =
                &[Kernel::Columns, Kernel::Held, Kernel::Group, Kernel::Serial];

            fn name(&self) -> &'static str {
                self.form().name()
            }

            fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
                self.form().check(inputs, output)
            }

            fn supports(
                &self,
                kernel: Kernel,
                device: &OpenClDevice,
                inputs: &[&Array],
                output: &Array,
            ) -> bool {
                opencl::supports(self.form(), kernel, device, inputs, output)
            }

            fn kernel_name(&self, kernel: Kernel, _: &[&Array], output: &Array) -> String {
                format!("{}_{}_{}", self.name(), output.dtype(), kernel.name())
            }

            fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
                cpu::run(self.form(), cpu, inputs, output)
            }

            fn run_opencl(
                &self,
                device: &OpenClDevice,
                kernel: Kernel,
                inputs: &[&Array],
                output: &Array,
            ) -> Result<()> {
                opencl::run(self.form(), device, kernel, inputs, output)
            }

            fn class(&self) -> Class {
                Class::Reduction
            }

            /// The largest, the difference and its exponential, the sum, the quotient.
            fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
                Work::per_input(4, inputs, output)
            }

            fn works_in_place(&self) -> bool {
                !$gradient
            }

            fn reference(&self, inputs: &[Vec<f64>], _: &[&Array], output: &Array) -> Vec<f64> {
                reference::rows(self.form(), inputs, output.shape())
            }
        }
    };
}

operation!(Softmax, gradient: false);
operation!(SoftmaxGradient, gradient: true);
