//! Reductions along any axes. The result is the same run after run: partial results are combined
//! in an order that depends on the shape alone, not on threads or timing.

mod cpu;
mod cpu_folds;
mod opencl;
mod opencl_grouping;
mod opencl_program;
mod reference;
mod suite;

pub use opencl::Kernel;
pub use opencl_grouping::{
    Grouping, default_grouping, grouping_config, grouping_of, grouping_source, grouping_space,
};
pub(crate) use suite::FAMILY;

use polaris_core::{Collapsed, DType, Error as CoreError, Layout, MAX_RANK, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use crate::operation::{Operation, run, writes_each_element_once};
use crate::{Array, ArrayType, Class, Error, Result, Work};

/// What becomes of the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Their sum; integers and `bool` are summed in `i64`, which wraps.
    Sum,
    /// Their mean; of floating-point numbers only.
    Mean,
    /// The largest; NaN if there is one.
    Max,
    /// The smallest; NaN if there is one.
    Min,
    /// The index of the first largest, or of the first NaN, counted over the reduced axes in
    /// row-major order.
    ArgMax,
}

impl Reduction {
    /// Every reduction.
    pub const ALL: [Self; 5] = [Self::Sum, Self::Mean, Self::Max, Self::Min, Self::ArgMax];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Max => "max",
            Self::Min => "min",
            Self::ArgMax => "argmax",
        }
    }

    /// The type of the result.
    pub const fn output_dtype(self, input: DType) -> DType {
        match self {
            Self::ArgMax => DType::I64,
            Self::Sum if !input.is_float() => DType::I64,
            _ => input,
        }
    }
}

/// A reduction along some axes. The output has the input's other axes, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reduce {
    /// What becomes of the elements.
    pub reduction: Reduction,
    /// Which axes are reduced.
    pub axes: [bool; MAX_RANK],
}

/// Reduces the named axes; they are gone in the result.
///
/// # Errors
/// If an axis does not exist, the type does not fit, or there is no room for the result.
pub fn reduce(reduction: Reduction, x: &Array, axes: &[usize]) -> Result<Array> {
    let op = Reduce { reduction, axes: x.shape().axis_mask(reduction.name(), axes)? };
    let shape = x.shape().reduce(reduction.name(), axes, false)?;
    let output = Array::empty(x.device(), reduction.output_dtype(x.dtype()), shape)?;
    run(&op, &[x], &output)?;
    Ok(output)
}

/// Reduces all axes to a single value.
///
/// # Errors
/// As for [`reduce`].
pub fn reduce_all(reduction: Reduction, x: &Array) -> Result<Array> {
    let axes: Vec<usize> = (0..x.shape().rank()).collect();
    reduce(reduction, x, &axes)
}

/// The two index spaces of a reduction.
struct Spaces {
    /// Output and input over the axes that stay.
    kept: Collapsed<2>,
    /// The input over the axes that go. Its offset is zero.
    reduced: Collapsed<1>,
}

impl Reduce {
    fn spaces(&self, input: &Array, output: &Array) -> Result<Spaces> {
        let select = |reduced: bool| -> Result<(Shape, Vec<usize>)> {
            let axes = (0..input.shape().rank()).filter(|&axis| self.axes[axis] == reduced);
            let (dims, strides): (Vec<usize>, Vec<usize>) =
                axes.map(|axis| (input.shape()[axis], input.layout().strides()[axis])).unzip();
            Ok((Shape::new(&dims)?, strides))
        };
        let (kept_shape, kept_strides) = select(false)?;
        let kept = Layout::new(kept_shape, &kept_strides, input.layout().offset())?;
        let (reduced_shape, reduced_strides) = select(true)?;
        let reduced = Layout::new(reduced_shape, &reduced_strides, 0)?;
        Ok(Spaces {
            kept: Collapsed::new(&kept_shape, [output.layout(), &kept]),
            reduced: Collapsed::new(&reduced_shape, [&reduced]),
        })
    }
}

impl Operation for Reduce {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[
        Kernel::Columns,
        Kernel::OnePass(Grouping::DEFAULT),
        Kernel::Tree(Grouping::DEFAULT),
        Kernel::Serial,
    ];

    fn name(&self) -> &'static str {
        self.reduction.name()
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        let [input] = inputs else {
            return Err(Error::WrongArity { op, expected: 1, found: inputs.len() });
        };
        let axes: Vec<usize> = (0..MAX_RANK).filter(|&axis| self.axes[axis]).collect();
        let expected = input.shape().reduce(op, &axes, false)?;
        if *output.shape() != expected {
            return Err(CoreError::unequal_shapes(op, *output.shape(), expected).into());
        }
        let dtype = input.dtype();
        if self.reduction == Reduction::Mean && !dtype.is_float() {
            return Err(CoreError::UnsupportedDType { op, dtype, hint: "cast to f32 first" }.into());
        }
        let expected = self.reduction.output_dtype(dtype);
        if output.dtype() != expected {
            return Err(CoreError::DTypeMismatch { op, lhs: output.dtype(), rhs: expected }.into());
        }
        let none = axes.iter().any(|&axis| input.shape()[axis] == 0);
        if none
            && output.elements() > 0
            && !matches!(self.reduction, Reduction::Sum | Reduction::Mean)
        {
            return Err(Error::EmptyReduction { op });
        }
        writes_each_element_once(op, output)?;
        if input.overlaps(output) {
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

    fn preferred(
        &self,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> Option<Kernel> {
        opencl::preferred(self, device, inputs[0], output)
    }

    fn kernel_name(&self, kernel: Kernel, inputs: &[&Array], _: &Array) -> String {
        format!("{}_{}_{}", self.name(), inputs[0].dtype(), kernel.name())
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

    fn class(&self) -> Class {
        Class::Reduction
    }

    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        let work = Work::per_input(1, inputs, output);
        Work { parallelism: work.flops.max(1), ..work }
    }

    fn reference(&self, inputs: &[Vec<f64>], arrays: &[&Array], output: &Array) -> Vec<f64> {
        reference::reduce(self, &inputs[0], arrays[0].shape(), arrays[0].dtype(), output.shape())
    }
}
