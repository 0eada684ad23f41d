//! The two operations: their arrays and checks.

use polaris_core::{Collapsed, DType, Error as CoreError, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use super::geometry::Sizes;
use super::opencl::{self, Kernel};
use super::{Attention, AttentionGradient, cpu, cpu_gradient, reference};
use crate::operation::{Operation, check_apart, sum_dtype, writes_each_element_once};
use crate::{Array, ArrayType, Class, Error, Result, Work};

/// The arrays of an operation by their meaning.
#[derive(Clone, Copy)]
pub(super) struct Arrays<'a> {
    pub q: &'a Array,
    pub k: &'a Array,
    pub v: &'a Array,
    pub mask: Option<&'a Array>,
    /// What the gradient has beside.
    pub given: Option<Given<'a>>,
    pub output: &'a Array,
}

/// What the gradient is given by the forward operation and by what followed it.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub output: &'a Array,
    pub log_sum_exp: &'a Array,
    pub g: &'a Array,
}

/// The name, how many inputs there are without a mask, and the problem.
trait Form {
    const NAME: &'static str;
    const INPUTS: usize;

    fn problem(&self) -> &Attention;

    /// The shape of the output.
    fn shape(sizes: &Sizes) -> Result<Shape>;

    fn given<'a>(inputs: &[&'a Array]) -> Option<Given<'a>>;

    /// The sizes that the inputs have.
    fn inputs_sizes(&self, inputs: &[&Array]) -> Result<Sizes> {
        let (op, expected, found) = (Self::NAME, Self::INPUTS, inputs.len());
        if found != expected && found != expected + 1 {
            return Err(Error::WrongArity { op, expected, found });
        }
        Sizes::new(op, self.problem(), [inputs[0], inputs[1], inputs[2]])
    }

    fn arrays<'a>(inputs: &[&'a Array], output: &'a Array) -> Arrays<'a> {
        let [q, k, v] = [inputs[0], inputs[1], inputs[2]];
        let (mask, given) = (inputs.get(Self::INPUTS).copied(), Self::given(inputs));
        Arrays { q, k, v, mask, given, output }
    }

    fn check_all(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = Self::NAME;
        let sizes = self.inputs_sizes(inputs)?;
        let arrays = Self::arrays(inputs, output);
        let dtype = arrays.q.dtype();
        if !dtype.is_float() {
            return Err(CoreError::UnsupportedDType { op, dtype, hint: "cast to f32 first" }.into());
        }
        let wide = sum_dtype(dtype);
        has_type(op, arrays.k, dtype)?;
        has_type(op, arrays.v, dtype)?;
        has_type(op, output, wide)?;
        if let Some(mask) = arrays.mask {
            has_type(op, mask, dtype)?;
            mask.layout().broadcast_to(op, &sizes.score_shape()?)?;
        }
        if let Some(given) = &arrays.given {
            for (array, dtype, dims) in [
                (given.output, dtype, &sizes.output_dims()[..]),
                (given.g, dtype, &sizes.output_dims()),
                (given.log_sum_exp, wide, &sizes.row_dims()),
            ] {
                has_type(op, array, dtype)?;
                has_shape(op, array, &Shape::new(dims)?)?;
            }
        }
        has_shape(op, output, &Self::shape(&sizes)?)?;
        writes_each_element_once(op, output)?;
        if !output.layout().is_contiguous() {
            let what = format!("the output {} is not dense", output.layout());
            return Err(Error::InvalidParameter { op, what });
        }
        inputs.iter().try_for_each(|input| check_apart(op, input, output))
    }
}

fn has_type(op: &'static str, array: &Array, dtype: DType) -> Result<()> {
    match array.dtype() {
        found if found == dtype => Ok(()),
        lhs => Err(CoreError::DTypeMismatch { op, lhs, rhs: dtype }.into()),
    }
}

fn has_shape(op: &'static str, array: &Array, shape: &Shape) -> Result<()> {
    match array.shape() {
        found if found == shape => Ok(()),
        found => Err(CoreError::unequal_shapes(op, *found, *shape).into()),
    }
}

/// Everything for the reference; a mask is spread out to every score.
fn with_reference<R>(
    sizes: Sizes,
    inputs: &[Vec<f64>],
    mask: Option<(&Array, &[f64])>,
    compute: impl Fn(&reference::Inputs<'_>) -> R,
) -> R {
    let spread = mask.map(|(array, values)| {
        let shape = sizes.score_shape().expect("the shape should be checked");
        let dense = polaris_core::Layout::contiguous(*array.shape());
        let layout = dense.broadcast_to("attention", &shape).expect("it should be checked");
        let space = Collapsed::new(&shape, [&layout]);
        (0..shape.elements()).map(|score| values[space.point(score)[0]]).collect::<Vec<f64>>()
    });
    let [q, k, v] = [&inputs[0], &inputs[1], &inputs[2]];
    compute(&reference::Inputs { sizes, q, k, v, mask: spread.as_deref() })
}

impl Form for Attention {
    const NAME: &'static str = "attention";
    const INPUTS: usize = 3;

    fn problem(&self) -> &Attention {
        self
    }

    fn shape(sizes: &Sizes) -> Result<Shape> {
        sizes.forward_shape()
    }

    fn given<'a>(_: &[&'a Array]) -> Option<Given<'a>> {
        None
    }
}

impl Form for AttentionGradient {
    const NAME: &'static str = "attention_gradient";
    const INPUTS: usize = 6;

    fn problem(&self) -> &Attention {
        &self.forward
    }

    fn shape(sizes: &Sizes) -> Result<Shape> {
        sizes.gradient_shape()
    }

    fn given<'a>(inputs: &[&'a Array]) -> Option<Given<'a>> {
        Some(Given { output: inputs[3], log_sum_exp: inputs[4], g: inputs[5] })
    }
}

/// What the two operations do alike.
macro_rules! operation {
    ($operation:ident, cpu: $cpu:path, reference: |$inputs:ident, $all:ident| $reference:expr) => {
        impl $operation {
            /// The sizes that the inputs have.
            pub(super) fn sizes(&self, inputs: &[&Array]) -> Result<Sizes> {
                self.inputs_sizes(inputs)
            }
        }

        impl Operation for $operation {
            type Kernel = Kernel;

            const KERNELS: &'static [Kernel] = &[Kernel::Tiled, Kernel::Serial];

            fn name(&self) -> &'static str {
                Self::NAME
            }

            fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
                self.check_all(inputs, output)
            }

            fn supports(
                &self,
                kernel: Kernel,
                device: &OpenClDevice,
                inputs: &[&Array],
                output: &Array,
            ) -> bool {
                let arrays = Self::arrays(inputs, output);
                self.sizes(inputs)
                    .is_ok_and(|sizes| opencl::supports(kernel, device, &sizes, &arrays))
            }

            fn kernel_name(&self, kernel: Kernel, inputs: &[&Array], _: &Array) -> String {
                format!("{}_{}_{}", Self::NAME, inputs[0].dtype(), kernel.name())
            }

            fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
                $cpu(&self.sizes(inputs)?, cpu, inputs, &Self::arrays(inputs, output))
            }

            fn run_opencl(
                &self,
                device: &OpenClDevice,
                kernel: Kernel,
                inputs: &[&Array],
                output: &Array,
            ) -> Result<()> {
                opencl::run(kernel, device, &self.sizes(inputs)?, &Self::arrays(inputs, output))
            }

            fn class(&self) -> Class {
                Class::Attention
            }

            /// Two products with the length of the keys in the middle or as the result's.
            fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
                let keys = inputs.get(1).map_or(&[][..], |keys| keys.layout.shape().dims());
                let length = keys.len().checked_sub(2).map_or(1, |axis| keys[axis] as u64);
                Work::per_input(4 * length, inputs, output)
            }

            fn reference(
                &self,
                inputs: &[Vec<f64>],
                input_arrays: &[&Array],
                _: &Array,
            ) -> Vec<f64> {
                let sizes = self.sizes(input_arrays).expect("the inputs should be checked");
                let mask =
                    input_arrays.get(Self::INPUTS).map(|array| (*array, &inputs[Self::INPUTS][..]));
                let $all = inputs;
                with_reference(sizes, inputs, mask, |$inputs| $reference)
            }
        }
    };
}

operation!(Attention, cpu: cpu::run, reference: |inputs, _all| inputs.forward());
operation!(AttentionGradient, cpu: cpu_gradient::run,
    reference: |inputs, all| inputs.gradient(&all[3], &all[5]));
