//! Importance in the older format of llama.cpp, little-endian:
//!
//! | | |
//! |---|---|
//! | `i32` | how many tensors there are; for each of them |
//! | `i32`, bytes | the length of its name, and the name |
//! | `i32` | calls: windows that it saw |
//! | `i32`, `f32`... | the number of values, and the values: mean squares, times calls |
//! | `i32` | windows; this and what follows may be missing |
//! | `i32`, bytes | the length of the name of the text, and the name |

use super::{ColumnSums, Importance, USUAL_WINDOW, check};
use crate::{Error, Result};

/// Reads what is in front of it.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8]> {
        let left = self.bytes.len() - self.at;
        if count > left {
            let at = self.at;
            let why = format!("at byte {at}: {what} takes {count} bytes, and there are {left}");
            return Err(Error::NoImportance { why });
        }
        self.at += count;
        Ok(&self.bytes[self.at - count..self.at])
    }

    /// A number that may not be negative.
    fn count(&mut self, what: &str) -> Result<usize> {
        let at = self.at;
        let four = self.take(4, what)?;
        let value = i32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        usize::try_from(value)
            .map_err(|_| Error::NoImportance { why: format!("at byte {at}: {what} is {value}") })
    }

    fn text(&mut self, what: &str) -> Result<&'a str> {
        let length = self.count(&format!("the length of {what}"))?;
        let at = self.at;
        std::str::from_utf8(self.take(length, what)?)
            .map_err(|_| Error::NoImportance { why: format!("at byte {at}: {what} is not UTF-8") })
    }
}

pub(super) fn read(bytes: &[u8]) -> Result<Importance> {
    let mut reader = Reader { bytes, at: 0 };
    let mut result = Importance::new(USUAL_WINDOW);
    let count = reader.count("the number of tensors")?;
    if count == 0 {
        return Err(Error::NoImportance { why: "it has no tensors".to_owned() });
    }
    for number in 0..count {
        let name = reader.text(&format!("the name of tensor {number}"))?;
        let shown = polaris_core::printable(name);
        let calls = reader.count(&format!("the calls of `{shown}`"))?;
        let values = reader.count(&format!("the number of values of `{shown}`"))?;
        if name.is_empty() || values == 0 {
            let why = format!("tensor {number}, `{shown}`, has no name or no values");
            return Err(Error::NoImportance { why });
        }
        let bytes = reader.take(values.saturating_mul(4), &format!("the values of `{shown}`"))?;
        // Sums over calls become sums over tokens; without calls, values are means.
        let factor = if calls == 0 { 1.0 } else { USUAL_WINDOW as f64 };
        let value = |four: &[u8; 4]| f64::from(f32::from_le_bytes(*four)) * factor;
        let sums = ColumnSums {
            squares: bytes.as_chunks().0.iter().map(value).collect(),
            rows: vec![(calls * USUAL_WINDOW).max(1) as u64],
        };
        check(&shown, &sums)?;
        result.windows = result.windows.max(calls);
        if !result.insert(name, sums) {
            return Err(Error::NoImportance { why: format!("`{shown}` is there twice") });
        }
    }
    if reader.at < bytes.len() {
        result.windows = reader.count("the number of windows")?;
    }
    if reader.at < bytes.len() {
        result.texts.push(reader.text("the name of the text")?.to_owned());
    }
    match bytes.len() - reader.at {
        0 => Ok(result),
        left => Err(Error::NoImportance { why: format!("{left} bytes follow its end") }),
    }
}

pub(super) fn write(importance: &Importance) -> Result<Vec<u8>> {
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX).to_le_bytes();
    let mut out = Vec::new();
    let seen = |(_, sums): &(&str, &ColumnSums)| sums.rows.iter().any(|&rows| rows > 0);
    out.extend(number(importance.tensors().filter(seen).count()));
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend(number(text.len()));
        out.extend(text.as_bytes());
    };
    for (name, ColumnSums { squares, rows }) in importance.tensors().filter(seen) {
        text(&mut out, name);
        let most = rows.iter().copied().max().unwrap_or(0);
        let calls = most.div_ceil(importance.window.max(1) as u64);
        out.extend(number(calls as usize));
        out.extend(number(squares.len()));
        for (squares, &rows) in squares.chunks(squares.len() / rows.len()).zip(rows) {
            for &sum in squares {
                let mean = if rows == 0 { 1.0 } else { sum / rows as f64 };
                let value = (mean * calls as f64) as f32;
                if !value.is_finite() {
                    return Err(Error::Activations { tensor: name.to_owned(), sum });
                }
                out.extend(value.to_le_bytes());
            }
        }
    }
    out.extend(number(importance.windows));
    text(&mut out, importance.texts.last().map_or("", String::as_str));
    Ok(out)
}
