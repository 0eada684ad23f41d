//! Quantised convolutions: images and results are `u8` or `i8`, weights are `i8`, and accumulators are integers. The
//! epilogue is part of the convolution, so wider results never reach memory.

use polaris_core::{DType, Error as CoreError, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use super::cpu::bytes as cpu;
use super::cpu::weights::{has_panels, pack};
use super::geometry::{Form, Geometry};
use super::opencl_quantized as opencl;
use super::problem::Convolution;
use super::reference;
use crate::format::{Format, Role};
use crate::operation::{Operation, check_apart};
use crate::quantize::Limits;
use crate::work::lengths_from;
use crate::{Array, ArrayType, Class, Error, Result, Work};

const OP: &str = "quantized_convolution";

/// An int8 convolution. The arrays are x, of `u8` or `i8`; the weight, of `i8`, dense or in panels; a factor of
/// `f32` for each output channel; and, if there are four, a bias of `i32` for each. The result, of `u8` or `i8`, is
///
/// `saturate(round((sum of (x - input zero) weight + bias) factor) + output zero)`
///
/// with accumulators of 32 bits that wrap around, products with factors in `f32`, and ties to even. Padding is the
/// input's zero point. The factors contain the scales of all arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuantizedConvolution {
    /// How the kernel slides.
    pub problem: Convolution,
    /// The byte of images that stands for zero.
    pub input_zero: i32,
    /// The byte of results that stands for zero.
    pub output_zero: i32,
    /// Whether negative results become zero.
    pub relu: bool,
}

/// The kernels of quantised convolutions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// A work-item for each element.
    Simple,
}

/// The arrays by their roles.
pub(super) struct Parts<'a> {
    pub x: &'a Array,
    pub weight: &'a Array,
    pub factors: &'a Array,
    pub bias: Option<&'a Array>,
    pub geometry: Geometry,
    pub limits: Limits,
}

impl QuantizedConvolution {
    /// Checks that the arrays fit together, and sorts them.
    pub(super) fn parts<'a>(&self, inputs: &[&'a Array], output: &Array) -> Result<Parts<'a>> {
        let &[x, weight, factors, ref rest @ ..] = inputs else {
            return Err(Error::WrongArity { op: OP, expected: 3, found: inputs.len() });
        };
        if rest.len() > 1 {
            return Err(Error::WrongArity { op: OP, expected: 4, found: inputs.len() });
        }
        let bias = rest.first().copied();
        for image in [x, output] {
            if !matches!(image.dtype(), DType::U8 | DType::I8) {
                let (dtype, hint) = (image.dtype(), "images and results are u8 or i8");
                return Err(CoreError::UnsupportedDType { op: OP, dtype, hint }.into());
            }
        }
        let typed = [(Some(weight), DType::I8), (Some(factors), DType::F32), (bias, DType::I32)];
        for (array, rhs) in typed {
            if let Some(lhs) = array.map(Array::dtype).filter(|&lhs| lhs != rhs) {
                return Err(CoreError::DTypeMismatch { op: OP, lhs, rhs }.into());
            }
        }
        let problem = &self.problem;
        let geometry = Geometry::of_any_type(Form::Output, problem, &[x, weight], output)?;
        let channels = Shape::new(&[weight.shape()[0]])?;
        for vector in [Some(factors), bias].into_iter().flatten() {
            if *vector.shape() != channels {
                return Err(CoreError::unequal_shapes(OP, *vector.shape(), channels).into());
            }
        }
        inputs.iter().try_for_each(|input| check_apart(OP, input, output))?;
        let limits = Limits::new((output.dtype(), self.output_zero), self.relu);
        let limits = limits.ok_or_else(|| no_byte(self.output_zero, output.dtype()))?;
        if Limits::new((x.dtype(), self.input_zero), false).is_none() {
            return Err(no_byte(self.input_zero, x.dtype()));
        }
        Ok(Parts { x, weight, factors, bias, geometry, limits })
    }
}

fn no_byte(zero: i32, dtype: DType) -> Error {
    let what = format!("the zero point {zero} is out of range for {dtype}");
    Error::InvalidParameter { op: OP, what }
}

impl Operation for QuantizedConvolution {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Simple];

    fn name(&self) -> &'static str {
        OP
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        self.parts(inputs, output).map(|_| ())
    }

    fn accepts(&self, input: usize, format: Format) -> bool {
        input == 1 && matches!(format, Format::Panels(_))
    }

    fn supports(&self, _: Kernel, _: &OpenClDevice, inputs: &[&Array], output: &Array) -> bool {
        self.parts(inputs, output).is_ok_and(|parts| super::opencl::fits_signed(&parts.geometry))
    }

    fn kernel_name(&self, _: Kernel, inputs: &[&Array], output: &Array) -> String {
        format!("{OP}_{}_to_{}_simple", inputs[0].dtype(), output.dtype())
    }

    fn run_cpu(&self, device: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        let parts = self.parts(inputs, output)?;
        let role = Role::Convolution { groups: self.problem.groups };
        let (weight, groups) = (parts.weight, self.problem.groups);
        match weight.format() {
            Format::Panels(panels) if panels.role == role => {
                cpu::run(device, device.simd(), self, &parts, weight.buffer(), output)
            }
            Format::Dense if has_panels(groups, DType::I8, weight.shape()) => cpu::run(
                device,
                device.simd(),
                self,
                &parts,
                &pack(device, groups, weight)?,
                output,
            ),
            Format::Dense => cpu::run_plainly(device, self, &parts, output),
            format => Err(Error::UnsupportedFormat { op: OP, format }),
        }
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        _: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        opencl::run(self, device, &self.parts(inputs, output)?, output)
    }

    fn class(&self) -> Class {
        Class::Convolution
    }

    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        Work::per_result(2 * lengths_from(inputs, 1, 1), inputs, output)
    }

    fn reference(&self, values: &[Vec<f64>], inputs: &[&Array], output: &Array) -> Vec<f64> {
        let parts = self.parts(inputs, output).expect("the arrays should have been checked");
        let centred = values[0].iter().map(|x| x - f64::from(self.input_zero)).collect();
        let plain = [centred, values[1].clone()];
        let sums =
            reference::convolution(Form::Output, &self.problem, &plain, &inputs[..2], output);
        let shape = output.shape();
        let each: usize = shape[2..].iter().product();
        let of = |(at, &sum): (usize, &f64)| {
            let channel = at / each % shape[1];
            let bias = values.get(3).map_or(0.0, |bias| bias[channel]);
            // Whole numbers that `f64` holds exactly.
            let sum = (sum + bias) as i64 as i32;
            f64::from(parts.limits.whole(sum as f32 * values[2][channel] as f32))
        };
        sums.iter().enumerate().map(of).collect()
    }
}
