//! Sets every element of an array, of any layout, to one value.

mod suite;

use polaris_core::{DType, Element, Layout, Shape, bf16, f16};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;
use polaris_runtime::{Buffer, DeviceExt, DeviceRef};
pub(crate) use suite::FAMILY;

use crate::operation::{Operation, run, writes_each_element_once};
use crate::{Array, ArrayType, Class, Error, Result, Work, copy};

/// Fills with a value, rounded or cut off to the array's type as a cast from `f64` does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fill {
    /// The value.
    pub value: f64,
}

/// The ways to fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// The driver's own fill of dense memory.
    Native,
    /// A copy of one repeated element.
    Broadcast,
}

/// A dense array of one value.
///
/// # Errors
/// If there is no room.
pub fn full(device: &DeviceRef, dtype: DType, shape: Shape, value: f64) -> Result<Array> {
    let output = Array::empty(device, dtype, shape)?;
    into(&output, value)?;
    Ok(output)
}

/// Fills an existing array of any layout.
///
/// # Errors
/// If its layout overlaps itself, or the device fails.
pub fn into(output: &Array, value: f64) -> Result<()> {
    run(&Fill { value }, &[], output)
}

impl Fill {
    /// Calls `f` with the value in the array's own type.
    fn typed(
        &self,
        buffer: &Buffer,
        f: impl FnOnce(&Buffer, &dyn FillOne) -> Result<()>,
    ) -> Result<()> {
        match buffer.dtype() {
            DType::F32 => f(buffer, &(self.value as f32)),
            DType::F64 => f(buffer, &self.value),
            DType::F16 => f(buffer, &<f16 as Element>::from_f64(self.value)),
            DType::BF16 => f(buffer, &<bf16 as Element>::from_f64(self.value)),
            DType::I8 => f(buffer, &(self.value as i8)),
            DType::U8 => f(buffer, &(self.value as u8)),
            DType::I32 => f(buffer, &(self.value as i32)),
            DType::I64 => f(buffer, &(self.value as i64)),
            DType::Bool => f(buffer, &<polaris_core::Bool as Element>::from_f64(self.value)),
        }
    }

    fn fill_dense(&self, output: &Array) -> Result<()> {
        let start = output.layout().offset();
        let dense = output.buffer().view(start..start + output.elements())?;
        self.typed(&dense, |buffer, value| value.fill(buffer))
    }

    /// One element with the value, repeated to the output's shape.
    fn repeated(&self, output: &Array) -> Result<Array> {
        let one = output.device().allocate(output.dtype(), 1)?;
        self.typed(&one, |buffer, value| value.fill(buffer))?;
        Array::new(one, Layout::contiguous(Shape::SCALAR))?.broadcast_to(output.shape())
    }
}

/// A value that knows its own type.
trait FillOne {
    fn fill(&self, buffer: &Buffer) -> Result<()>;
}

impl<T: Element> FillOne for T {
    fn fill(&self, buffer: &Buffer) -> Result<()> {
        Ok(buffer.fill(*self)?)
    }
}

impl Operation for Fill {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Native, Kernel::Broadcast];

    fn name(&self) -> &'static str {
        "fill"
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        if !inputs.is_empty() {
            return Err(Error::WrongArity { op, expected: 0, found: inputs.len() });
        }
        writes_each_element_once(op, output)
    }

    fn supports(&self, kernel: Kernel, _: &OpenClDevice, _: &[&Array], output: &Array) -> bool {
        kernel == Kernel::Broadcast || output.layout().is_contiguous()
    }

    fn kernel_name(&self, kernel: Kernel, _: &[&Array], output: &Array) -> String {
        let variant = match kernel {
            Kernel::Native => "native",
            Kernel::Broadcast => "broadcast",
        };
        format!("fill_{}_{variant}", output.dtype())
    }

    fn run_cpu(&self, _: &CpuDevice, _: &[&Array], output: &Array) -> Result<()> {
        if output.layout().is_contiguous() {
            return self.fill_dense(output);
        }
        copy::into(&self.repeated(output)?, output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        kernel: Kernel,
        _: &[&Array],
        output: &Array,
    ) -> Result<()> {
        match kernel {
            Kernel::Native => self.fill_dense(output),
            Kernel::Broadcast => {
                let one = self.repeated(output)?;
                copy::Copy.run_opencl(device, copy::Kernel::Strided, &[&one], output)
            }
        }
    }

    fn class(&self) -> Class {
        Class::Movement
    }

    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        Work::new(0, inputs, output)
    }

    fn reference(&self, _: &[Vec<f64>], _: &[&Array], output: &Array) -> Vec<f64> {
        vec![copy::convert(self.value, DType::F64, output.dtype()); output.elements()]
    }
}
