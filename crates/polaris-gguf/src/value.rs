//! Values of metadata: thirteen types, of which one is an array of another.

use std::fmt;

use crate::cursor::Cursor;
use crate::error::Shown;
use crate::{Error, Result};

/// The type of a value in metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is the Rust type of the same name")]
pub enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl ValueType {
    /// All types; the place of each is its number in files.
    pub const ALL: [Self; 13] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::Bool,
        Self::String,
        Self::Array,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    /// Its number in files.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Array => "array",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
        }
    }

    /// The bytes of a value of this type, for strings those of an empty one. Arrays do not stand in arrays.
    const fn bytes(self) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::String => 8,
            Self::Array => 12,
        }
    }

    fn read(cursor: &mut Cursor<'_>, what: fmt::Arguments<'_>) -> Result<Self> {
        let start = cursor.at();
        let id = cursor.u32(what)?;
        Self::ALL.get(id as usize).copied().ok_or_else(|| {
            Error::format(start, format!("{what} has the value type {id}; accepted are 0 to 12"))
        })
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A value of metadata, borrowed from the file.
///
/// Strings are bytes: the format says UTF-8, and files are not refused for a description that is not.
/// [`Metadata::get`](crate::Metadata::get) gives `&str` and checks.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "each is the Rust type of the same name")]
pub enum Value<'a> {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(&'a [u8]),
    Array(Array<'a>),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// An array of values of one type, read element by element where it lies in the file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Array<'a> {
    item: ValueType,
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Value<'a> {
    /// Reads a value with its type in front, and checks all of it.
    pub(crate) fn read(cursor: &mut Cursor<'a>, what: fmt::Arguments<'_>) -> Result<Self> {
        let ty = ValueType::read(cursor, what)?;
        match ty {
            ValueType::Array => Array::read(cursor, what).map(Self::Array),
            _ => Self::read_scalar(cursor, ty, what),
        }
    }

    /// Reads a value that is no array.
    fn read_scalar(
        cursor: &mut Cursor<'a>,
        ty: ValueType,
        what: fmt::Arguments<'_>,
    ) -> Result<Self> {
        Ok(match ty {
            ValueType::U8 => Self::U8(u8::from_le_bytes(cursor.array(what)?)),
            ValueType::I8 => Self::I8(i8::from_le_bytes(cursor.array(what)?)),
            ValueType::U16 => Self::U16(u16::from_le_bytes(cursor.array(what)?)),
            ValueType::I16 => Self::I16(i16::from_le_bytes(cursor.array(what)?)),
            ValueType::U32 => Self::U32(u32::from_le_bytes(cursor.array(what)?)),
            ValueType::I32 => Self::I32(i32::from_le_bytes(cursor.array(what)?)),
            ValueType::F32 => Self::F32(f32::from_le_bytes(cursor.array(what)?)),
            ValueType::U64 => Self::U64(u64::from_le_bytes(cursor.array(what)?)),
            ValueType::I64 => Self::I64(i64::from_le_bytes(cursor.array(what)?)),
            ValueType::F64 => Self::F64(f64::from_le_bytes(cursor.array(what)?)),
            ValueType::String => Self::String(cursor.string(what)?),
            ValueType::Bool => {
                let start = cursor.at();
                match cursor.array(what)? {
                    [0] => Self::Bool(false),
                    [1] => Self::Bool(true),
                    [other] => {
                        let why = format!("{what} is a bool of {other}; accepted are 0 and 1");
                        return Err(Error::format(start, why));
                    }
                }
            }
            ValueType::Array => {
                return Err(cursor.error(format!(
                    "{what} is an array of arrays; arrays of numbers, bools and strings are accepted"
                )));
            }
        })
    }

    /// Its type.
    pub const fn ty(&self) -> ValueType {
        match self {
            Self::U8(_) => ValueType::U8,
            Self::I8(_) => ValueType::I8,
            Self::U16(_) => ValueType::U16,
            Self::I16(_) => ValueType::I16,
            Self::U32(_) => ValueType::U32,
            Self::I32(_) => ValueType::I32,
            Self::F32(_) => ValueType::F32,
            Self::Bool(_) => ValueType::Bool,
            Self::String(_) => ValueType::String,
            Self::Array(_) => ValueType::Array,
            Self::U64(_) => ValueType::U64,
            Self::I64(_) => ValueType::I64,
            Self::F64(_) => ValueType::F64,
        }
    }

    /// Its number, if it is one of the integer types.
    pub const fn integer(&self) -> Option<i128> {
        Some(match *self {
            Self::U8(value) => value as i128,
            Self::I8(value) => value as i128,
            Self::U16(value) => value as i128,
            Self::I16(value) => value as i128,
            Self::U32(value) => value as i128,
            Self::I32(value) => value as i128,
            Self::U64(value) => value as i128,
            Self::I64(value) => value as i128,
            _ => return None,
        })
    }

    /// Appends it as it is in files, without its type.
    pub(crate) fn encode_untyped(&self, out: &mut Vec<u8>) {
        match self {
            Self::U8(value) => out.extend(value.to_le_bytes()),
            Self::I8(value) => out.extend(value.to_le_bytes()),
            Self::U16(value) => out.extend(value.to_le_bytes()),
            Self::I16(value) => out.extend(value.to_le_bytes()),
            Self::U32(value) => out.extend(value.to_le_bytes()),
            Self::I32(value) => out.extend(value.to_le_bytes()),
            Self::F32(value) => out.extend(value.to_le_bytes()),
            Self::Bool(value) => out.push(u8::from(*value)),
            Self::String(value) => {
                out.extend((value.len() as u64).to_le_bytes());
                out.extend(*value);
            }
            Self::Array(array) => {
                out.extend(array.item.id().to_le_bytes());
                out.extend((array.count as u64).to_le_bytes());
                out.extend(array.bytes);
            }
            Self::U64(value) => out.extend(value.to_le_bytes()),
            Self::I64(value) => out.extend(value.to_le_bytes()),
            Self::F64(value) => out.extend(value.to_le_bytes()),
        }
    }
}

/// The value and its type, for messages: `-1 (i32)`, `an array of 3 strings`.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::F32(value) => write!(f, "{value} (f32)"),
            Self::F64(value) => write!(f, "{value} (f64)"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::String(value) => write!(f, "\"{}\"", Shown(&String::from_utf8_lossy(value))),
            Self::Array(array) => write!(f, "an array of {} {}s", array.count, array.item),
            _ => write!(f, "{} ({})", self.integer().unwrap_or_default(), self.ty()),
        }
    }
}

impl<'a> Array<'a> {
    fn read(cursor: &mut Cursor<'a>, what: fmt::Arguments<'_>) -> Result<Self> {
        let item = ValueType::read(cursor, what)?;
        let count = cursor.count(item.bytes(), format_args!("the length of {what}"))?;
        let rest = *cursor;
        match item {
            ValueType::String | ValueType::Array | ValueType::Bool => {
                for _ in 0..count {
                    Value::read_scalar(cursor, item, what)?;
                }
            }
            // Every pattern of bits is a number.
            _ => drop(cursor.take(count as u64 * item.bytes(), what)?),
        }
        let bytes = { rest }.take((cursor.at() - rest.at()) as u64, what)?;
        Ok(Self { item, count, bytes })
    }

    /// The type of its elements.
    pub const fn item(&self) -> ValueType {
        self.item
    }

    /// How many elements it has.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Its elements, in order.
    pub fn values(self) -> impl ExactSizeIterator<Item = Value<'a>> {
        let mut cursor = Cursor::new(self.bytes, 0);
        (0..self.count).map(move |_| {
            Value::read_scalar(&mut cursor, self.item, format_args!("an element"))
                .expect("arrays should have been checked when they were read")
        })
    }
}
