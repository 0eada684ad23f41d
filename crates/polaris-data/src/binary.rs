//! Numbers in binary files, of every width and byte order that NPY and IDX know.

use std::io::{ErrorKind, Read};

use crate::{Kind, Values, memory};

/// The type of a stored number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    F2,
    F4,
    F8,
    I1,
    U1,
    I2,
    U2,
    I4,
    U4,
    I8,
    U8,
    B1,
}

/// A number read: wide enough that nothing is lost before its range is checked.
#[derive(Clone, Copy)]
enum Number {
    Float(f64),
    Whole(i128),
}

impl Element {
    /// Bytes of one number.
    pub fn width(self) -> usize {
        match self {
            Element::I1 | Element::U1 | Element::B1 => 1,
            Element::F2 | Element::I2 | Element::U2 => 2,
            Element::F4 | Element::I4 | Element::U4 => 4,
            Element::F8 | Element::I8 | Element::U8 => 8,
        }
    }

    /// NumPy's name for it, without the byte order.
    pub fn code(self) -> &'static str {
        match self {
            Element::F2 => "f2",
            Element::F4 => "f4",
            Element::F8 => "f8",
            Element::I1 => "i1",
            Element::U1 => "u1",
            Element::I2 => "i2",
            Element::U2 => "u2",
            Element::I4 => "i4",
            Element::U4 => "u4",
            Element::I8 => "i8",
            Element::U8 => "u8",
            Element::B1 => "b1",
        }
    }

    /// The kind that holds it best.
    pub fn kind(self) -> Kind {
        match self {
            Element::F2 | Element::F4 | Element::F8 => Kind::F32,
            _ => Kind::I64,
        }
    }

    /// The number in the first bytes of `word`, which are in little-endian order.
    fn number(self, word: [u8; 8]) -> Number {
        let bits = u64::from_le_bytes(word);
        match self {
            Element::F2 => Number::Float(half::f16::from_bits(bits as u16).to_f64()),
            Element::F4 => Number::Float(f32::from_bits(bits as u32).into()),
            Element::F8 => Number::Float(f64::from_bits(bits)),
            Element::I1 => Number::Whole((bits as i8).into()),
            Element::U1 => Number::Whole((bits as u8).into()),
            Element::I2 => Number::Whole((bits as i16).into()),
            Element::U2 => Number::Whole((bits as u16).into()),
            Element::I4 => Number::Whole((bits as i32).into()),
            Element::U4 => Number::Whole((bits as u32).into()),
            Element::I8 => Number::Whole((bits as i64).into()),
            Element::U8 => Number::Whole(bits.into()),
            Element::B1 => Number::Whole((bits as u8 != 0).into()),
        }
    }
}

impl Number {
    fn to_f32(self) -> f32 {
        match self {
            Number::Float(x) => x as f32,
            Number::Whole(x) => x as f32,
        }
    }

    /// As an integer; in words what it is where it is none.
    fn to_i64(self) -> Result<i64, String> {
        match self {
            // 2^63 is a float, the largest i64 is not: the upper bound is exclusive.
            Number::Float(x)
                if x.fract() == 0.0 && (-(2f64.powi(63))..2f64.powi(63)).contains(&x) =>
            {
                Ok(x as i64)
            }
            Number::Float(x) => Err(format!("{x} where a whole number was expected")),
            Number::Whole(x) => {
                i64::try_from(x).map_err(|_| format!("{x}, which exceeds a signed 64-bit integer"))
            }
        }
    }
}

/// How a run of numbers is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    pub element: Element,
    /// Whether the most significant byte comes first.
    pub big_endian: bool,
    pub count: usize,
    /// Whether the reader is known to hold them all. Where it is not (compressed files), memory
    /// grows with what arrives, so that a few bytes cannot ask for gigabytes.
    pub certain: bool,
}

/// Reads numbers as the kind requested. Errors are a reason in words; the caller adds the file.
pub(crate) fn read(reader: &mut dyn Read, stored: Stored, kind: Kind) -> Result<Values, String> {
    let Stored { element, count, .. } = stored;
    let mut values = Values::new(kind);
    let no_memory = |why: String| format!("not enough memory for its {count} values: {why}");
    if stored.certain {
        values.try_reserve(count).map_err(no_memory)?;
    }
    let mut buffer = [0; 8 * 4096];
    let per_buffer = buffer.len() / element.width();
    let mut done = 0;
    while done < count {
        let bytes = &mut buffer[..(count - done).min(per_buffer) * element.width()];
        reader.read_exact(bytes).map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof => {
                format!("it ends within its {count} values, after {done} or more")
            }
            _ => e.to_string(),
        })?;
        let numbers = bytes.len() / element.width();
        match &mut values {
            Values::F32(values) if values.capacity() - values.len() < numbers => {
                memory::grow(values, count).map_err(no_memory)?;
            }
            Values::I64(values) if values.capacity() - values.len() < numbers => {
                memory::grow(values, count).map_err(no_memory)?;
            }
            _ => {}
        }
        for bytes in bytes.chunks_exact(element.width()) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            if stored.big_endian {
                word[..bytes.len()].reverse();
            }
            let number = element.number(word);
            match &mut values {
                Values::F32(values) => values.push(number.to_f32()),
                Values::I64(values) => {
                    values.push(number.to_i64().map_err(|e| format!("value {done} is {e}"))?);
                }
            }
            done += 1;
        }
    }
    Ok(values)
}

/// How many numbers dimensions hold, if their bytes fit into what there is.
pub(crate) fn count(dims: &[usize], element: Element, most: u64) -> Result<usize, String> {
    if dims.contains(&0) {
        return Ok(0);
    }
    let too_large = || {
        format!(
            "dimensions {dims:?} of {} bytes each need more than the {most} bytes of the file",
            element.width()
        )
    };
    let count = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).ok_or_else(too_large)?;
    let bytes = count.checked_mul(element.width()).ok_or_else(too_large)?;
    if bytes as u64 > most { Err(too_large()) } else { Ok(count) }
}
