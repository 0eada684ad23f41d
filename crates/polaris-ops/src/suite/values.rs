//! Values of every element type as `f64`, and the way to and from buffers.

use crate::Result;
use polaris_core::random::SplitMix64;
use polaris_core::{Bool, DType, Element, bf16, f16};
use polaris_runtime::{Buffer, DeviceExt, DeviceRef};

/// Random numbers: the same on every platform and in every version.
#[derive(Debug, Clone)]
pub struct Numbers(SplitMix64);

impl Numbers {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// Below a bound, or 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound.max(1)
    }

    /// From `low` to `high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + self.0.unit() * (high - low)
    }
}

/// What values an operand has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Domain {
    /// Of either sign, around 1, with exact zeros and repetitions.
    Any,
    /// Above zero and not tiny.
    Positive,
    /// Of either sign, not near zero.
    NonZero,
}

/// Values that are hard to get right, as far as the type has them. Denormal numbers are left
/// out: devices may treat them as zero.
const SPECIAL: [f64; 8] =
    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 30_000.0, -30_000.0, 0.5];

/// Draws values that the type represents exactly.
pub fn draw(
    numbers: &mut Numbers,
    dtype: DType,
    domain: Domain,
    special: bool,
    count: usize,
) -> Vec<f64> {
    let one = |numbers: &mut Numbers| -> f64 {
        if special && dtype.is_float() && numbers.below(8) == 0 {
            return SPECIAL[numbers.below(SPECIAL.len() as u64) as usize];
        }
        match (dtype, domain) {
            (DType::Bool, _) => numbers.below(2) as f64,
            (DType::U8, Domain::Any) => numbers.below(256) as f64,
            (DType::I8, Domain::Any) => numbers.below(256) as f64 - 128.0,
            (DType::I32, Domain::Any) if special => numbers.bits() as i32 as f64,
            (_, Domain::Any) if dtype.is_integer() => {
                numbers.below(1 << 21) as f64 - (1u64 << 20) as f64
            }
            (_, Domain::Positive | Domain::NonZero) if dtype.is_integer() => {
                1.0 + numbers.below(100) as f64
            }
            (_, Domain::Any) if numbers.below(16) == 0 => numbers.below(3) as f64 - 1.0,
            (_, Domain::Any) => numbers.between(-4.0, 4.0),
            (_, Domain::Positive) => numbers.between(0.05, 8.0),
            (_, Domain::NonZero) => {
                let sign = if numbers.below(2) == 0 { 1.0 } else { -1.0 };
                sign * numbers.between(0.25, 8.0)
            }
        }
    };
    (0..count).map(|_| rounded(one(numbers), dtype)).collect()
}

/// The nearest value of the type.
pub fn rounded(value: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F32 => f64::from(value as f32),
        DType::F16 => f64::from(<f16 as Element>::from_f64(value)),
        DType::BF16 => f64::from(<bf16 as Element>::from_f64(value)),
        _ => value,
    }
}

/// Calls a function with the Rust type of a data type.
macro_rules! with_type {
    ($dtype:expr, $f:ident ( $($arg:expr),* )) => {
        match $dtype {
            DType::F32 => $f::<f32>($($arg),*),
            DType::F64 => $f::<f64>($($arg),*),
            DType::F16 => $f::<f16>($($arg),*),
            DType::BF16 => $f::<bf16>($($arg),*),
            DType::I8 => $f::<i8>($($arg),*),
            DType::U8 => $f::<u8>($($arg),*),
            DType::I32 => $f::<i32>($($arg),*),
            DType::I64 => $f::<i64>($($arg),*),
            DType::Bool => $f::<Bool>($($arg),*),
        }
    };
}

/// A buffer of these values.
pub fn upload(device: &DeviceRef, dtype: DType, values: &[f64]) -> Result<Buffer> {
    fn typed<T: Element>(device: &DeviceRef, values: &[f64]) -> Result<Buffer> {
        let values: Vec<T> = values.iter().map(|&value| T::from_f64(value)).collect();
        Ok(device.upload(&values)?)
    }
    with_type!(dtype, typed(device, values))
}

/// The values of a buffer.
pub fn download(buffer: &Buffer) -> Result<Vec<f64>> {
    fn typed<T: Element>(buffer: &Buffer) -> Result<Vec<f64>> {
        Ok(buffer.to_vec::<T>()?.into_iter().map(T::to_f64).collect())
    }
    with_type!(buffer.dtype(), typed(buffer))
}
