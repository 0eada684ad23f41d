//! A text line by line, in bounded memory whatever the text is.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::{Result, files};

/// The most bytes of a line that is read.
const LONGEST: u64 = 1 << 20;

/// Why a line is not a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineFault {
    /// Nothing but white space.
    Empty,
    /// Bytes that are not letters of UTF-8; the first of them, counted from 1.
    NotUtf8(usize),
    /// More bytes than are read of a line.
    TooLong,
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::NotUtf8(byte) => write!(f, "it is not UTF-8: byte {byte} is invalid"),
            Self::TooLong => write!(f, "it is longer than {LONGEST} bytes"),
        }
    }
}

/// A line without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Bytes it takes, with its end.
    pub bytes: u64,
    /// Its text.
    pub text: std::result::Result<String, LineFault>,
}

/// Lines that end in `\n` or `\r\n`; the last one may lack its end.
pub struct Lines {
    reader: Box<dyn BufRead + Send>,
    total: Option<u64>,
    first: bool,
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("total", &self.total).finish_non_exhaustive()
    }
}

impl Lines {
    /// The lines of a file, plain or gzip-compressed.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let input = files::open(path.as_ref())?;
        let total = input.exact.then_some(input.most);
        Ok(Self { total, ..Self::new(input.reader) })
    }

    /// The lines of what a reader gives.
    pub fn new(reader: impl Read + Send + 'static) -> Self {
        let reader = Box::new(BufReader::with_capacity(1 << 16, reader));
        Self { reader, total: None, first: true }
    }

    /// All bytes there are, if that is known.
    pub fn total_bytes(&self) -> Option<u64> {
        self.total
    }

    fn read(&mut self) -> io::Result<Option<Line>> {
        let mut line = Vec::new();
        // One byte more shows that a line is too long, another one is for `\r`, one for `\n`.
        let mut bytes = (&mut self.reader).take(LONGEST + 2).read_until(b'\n', &mut line)? as u64;
        if bytes == 0 {
            return Ok(None);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if bytes == LONGEST + 2 {
            bytes += self.skip_to_end()?;
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        let is_first = std::mem::take(&mut self.first);
        Ok(Some(Line { bytes, text: text(line, is_first) }))
    }

    /// Reads on to the end of the line.
    fn skip_to_end(&mut self) -> io::Result<u64> {
        let mut skipped = 0;
        loop {
            let buffer = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer?,
            };
            let end = buffer.iter().position(|&byte| byte == b'\n');
            let length = end.map_or(buffer.len(), |end| end + 1);
            self.reader.consume(length);
            skipped += length as u64;
            if end.is_some() || length == 0 {
                return Ok(skipped);
            }
        }
    }
}

fn text(line: Vec<u8>, is_first: bool) -> std::result::Result<String, LineFault> {
    if line.len() as u64 > LONGEST {
        return Err(LineFault::TooLong);
    }
    let mut text = String::from_utf8(line)
        .map_err(|error| LineFault::NotUtf8(error.utf8_error().valid_up_to() + 1))?;
    // Some programs mark a file as UTF-8 by it; it is not part of the text.
    if is_first && text.starts_with('\u{feff}') {
        text.remove(0);
    }
    if text.trim().is_empty() { Err(LineFault::Empty) } else { Ok(text) }
}

impl Iterator for Lines {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use super::*;

    fn read(bytes: impl Into<Vec<u8>>) -> Vec<std::result::Result<String, LineFault>> {
        let bytes: Vec<u8> = bytes.into();
        let lines: Vec<Line> = Lines::new(Cursor::new(bytes.clone())).map(|l| l.unwrap()).collect();
        assert_eq!(lines.iter().map(|line| line.bytes).sum::<u64>(), bytes.len() as u64);
        lines.into_iter().map(|line| line.text).collect()
    }

    fn ok(text: &str) -> std::result::Result<String, LineFault> {
        Ok(text.to_owned())
    }

    #[test]
    fn ends_of_lines() {
        assert_eq!(read(""), []);
        assert_eq!(read("a"), [ok("a")]);
        assert_eq!(read("a\n"), [ok("a")]);
        assert_eq!(read("a\r\nb\nc\r"), [ok("a"), ok("b"), ok("c")]);
        assert_eq!(read("a\rb\n"), [ok("a\rb")]);
        assert_eq!(read("\u{feff}a\n\u{feff}b"), [ok("a"), ok("\u{feff}b")]);
    }

    #[test]
    fn faults_take_one_line_each() {
        let empty = Err(LineFault::Empty);
        assert_eq!(read("\n \t\r\na\n"), [empty.clone(), empty, ok("a")]);
        assert_eq!(read(*b"ab\xff\nc\n"), [Err(LineFault::NotUtf8(3)), ok("c")]);
    }

    #[test]
    fn long_lines_are_skipped_to_their_end() {
        let longest = LONGEST as usize;
        for end in ["\n", "\r\n"] {
            for (length, fits) in
                [(longest - 1, true), (longest, true), (longest + 1, false), (3 * longest, false)]
            {
                let lines = read("x".repeat(length) + end + "next");
                assert_eq!(lines.len(), 2, "{length} {end:?}");
                assert_eq!(lines[0].as_ref().map(String::len).ok(), fits.then_some(length));
                assert_eq!(lines[1], ok("next"));
            }
        }
        assert_eq!(read("x".repeat(longest + 5)), [Err(LineFault::TooLong)]);
    }

    #[test]
    fn files_may_be_compressed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(b"one\ntwo\n").unwrap();
        let packed = packed.finish().unwrap();
        for (bytes, total) in [(&b"one\ntwo\n"[..], Some(8)), (&packed, None)] {
            std::fs::write(&path, bytes).unwrap();
            let lines = Lines::open(&path).unwrap();
            assert_eq!(lines.total_bytes(), total);
            assert!(lines.map(|line| line.unwrap().text).eq([ok("one"), ok("two")]));
        }
        assert!(Lines::open(folder.path().join("missing")).is_err());
    }
}
