//! Values of metadata from and to Rust's types.

use crate::value::{Value, ValueType};

/// A Rust type that values of metadata can be read as.
///
/// Integers are read from every integer type whose value fits, since converters differ in the width they write;
/// floats from `f32` and `f64`; `&str` from strings that are UTF-8, `&[u8]` from all strings.
pub trait FromValue<'a>: Sized {
    /// What is expected, for messages: `a u32`.
    const EXPECTED: &'static str;

    /// The value as this type; `None` if it is not one.
    fn from_value(value: Value<'a>) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ident $expected:literal)*) => {$(
        impl FromValue<'_> for $type {
            const EXPECTED: &'static str = $expected;

            fn from_value(value: Value<'_>) -> Option<Self> {
                value.integer().and_then(|value| value.try_into().ok())
            }
        }
    )*};
}

integers! { u16 "a u16" u32 "a u32" u64 "a u64" i32 "an i32" i64 "an i64" }

impl FromValue<'_> for f32 {
    const EXPECTED: &'static str = "an f32";

    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::F32(value) => Some(value),
            Value::F64(value) => Some(value as f32),
            _ => None,
        }
    }
}

impl FromValue<'_> for bool {
    const EXPECTED: &'static str = "a bool";

    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a str {
    const EXPECTED: &'static str = "a string of UTF-8 text";

    fn from_value(value: Value<'a>) -> Option<Self> {
        match value {
            Value::String(value) => std::str::from_utf8(value).ok(),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a [u8] {
    const EXPECTED: &'static str = "a string";

    fn from_value(value: Value<'a>) -> Option<Self> {
        match value {
            Value::String(value) => Some(value),
            _ => None,
        }
    }
}

/// What can be written as a value of metadata: numbers, bools, strings, slices of them, and values that were read.
pub trait ToMetadata {
    /// Appends the type and the value as they are in files.
    fn encode(&self, out: &mut Vec<u8>);
}

impl ToMetadata for Value<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.ty().id().to_le_bytes());
        self.encode_untyped(out);
    }
}

fn encode_array<'v>(
    item: ValueType,
    values: impl ExactSizeIterator<Item = Value<'v>>,
    out: &mut Vec<u8>,
) {
    out.extend(ValueType::Array.id().to_le_bytes());
    out.extend(item.id().to_le_bytes());
    out.extend((values.len() as u64).to_le_bytes());
    for value in values {
        value.encode_untyped(out);
    }
}

macro_rules! scalars {
    ($($type:ident $variant:ident)*) => {$(
        impl ToMetadata for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                Value::$variant(*self).encode(out);
            }
        }

        impl ToMetadata for &[$type] {
            fn encode(&self, out: &mut Vec<u8>) {
                encode_array(ValueType::$variant, self.iter().map(|&value| Value::$variant(value)), out);
            }
        }
    )*};
}

scalars! { u8 U8 i8 I8 u16 U16 i16 I16 u32 U32 i32 I32 f32 F32 bool Bool u64 U64 i64 I64 f64 F64 }

impl ToMetadata for &str {
    fn encode(&self, out: &mut Vec<u8>) {
        Value::String(self.as_bytes()).encode(out);
    }
}

impl ToMetadata for &[&str] {
    fn encode(&self, out: &mut Vec<u8>) {
        let values = self.iter().map(|value| Value::String(value.as_bytes()));
        encode_array(ValueType::String, values, out);
    }
}

impl ToMetadata for &[String] {
    fn encode(&self, out: &mut Vec<u8>) {
        let values = self.iter().map(|value| Value::String(value.as_bytes()));
        encode_array(ValueType::String, values, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_convert_where_they_fit() {
        assert_eq!(u32::from_value(Value::U8(7)), Some(7));
        assert_eq!(u32::from_value(Value::I64(-1)), None);
        assert_eq!(u32::from_value(Value::U64(1 << 32)), None);
        assert_eq!(i32::from_value(Value::U32(u32::MAX)), None);
        assert_eq!(u32::from_value(Value::F32(1.0)), None);
        assert_eq!(f32::from_value(Value::F64(0.5)), Some(0.5));
        assert_eq!(f32::from_value(Value::U32(1)), None);
        assert_eq!(<&str>::from_value(Value::String(&[0xff])), None);
        assert_eq!(<&[u8]>::from_value(Value::String(&[0xff])), Some(&[0xff][..]));
    }
}
