//! Look-ups by indices as an operation.

use polaris_core::{Error as CoreError, Layout, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use super::geometry::LookupSpace;
use super::indices::{Axis, check_dtype};
use super::opencl_lookup::{self, Kernel};
use super::{cpu_lookup, reference};
use crate::format::{Format, Stored};
use crate::matmul::widens;
use crate::operation::{Operation, writes_each_element_once};
use crate::{Array, ArrayType, Class, Error, Result, Work};

/// What an index stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupRule {
    /// A whole slice of the input.
    Take,
    /// One element, at the index's own place along all other axes.
    Gather,
}

/// A look-up along an axis. The inputs are the indices and `x`; the output has the type of `x`, or is `f32` where `x` is
/// in half precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lookup {
    /// What an index stands for.
    pub rule: LookupRule,
    /// The axis of `x` that is looked up.
    pub axis: usize,
}

impl Lookup {
    /// The shape of the result.
    pub(super) fn output_shape(&self, index: &Shape, x: &Shape) -> Result<Shape> {
        let op = self.name();
        x.axis_mask(op, &[self.axis])?;
        match self.rule {
            LookupRule::Take => {
                let dims = [&x[..self.axis], index.dims(), &x[self.axis + 1..]].concat();
                Ok(Shape::new(&dims)?)
            }
            LookupRule::Gather => {
                fits_lanes(op, self.axis, index, x)?;
                Ok(*index)
            }
        }
    }

    pub(super) fn space(&self, index: &Layout, x: &Array, output: &Array) -> Result<LookupSpace> {
        let (x, output) = (x.layout(), output.layout());
        match self.rule {
            LookupRule::Take => LookupSpace::take(self.axis, index, x, output),
            LookupRule::Gather => LookupSpace::gather(self.axis, index, x, output),
        }
    }

    pub(super) fn looked_up(&self, x: &Array) -> Axis {
        Axis { op: self.name(), axis: self.axis, length: x.shape()[self.axis] }
    }
}

/// Refuses an index of another rank than `x`, or one that is longer along any other axis.
pub(super) fn fits_lanes(op: &'static str, axis: usize, index: &Shape, x: &Shape) -> Result<()> {
    let longer = || (0..x.rank()).find(|&other| other != axis && index[other] > x[other]);
    if index.rank() != x.rank() || longer().is_some() {
        let what = format!(
            "an index of shape {index} does not fit {x}; it needs as many axes, and none but \
             axis {axis} may be longer"
        );
        return Err(Error::InvalidParameter { op, what });
    }
    Ok(())
}

impl Operation for Lookup {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Rows, Kernel::Strided];

    fn name(&self) -> &'static str {
        match self.rule {
            LookupRule::Take => "take",
            LookupRule::Gather => "gather",
        }
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        let [index, x] = inputs else {
            return Err(Error::WrongArity { op, expected: 2, found: inputs.len() });
        };
        check_dtype(op, index)?;
        let expected = self.output_shape(index.shape(), x.shape())?;
        if *output.shape() != expected {
            return Err(CoreError::unequal_shapes(op, *output.shape(), expected).into());
        }
        if output.dtype() != x.dtype() && !widens(output.dtype(), x.dtype()) {
            let (lhs, rhs) = (output.dtype(), x.dtype());
            return Err(CoreError::DTypeMismatch { op, lhs, rhs }.into());
        }
        writes_each_element_once(op, output)?;
        if inputs.iter().any(|input| input.overlaps(output)) {
            return Err(Error::AliasedOutput { op });
        }
        Ok(())
    }

    fn accepts(&self, input: usize, format: Format) -> bool {
        input == 1 && matches!(format, Format::Block(_))
    }

    fn supports(
        &self,
        kernel: Kernel,
        _: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> bool {
        opencl_lookup::supports(self, kernel, inputs, output)
    }

    fn kernel_name(&self, kernel: Kernel, inputs: &[&Array], output: &Array) -> String {
        let (name, stored) = (self.name(), inputs[1].stored());
        match stored {
            Stored::Dense(from) if from != output.dtype() => {
                format!("{name}_{from}_to_{}_{}", output.dtype(), kernel.name())
            }
            _ => format!("{name}_{stored}_{}", kernel.name()),
        }
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        cpu_lookup::run(self, cpu, inputs[0], inputs[1], output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        kernel: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        opencl_lookup::run(self, device, kernel, inputs[0], inputs[1], output)
    }

    fn class(&self) -> Class {
        Class::Indexing
    }

    /// As much of the table as there are results.
    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        let bytes = inputs.first().map_or(0, ArrayType::bytes) + 2 * output.bytes();
        Work { bytes: bytes as u64, ..Work::new(0, inputs, output) }
    }

    fn reference(&self, inputs: &[Vec<f64>], arrays: &[&Array], output: &Array) -> Vec<f64> {
        reference::lookup(self, inputs, arrays, output.shape())
    }
}
