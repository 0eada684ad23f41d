//! A position in a file that only moves over bytes that are there.

use std::fmt::Arguments;

use crate::{Error, Result};

/// Reads little-endian numbers and strings. Every length is compared with the bytes left before it is used, as `u64`,
/// so that none is narrowed; nothing is copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At a position that was reached before, or at most the end.
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at: at.min(bytes.len()) }
    }

    pub fn at(&self) -> usize {
        self.at
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// An error at this position.
    pub fn error(&self, why: impl Into<String>) -> Error {
        Error::format(self.at, why)
    }

    /// The next `length` bytes.
    pub fn take(&mut self, length: u64, what: Arguments<'_>) -> Result<&'a [u8]> {
        let left = self.left();
        match usize::try_from(length) {
            Ok(length) if length <= left => {
                let taken = &self.bytes[self.at..self.at + length];
                self.at += length;
                Ok(taken)
            }
            _ => Err(self.error(format!("{what} takes {length} bytes; the file has {left} left"))),
        }
    }

    pub fn array<const N: usize>(&mut self, what: Arguments<'_>) -> Result<[u8; N]> {
        let bytes = self.take(N as u64, what)?;
        Ok(bytes.try_into().expect("`take` should give what was asked for"))
    }

    pub fn u32(&mut self, what: Arguments<'_>) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub fn u64(&mut self, what: Arguments<'_>) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A string: its length and its bytes.
    pub fn string(&mut self, what: Arguments<'_>) -> Result<&'a [u8]> {
        let length = self.u64(what)?;
        self.take(length, what)
    }

    /// A string that must be UTF-8.
    pub fn text(&mut self, what: Arguments<'_>) -> Result<&'a str> {
        let start = self.at;
        let bytes = self.string(what)?;
        std::str::from_utf8(bytes)
            .map_err(|_| Error::format(start, format!("{what} is not UTF-8 text")))
    }

    /// A number of things that take at least `each` bytes: refused unless the bytes left can hold them.
    pub fn count(&mut self, each: u64, what: Arguments<'_>) -> Result<usize> {
        let start = self.at;
        let count = self.u64(what)?;
        let left = self.left();
        match count.checked_mul(each) {
            Some(bytes) if bytes <= left as u64 => Ok(count as usize),
            _ => Err(Error::format(
                start,
                format!(
                    "{what} is {count}; with at least {each} bytes each they do not fit into the \
                     {left} bytes left in the file"
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_compared_before_they_are_used() {
        let mut bytes = 3u64.to_le_bytes().to_vec();
        bytes.extend(b"abc");
        assert_eq!(Cursor::new(&bytes, 0).text(format_args!("it")).unwrap(), "abc");
        // A length that would be 3 if it were narrowed to 32 bits.
        bytes[..8].copy_from_slice(&((1u64 << 32) + 3).to_le_bytes());
        let error = Cursor::new(&bytes, 0).string(format_args!("it")).unwrap_err().to_string();
        assert!(
            error.contains("at byte 8: it takes 4294967299 bytes; the file has 3 left"),
            "{error}"
        );
        let error = Cursor::new(&bytes, 0).count(1, format_args!("n")).unwrap_err().to_string();
        assert!(error.contains("at byte 0: n is 4294967299"), "{error}");
        bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Cursor::new(&bytes, 0).count(8, format_args!("n")).is_err());
        assert!(Cursor::new(&bytes, 99).u32(format_args!("it")).is_err());
    }
}
