//! Random numbers that depend only on seed and position: the same bits on every device, with any
//! number of threads, in any order.
//!
//! Element `i` is made from word `i % 4` of block `i / 4` of the counter-based generator
//! Philox 4x32-10 (Salmon et al., 2011), keyed by the seed. Everything after it uses only
//! operations that IEEE 754 defines exactly, and no fused multiply-add.

mod cpu;
mod opencl;
mod philox;
mod suite;

pub use opencl::Kernel;
pub(crate) use suite::FAMILY;

use polaris_core::{DType, Element, Error as CoreError, Shape, bf16, f16};
use polaris_runtime::DeviceRef;
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use crate::operation::{Operation, run, writes_each_element_once};
use crate::{Array, Error, Result};

/// How random numbers are distributed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// All values of an integer type, or of `bool`, are equally likely.
    Bits,
    /// Floating-point numbers from `low` up to (rounding apart) but not including `high`.
    Uniform {
        /// The smallest value.
        low: f64,
        /// The bound above.
        high: f64,
    },
    /// Normally distributed floating-point numbers, with the resolution of `f32`.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        deviation: f64,
    },
}

/// Fills an array with random numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Random {
    /// Their distribution.
    pub distribution: Distribution,
    /// Another seed gives another sequence.
    pub seed: u64,
    /// Where in the sequence the array begins; a multiple of four.
    pub offset: u64,
}

/// A dense array of random numbers.
///
/// # Errors
/// If the type does not fit the distribution, or there is no room.
pub fn random(
    device: &DeviceRef,
    dtype: DType,
    shape: Shape,
    distribution: Distribution,
    seed: u64,
) -> Result<Array> {
    let output = Array::empty(device, dtype, shape)?;
    run(&Random { distribution, seed, offset: 0 }, &[], &output)?;
    Ok(output)
}

impl Operation for Random {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Dense, Kernel::Scattered];

    fn name(&self) -> &'static str {
        match self.distribution {
            Distribution::Bits => "random_bits",
            Distribution::Uniform { .. } => "random_uniform",
            Distribution::Normal { .. } => "random_normal",
        }
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        if !inputs.is_empty() {
            return Err(Error::WrongArity { op, expected: 0, found: inputs.len() });
        }
        let dtype = output.dtype();
        match self.distribution {
            Distribution::Bits if dtype.is_float() => {
                let hint = "ask for a uniform or normal distribution, or for integers";
                return Err(CoreError::UnsupportedDType { op, dtype, hint }.into());
            }
            Distribution::Uniform { .. } | Distribution::Normal { .. } if !dtype.is_float() => {
                let hint = "ask for bits, or for a floating-point type";
                return Err(CoreError::UnsupportedDType { op, dtype, hint }.into());
            }
            Distribution::Uniform { low, high }
                if !(low.is_finite() && high.is_finite() && low <= high) =>
            {
                let what = format!("the range {low} to {high} is empty or not finite");
                return Err(Error::InvalidParameter { op, what });
            }
            Distribution::Normal { mean, deviation }
                if !(mean.is_finite() && deviation.is_finite() && deviation >= 0.0) =>
            {
                let what = format!(
                    "mean {mean} and deviation {deviation} must be finite, the latter not negative"
                );
                return Err(Error::InvalidParameter { op, what });
            }
            _ => {}
        }
        if !self.offset.is_multiple_of(4) {
            let what = format!("the offset {} is not a multiple of four", self.offset);
            return Err(Error::InvalidParameter { op, what });
        }
        writes_each_element_once(op, output)
    }

    fn supports(
        &self,
        kernel: Kernel,
        device: &OpenClDevice,
        _: &[&Array],
        output: &Array,
    ) -> bool {
        opencl::supports(kernel, device, output)
    }

    fn kernel_name(&self, kernel: Kernel, _: &[&Array], output: &Array) -> String {
        format!("{}_{}_{}", self.name(), output.dtype(), kernel.name())
    }

    fn run_cpu(&self, cpu: &CpuDevice, _: &[&Array], output: &Array) -> Result<()> {
        cpu::run(self, cpu, output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        kernel: Kernel,
        _: &[&Array],
        output: &Array,
    ) -> Result<()> {
        opencl::run(self, device, kernel, output)
    }

    fn reference(&self, _: &[Vec<f64>], _: &[&Array], output: &Array) -> Vec<f64> {
        let dtype = output.dtype();
        let value = |index: u64| {
            let low_word =
                philox::words(self.seed, (self.offset + index) / 4, 0)[index as usize % 4];
            let high_word =
                philox::words(self.seed, (self.offset + index) / 4, 1)[index as usize % 4];
            let whole = u64::from(high_word) << 32 | u64::from(low_word);
            let exact = match self.distribution {
                Distribution::Bits => {
                    return match dtype {
                        DType::I8 => f64::from(low_word as i8),
                        DType::U8 => f64::from(low_word as u8),
                        DType::I32 => f64::from(low_word as i32),
                        DType::I64 => whole as i64 as f64,
                        _ => f64::from(low_word & 1),
                    };
                }
                Distribution::Uniform { low, high } if dtype == DType::F64 => {
                    low + (whole >> 11) as f64 / 2f64.powi(53) * (high - low)
                }
                Distribution::Uniform { low, high } => {
                    low + f64::from(low_word >> 8) / 2f64.powi(24) * (high - low)
                }
                Distribution::Normal { mean, deviation } => {
                    mean + deviation * philox::exact_normal(low_word)
                }
            };
            match dtype {
                DType::F16 => f64::from(<f16 as Element>::from_f64(exact)),
                DType::BF16 => f64::from(<bf16 as Element>::from_f64(exact)),
                DType::F32 => f64::from(exact as f32),
                _ => exact,
            }
        };
        (0..output.elements() as u64).map(value).collect()
    }
}
