//! Sorting along an axis. Equal elements keep their order. NaN counts as larger than everything else,
//! and the two zeros as equal.
//!
//! Values are looked up by the indices that the order was found in, for which an OpenCL device is waited
//! for, as [`indexing`](crate::indexing) says.

mod cpu;
mod opencl;
mod reference;
mod suite;

pub use opencl::Kernel;
pub(crate) use opencl::shipped_programs;
pub(crate) use suite::FAMILY;

use polaris_core::{DType, Error as CoreError, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use crate::indexing::gather;
use crate::lanes::Lanes;
use crate::operation::{Operation, run, writes_each_element_once};
use crate::{Array, ArrayType, Class, Error, Result, Work};

/// The indices along an axis that put its elements in order, of which the first ones are kept: the
/// output is `i64` and as long as wanted along the axis, at most as long as the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgSort {
    /// The axis.
    pub axis: usize,
    /// Whether the largest comes first.
    pub descending: bool,
}

/// The elements in order along an axis, and the index that each had.
///
/// # Errors
/// If the axis does not exist or there is no room for the results.
pub fn sort(x: &Array, axis: usize, descending: bool) -> Result<(Array, Array)> {
    let indices = argsort(x, axis, descending)?;
    Ok((gather(x, axis, &indices)?, indices))
}

/// The indices that put the elements in order along an axis, as `i64`.
///
/// # Errors
/// As for [`sort`].
pub fn argsort(x: &Array, axis: usize, descending: bool) -> Result<Array> {
    let op = ArgSort { axis, descending };
    x.shape().axis_mask(op.name(), &[axis])?;
    first_in_order(&op, x, x.shape()[axis])
}

/// The `k` largest elements along an axis, the largest first, and the index that each had.
///
/// # Errors
/// If there are fewer than `k`, or as for [`sort`].
pub fn top_k(x: &Array, k: usize, axis: usize) -> Result<(Array, Array)> {
    let op = "top_k";
    x.shape().axis_mask(op, &[axis])?;
    let length = x.shape()[axis];
    if k > length {
        let what = format!("{k} of the {length} elements along axis {axis} were requested");
        return Err(Error::InvalidParameter { op, what });
    }
    let indices = first_in_order(&ArgSort { axis, descending: true }, x, k)?;
    Ok((gather(x, axis, &indices)?, indices))
}

fn first_in_order(op: &ArgSort, x: &Array, count: usize) -> Result<Array> {
    let mut dims = x.shape().to_vec();
    dims[op.axis] = count;
    let output = Array::empty(x.device(), DType::I64, Shape::new(&dims)?)?;
    run(op, &[x], &output)?;
    Ok(output)
}

impl ArgSort {
    /// The output and the input along the axis, as long as the input.
    fn lanes(&self, x: &Array, output: &Array) -> Result<Lanes<2>> {
        Lanes::new(x.shape(), self.axis, [output.layout(), x.layout()])
    }
}

impl Operation for ArgSort {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Local, Kernel::Radix];

    fn name(&self) -> &'static str {
        "argsort"
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        let [x] = inputs else {
            return Err(Error::WrongArity { op, expected: 1, found: inputs.len() });
        };
        x.shape().axis_mask(op, &[self.axis])?;
        let (lhs, rhs) = (*output.shape(), *x.shape());
        let fits =
            |axis: usize| lhs[axis] == rhs[axis] || axis == self.axis && lhs[axis] <= rhs[axis];
        if lhs.rank() != rhs.rank() || !(0..rhs.rank()).all(fits) {
            return Err(CoreError::unequal_shapes(op, lhs, rhs).into());
        }
        if output.dtype() != DType::I64 {
            let (lhs, rhs) = (output.dtype(), DType::I64);
            return Err(CoreError::DTypeMismatch { op, lhs, rhs }.into());
        }
        writes_each_element_once(op, output)?;
        if x.overlaps(output) {
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

    fn kernel_name(&self, kernel: Kernel, inputs: &[&Array], _: &Array) -> String {
        format!("argsort_{}_{}", inputs[0].dtype(), kernel.name())
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
        Class::Indexing
    }

    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        let comparisons = output.layout.elements().max(2).ilog2();
        Work::per_input(comparisons.into(), inputs, output)
    }

    fn reference(&self, inputs: &[Vec<f64>], arrays: &[&Array], output: &Array) -> Vec<f64> {
        reference::argsort(self, &inputs[0], arrays[0].shape(), output.shape())
    }
}
