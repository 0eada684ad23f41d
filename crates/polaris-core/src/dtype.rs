//! The element types of buffers, and the Rust types that stand for them.

use std::fmt;
use std::str::FromStr;

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use crate::Error;

/// The type of one element of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// IEEE half precision; arithmetic on it is done in `f32`.
    F16,
    /// The upper half of an `f32`; arithmetic on it is done in `f32`.
    BF16,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// Truth value in one byte; zero is false, anything else true.
    Bool,
}

impl DType {
    /// Every data type, in a fixed order.
    pub const ALL: [Self; 9] = [
        Self::F32,
        Self::F64,
        Self::F16,
        Self::BF16,
        Self::I8,
        Self::U8,
        Self::I32,
        Self::I64,
        Self::Bool,
    ];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::Bool => 1,
            Self::F16 | Self::BF16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    /// The name used in messages, kernel names and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::I8 => "i8",
            Self::U8 => "u8",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::Bool => "bool",
        }
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64 | Self::F16 | Self::BF16)
    }

    /// Whether this is an integer type; `bool` is not.
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::I8 | Self::U8 | Self::I32 | Self::I64)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DType {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|dtype| dtype.name() == name)
            .ok_or_else(|| Error::UnknownDType { name: name.to_owned() })
    }
}

/// A bool in a buffer: one byte that may hold any bit pattern, since a device or a file may have written it. Zero is
/// false, anything else true.
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct Bool(u8);

impl Bool {
    /// The value as Rust's `bool`.
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    fn from(value: bool) -> Self {
        Self(u8::from(value))
    }
}

impl PartialEq for Bool {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

/// A Rust type that can be an element of a buffer.
pub trait Element: Pod + Send + Sync + PartialEq + fmt::Debug {
    /// The data type this Rust type stands for.
    const DTYPE: DType;

    /// The value in `f64`, for references and reports; `i64` beyond 2^53 is rounded.
    fn to_f64(self) -> f64;

    /// The nearest value of this type; integers saturate, NaN becomes 0, `bool` is `!= 0`.
    fn from_f64(value: f64) -> Self;
}

macro_rules! impl_element {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;

            fn to_f64(self) -> f64 {
                self as f64
            }

            fn from_f64(value: f64) -> Self {
                value as Self
            }
        }
    )*};
}

impl_element!(f32 => F32, f64 => F64, i8 => I8, u8 => U8, i32 => I32, i64 => I64);

impl Element for f16 {
    const DTYPE: DType = DType::F16;

    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    fn from_f64(value: f64) -> Self {
        Self::from_f32(round_to_odd(value))
    }
}

impl Element for bf16 {
    const DTYPE: DType = DType::BF16;

    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    fn from_f64(value: f64) -> Self {
        Self::from_f32(round_to_odd(value))
    }
}

/// Cuts a number off to `f32`, and makes the last bit 1 if anything was lost. Rounding the result
/// further gives what rounding the number itself would have given; rounding to the nearest `f32`
/// first may create a tie, or hide one, and then round the wrong way.
fn round_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    if back == value || value.is_nan() {
        return nearest;
    }
    let bits = nearest.to_bits();
    // Numbers of one sign are ordered like their bits, so one less is one step toward zero.
    let cut_off = if back.abs() > value.abs() { bits - 1 } else { bits };
    f32::from_bits(cut_off | 1)
}

impl Element for Bool {
    const DTYPE: DType = DType::Bool;

    fn to_f64(self) -> f64 {
        f64::from(u8::from(self.get()))
    }

    fn from_f64(value: f64) -> Self {
        Self::from(value != 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for dtype in DType::ALL {
            assert_eq!(dtype.name().parse::<DType>(), Ok(dtype));
        }
        assert!("float".parse::<DType>().unwrap_err().to_string().contains("bf16"));
    }

    #[test]
    fn narrow_floats_are_rounded_once() {
        // Just above and just below the middle between two neighbours, by less than f32 can tell
        // from the middle itself or than the upper half of an f64 holds.
        let from = <bf16 as Element>::from_f64;
        assert_eq!(from(3.007_812_5), bf16::from_f32(3.0));
        assert_eq!(from(3.007_812_5 + 1e-6), bf16::from_f32(3.015_625));
        assert_eq!(from(3.007_812_5 + 1e-12), bf16::from_f32(3.015_625));
        assert_eq!(from(3.007_812_5 - 1e-12), bf16::from_f32(3.0));
        let from = <f16 as Element>::from_f64;
        assert_eq!(from(1.0 + 2f64.powi(-11)), f16::from_f32(1.0));
        assert_eq!(from(1.0 + 2f64.powi(-11) + 1e-15), f16::from_f32(1.000_976_6));
        assert_eq!(from(-1.0 - 2f64.powi(-11) - 1e-15), f16::from_f32(-1.000_976_6));
        assert_eq!((from(1e300), from(-1e300)), (f16::INFINITY, f16::NEG_INFINITY));
        assert_eq!(from(f64::INFINITY), f16::INFINITY);
        assert!(from(f64::NAN).is_nan());
        assert_eq!(from(2f64.powi(-25)), f16::from_f32(0.0));
        assert_eq!(from(2f64.powi(-25) * 1.000_001), f16::from_bits(1));
        assert_eq!(from(1e-300), f16::from_f32(0.0));
    }

    #[test]
    fn any_nonzero_byte_is_true() {
        let raw: &[Bool] = bytemuck::cast_slice(&[0u8, 1, 2, 255]);
        let values: Vec<bool> = raw.iter().map(|b| b.get()).collect();
        assert_eq!(values, [false, true, true, true]);
        assert_eq!(raw[2], Bool::from(true));
    }
}
