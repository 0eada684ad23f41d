//! The types of elements that ONNX has.

use std::fmt;

use crate::{Error, Result};

/// The type of a tensor's elements. The numbers are those of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ElementType {
    F32 = 1,
    U8 = 2,
    I8 = 3,
    U16 = 4,
    I16 = 5,
    I32 = 6,
    I64 = 7,
    String = 8,
    Bool = 9,
    F16 = 10,
    F64 = 11,
    U32 = 12,
    U64 = 13,
    C64 = 14,
    C128 = 15,
    BF16 = 16,
    F8E4M3FN = 17,
    F8E4M3FNUZ = 18,
    F8E5M2 = 19,
    F8E5M2FNUZ = 20,
    U4 = 21,
    I4 = 22,
    F4E2M1 = 23,
    F8E8M0 = 24,
    U2 = 25,
    I2 = 26,
}

use ElementType::*;

impl ElementType {
    /// Every type, in the order of the format's numbers.
    pub const ALL: [Self; 26] = [
        F32, U8, I8, U16, I16, I32, I64, String, Bool, F16, F64, U32, U64, C64, C128, BF16,
        F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, U4, I4, F4E2M1, F8E8M0, U2, I2,
    ];

    /// The type with this number.
    ///
    /// # Errors
    /// If there is none.
    pub fn from_code(code: i32) -> Result<Self> {
        usize::try_from(code)
            .ok()
            .and_then(|code| Self::ALL.get(code.wrapping_sub(1)).copied())
            .ok_or_else(|| Error::unsupported(format!("element type {code}")))
    }

    /// Its number in the format.
    pub fn code(self) -> i32 {
        self as i32
    }

    /// Bytes of an element in memory. Types of 2 and 4 bits have a byte each here; strings count the
    /// pointer that leads to them.
    pub fn size(self) -> usize {
        match self {
            U8 | I8 | Bool | F8E4M3FN | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0 | U4 | I4
            | F4E2M1 | U2 | I2 => 1,
            U16 | I16 | F16 | BF16 => 2,
            F32 | I32 | U32 => 4,
            F64 | I64 | U64 | C64 => 8,
            C128 => 16,
            String => std::mem::size_of::<std::string::String>(),
        }
    }

    /// Bits of an element in a file; `None` for strings.
    pub fn bits_in_files(self) -> Option<usize> {
        match self {
            String => None,
            U4 | I4 | F4E2M1 => Some(4),
            U2 | I2 => Some(2),
            other => Some(8 * other.size()),
        }
    }

    /// Whether it is a real floating-point type, of any width.
    pub fn is_float(self) -> bool {
        matches!(
            self,
            F32 | F16 | F64 | BF16 | F8E4M3FN | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ | F4E2M1 | F8E8M0
        )
    }

    /// Whether it is an integer type, of any width; `bool` is not.
    pub fn is_integer(self) -> bool {
        self.is_signed_integer() || matches!(self, U8 | U16 | U32 | U64 | U4 | U2)
    }

    /// Whether it is a signed integer type.
    pub fn is_signed_integer(self) -> bool {
        matches!(self, I8 | I16 | I32 | I64 | I4 | I2)
    }

    /// Whether it is a complex type.
    pub fn is_complex(self) -> bool {
        matches!(self, C64 | C128)
    }

    /// The name in messages and tables.
    pub fn name(self) -> &'static str {
        match self {
            F32 => "f32",
            U8 => "u8",
            I8 => "i8",
            U16 => "u16",
            I16 => "i16",
            I32 => "i32",
            I64 => "i64",
            String => "string",
            Bool => "bool",
            F16 => "f16",
            F64 => "f64",
            U32 => "u32",
            U64 => "u64",
            C64 => "complex64",
            C128 => "complex128",
            BF16 => "bf16",
            F8E4M3FN => "f8e4m3fn",
            F8E4M3FNUZ => "f8e4m3fnuz",
            F8E5M2 => "f8e5m2",
            F8E5M2FNUZ => "f8e5m2fnuz",
            U4 => "u4",
            I4 => "i4",
            F4E2M1 => "f4e2m1",
            F8E8M0 => "f8e8m0",
            U2 => "u2",
            I2 => "i2",
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
