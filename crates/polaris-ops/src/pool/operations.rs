//! The two operations: their arrays and checks.

use polaris_core::{DType, Error as CoreError, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use super::geometry::Geometry;
use super::opencl::Kernel;
use super::{Pooling, Windows, cpu, cpu_bytes, cpu_gradient, opencl, reference};
use crate::operation::{Operation, check_apart, writes_each_element_once};
use crate::{Array, ArrayType, Class, Error, Result, Work};

/// Pooling of one array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// What becomes of a window's elements.
    pub pooling: Pooling,
    /// The positions of the windows.
    pub windows: Windows,
}

/// The gradient of [`Pool`] with respect to its input. The arrays are, for a maximum, the input and
/// the gradient of the result; for an average, the gradient of the result alone. The output has the
/// input's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolGradient {
    /// What became of a window's elements; indices have no gradient.
    pub pooling: Pooling,
    /// The positions of the windows.
    pub windows: Windows,
}

/// The operations' names.
pub const fn name(pooling: Pooling, gradient: bool) -> &'static str {
    match (pooling, gradient) {
        (Pooling::Max, false) => "max_pool",
        (Pooling::Max, true) => "max_pool_gradient",
        (Pooling::ArgMax, false) => "max_pool_indices",
        (Pooling::ArgMax, true) => "max_pool_indices_gradient",
        (Pooling::Average { .. }, false) => "average_pool",
        (Pooling::Average { .. }, true) => "average_pool_gradient",
    }
}

fn check_arity(op: &'static str, expected: usize, inputs: &[&Array]) -> Result<()> {
    if inputs.len() != expected {
        return Err(Error::WrongArity { op, expected, found: inputs.len() });
    }
    Ok(())
}

fn check_shape(op: &'static str, found: &Shape, expected: &Shape) -> Result<()> {
    if found != expected {
        return Err(CoreError::unequal_shapes(op, *found, *expected).into());
    }
    Ok(())
}

fn check_dtype(op: &'static str, found: DType, expected: DType) -> Result<()> {
    if found != expected {
        return Err(CoreError::DTypeMismatch { op, lhs: found, rhs: expected }.into());
    }
    Ok(())
}

/// What must hold of both operations.
fn check(
    op: &'static str,
    pooling: Pooling,
    windows: &Windows,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    for input in inputs {
        let dtype = input.dtype();
        // Of bytes there are maxima, without gradients.
        let bytes = matches!(dtype, DType::U8 | DType::I8) && op == name(Pooling::Max, false);
        if !dtype.is_float() && !bytes {
            let hint = "cast to f32 first";
            return Err(CoreError::UnsupportedDType { op, dtype, hint }.into());
        }
        check_apart(op, input, output)?;
    }
    if matches!(pooling, Pooling::Average { .. }) && windows.is_dilated() {
        let what = "windows of an average must not be dilated".to_owned();
        return Err(Error::InvalidParameter { op, what });
    }
    writes_each_element_once(op, output)
}

impl Operation for Pool {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Items];

    fn name(&self) -> &'static str {
        name(self.pooling, false)
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        check_arity(op, 1, inputs)?;
        check(op, self.pooling, &self.windows, inputs, output)?;
        check_shape(op, output.shape(), &self.windows.output_shape(op, inputs[0].shape())?)?;
        let dtype = if self.pooling == Pooling::ArgMax { DType::I64 } else { inputs[0].dtype() };
        check_dtype(op, output.dtype(), dtype)
    }

    fn supports(
        &self,
        kernel: Kernel,
        device: &OpenClDevice,
        inputs: &[&Array],
        _: &Array,
    ) -> bool {
        let dtype = inputs[0].dtype();
        kernel == Kernel::Items && dtype.is_float() && opencl::supports(device, dtype)
    }

    fn kernel_name(&self, kernel: Kernel, inputs: &[&Array], _: &Array) -> String {
        format!("{}_{}_{}", self.name(), inputs[0].dtype(), kernel.name())
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        let geometry = Geometry::new(&self.windows, output, inputs[0], inputs[0])?;
        if !inputs[0].dtype().is_float() {
            return cpu_bytes::run(&geometry, cpu, inputs[0], output);
        }
        cpu::run(self.pooling, &geometry, cpu, inputs[0], output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        _: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        let geometry = Geometry::new(&self.windows, output, inputs[0], inputs[0])?;
        opencl::pool(self.pooling, &geometry, device, inputs[0], output)
    }

    fn class(&self) -> Class {
        Class::Pooling
    }

    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        Work::per_input(1, inputs, output)
    }

    fn reference(&self, inputs: &[Vec<f64>], arrays: &[&Array], output: &Array) -> Vec<f64> {
        reference::pool(self.pooling, &self.windows, &inputs[0], arrays[0].shape(), output.shape())
    }
}

impl Operation for PoolGradient {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Indexed, Kernel::Items];

    fn name(&self) -> &'static str {
        name(self.pooling, true)
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        let expected = match self.pooling {
            Pooling::Max => 2,
            Pooling::Average { .. } => 1,
            Pooling::ArgMax => {
                let what = "indices have no gradient; use that of the maxima".to_owned();
                return Err(Error::InvalidParameter { op, what });
            }
        };
        check_arity(op, expected, inputs)?;
        check(op, self.pooling, &self.windows, inputs, output)?;
        if self.pooling == Pooling::Max {
            check_shape(op, inputs[0].shape(), output.shape())?;
        }
        let g = inputs[expected - 1];
        check_shape(op, g.shape(), &self.windows.output_shape(op, output.shape())?)?;
        inputs.iter().try_for_each(|input| check_dtype(op, input.dtype(), output.dtype()))
    }

    fn supports(
        &self,
        kernel: Kernel,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> bool {
        let (x, g) = self.arrays(inputs, output);
        let can = match (self.pooling, kernel) {
            // The search has no registers left for wide indices.
            (Pooling::Max, Kernel::Items) => Geometry::new(&self.windows, g, output, x)
                .is_ok_and(|geometry| !opencl::is_large(&geometry)),
            (Pooling::Max, Kernel::Indexed) => true,
            _ => kernel == Kernel::Items,
        };
        can && opencl::supports(device, output.dtype())
    }

    fn kernel_name(&self, kernel: Kernel, _: &[&Array], output: &Array) -> String {
        format!("{}_{}_{}", self.name(), output.dtype(), kernel.name())
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        let (x, g) = self.arrays(inputs, output);
        let geometry = Geometry::new(&self.windows, g, output, x)?;
        cpu_gradient::run(self.pooling, &geometry, cpu, inputs, output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        kernel: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        let (x, g) = self.arrays(inputs, output);
        let geometry = Geometry::new(&self.windows, g, output, x)?;
        opencl::gradient(self.pooling, &geometry, device, kernel, [x, g], output)
    }

    fn reference(&self, inputs: &[Vec<f64>], arrays: &[&Array], output: &Array) -> Vec<f64> {
        let g_shape = arrays[arrays.len() - 1].shape();
        reference::gradient(self.pooling, &self.windows, inputs, output.shape(), g_shape)
    }
}

impl PoolGradient {
    /// The input, in whose place an average has the output, and the gradient of the result.
    fn arrays<'a>(&self, inputs: &[&'a Array], output: &'a Array) -> (&'a Array, &'a Array) {
        match inputs {
            [x, g] => (x, g),
            _ => (output, inputs[0]),
        }
    }
}
