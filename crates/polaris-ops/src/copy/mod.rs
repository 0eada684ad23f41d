//! Copies between layouts and element types: casts, permutations, gathering of strided views.

mod cpu;
mod opencl;
mod opencl_tiling;
mod suite;

pub use opencl::Kernel;
pub(crate) use opencl::shipped_programs;
pub use opencl_tiling::{
    Tiling, default_tiling, tiling_config, tiling_of, tiling_source, tiling_space,
};
pub(crate) use suite::FAMILY;

use polaris_core::{DType, Element, Error as CoreError, Shape, bf16, f16};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use crate::format::Format;
use crate::operation::{Operation, alias_is_harmless, run, writes_each_element_once};
use crate::{Array, ArrayType, Class, Error, Result, Work};

/// Copies an array, which broadcasts to the output's shape, into the output's layout and type.
///
/// Conversions round to nearest even. Floating point to integer cuts off the fraction and
/// saturates, NaN becomes 0; integer to integer keeps the low bits; anything but zero is true.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copy;

/// The elements in row-major order, densely.
///
/// # Errors
/// If there is no room.
pub fn contiguous(x: &Array) -> Result<Array> {
    cast(x, x.dtype())
}

/// The elements as another type, densely.
///
/// # Errors
/// If there is no room.
pub fn cast(x: &Array, dtype: DType) -> Result<Array> {
    let output = Array::empty(x.device(), dtype, *x.shape())?;
    into(x, &output)?;
    Ok(output)
}

/// Copies into an existing array of any layout and type.
///
/// # Errors
/// If the shapes do not fit, or the two overlap.
pub fn into(x: &Array, output: &Array) -> Result<()> {
    run(&Copy, &[x], output)
}

/// Arrays of one type side by side along an axis; all other axes are equally long. Takes one launch
/// for each of them.
///
/// # Errors
/// If there is no array, the axis does not exist, shapes or types do not fit, or there is no room for
/// the result.
pub fn concatenate(arrays: &[&Array], axis: usize) -> Result<Array> {
    let op = "concatenate";
    let Some(&first) = arrays.first() else {
        let what = "there is nothing to concatenate; give at least one array".to_owned();
        return Err(Error::InvalidParameter { op, what });
    };
    first.shape().axis_mask(op, &[axis])?;
    let mut dims = first.shape().to_vec();
    dims[axis] = 0;
    for array in arrays {
        let (lhs, rhs) = (*first.shape(), *array.shape());
        let fits = |other: usize| other == axis || lhs[other] == rhs[other];
        if lhs.rank() != rhs.rank() || !(0..lhs.rank()).all(fits) {
            let hint = "only the dimensions of the axis may differ";
            return Err(CoreError::ShapeMismatch { op, lhs, rhs, hint }.into());
        }
        let (lhs, rhs) = (first.dtype(), array.dtype());
        if lhs != rhs {
            return Err(CoreError::DTypeMismatch { op, lhs, rhs }.into());
        }
        dims[axis] = dims[axis].saturating_add(array.shape()[axis]);
    }
    let output = Array::empty(first.device(), first.dtype(), Shape::new(&dims)?)?;
    let mut start = 0;
    for array in arrays {
        let end = start + array.shape()[axis];
        into(array, &output.slice(axis, start..end, 1)?)?;
        start = end;
    }
    Ok(output)
}

impl Operation for Copy {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] =
        &[Kernel::Native, Kernel::Vector, Kernel::Tiled(Tiling::DEFAULT), Kernel::Strided];

    fn name(&self) -> &'static str {
        "copy"
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        let [input] = inputs else {
            return Err(Error::WrongArity { op, expected: 1, found: inputs.len() });
        };
        input.layout().broadcast_to(op, output.shape())?;
        writes_each_element_once(op, output)?;
        if !alias_is_harmless(input, output) {
            return Err(Error::AliasedOutput { op });
        }
        Ok(())
    }

    fn accepts(&self, _: usize, format: Format) -> bool {
        matches!(format, Format::Block(_))
    }

    fn supports(
        &self,
        kernel: Kernel,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> bool {
        opencl::supports(kernel, device, inputs[0], output)
    }

    fn preferred(
        &self,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> Option<Kernel> {
        opencl::preferred(device, inputs[0], output)
    }

    fn kernel_name(&self, kernel: Kernel, inputs: &[&Array], output: &Array) -> String {
        match (inputs[0].stored(), output.stored()) {
            (from, to) if from == to => format!("copy_{from}_{}", kernel.name()),
            (from, to) => format!("copy_{from}_to_{to}_{}", kernel.name()),
        }
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        cpu::run(cpu, inputs[0], output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        kernel: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        opencl::run(device, kernel, inputs[0], output)
    }

    fn class(&self) -> Class {
        Class::Movement
    }

    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        Work::new(0, inputs, output)
    }

    fn reference(&self, inputs: &[Vec<f64>], arrays: &[&Array], output: &Array) -> Vec<f64> {
        let (from, to) = (arrays[0].dtype(), output.dtype());
        let dense = polaris_core::Layout::contiguous(*arrays[0].shape());
        let layout = dense
            .broadcast_to("reference", output.shape())
            .expect("shapes should have been checked");
        let space = polaris_core::Collapsed::new(output.shape(), [&layout]);
        (0..output.elements())
            .map(|point| convert(inputs[0][space.point(point)[0]], from, to))
            .collect()
    }
}

/// One element by definition.
pub(crate) fn convert(value: f64, from: DType, to: DType) -> f64 {
    let whole = value as i128;
    match to {
        DType::F64 => value,
        DType::F32 => f64::from(value as f32),
        DType::F16 => f64::from(<f16 as Element>::from_f64(value)),
        DType::BF16 => f64::from(<bf16 as Element>::from_f64(value)),
        DType::Bool => f64::from(u8::from(value != 0.0)),
        DType::I8 if from.is_float() => f64::from(value as i8),
        DType::U8 if from.is_float() => f64::from(value as u8),
        DType::I32 if from.is_float() => f64::from(value as i32),
        DType::I64 if from.is_float() => (value as i64) as f64,
        DType::I8 => f64::from(whole as i8),
        DType::U8 => f64::from(whole as u8),
        DType::I32 => f64::from(whole as i32),
        DType::I64 => (whole as i64) as f64,
    }
}
