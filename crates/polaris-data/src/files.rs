//! Opens input files, plain or gzip-compressed, with errors that name the file.

use std::io::{self, BufReader, Cursor, ErrorKind, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::{Error, Result, memory};

/// Deflate cannot make anything more than this much smaller, so a file that promises more is
/// wrong, and says so before memory is asked for.
const DEFLATE_LIMIT: u64 = 1032;

/// A file being read.
pub(crate) struct Input {
    /// Its contents, unpacked.
    pub reader: Box<dyn Read + Send>,
    /// The most bytes `reader` can give.
    pub most: u64,
    /// Whether `most` is what it will give, too.
    pub exact: bool,
}

/// The error of a failed operation on a file.
pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |cause| Error::Io { path: path.into(), action, cause }
}

/// Opens a file, unpacking it if its first bytes say that it is gzip: names lie more often.
pub(crate) fn open(path: &Path) -> Result<Input> {
    let (mut file, metadata) = polaris_files::open(path).map_err(io(path, "open"))?;
    let length = metadata.len();
    let mut magic = Vec::with_capacity(2);
    file.by_ref().take(2).read_to_end(&mut magic).map_err(io(path, "read"))?;
    let packed = magic == [0x1f, 0x8b];
    let file = BufReader::new(Cursor::new(magic).chain(file));
    Ok(if packed {
        let most = most_unpacked(length);
        Input { reader: Box::new(BufReader::new(MultiGzDecoder::new(file))), most, exact: false }
    } else {
        Input { reader: Box::new(file), most: length, exact: true }
    })
}

/// The most bytes that so many compressed ones can become.
pub(crate) fn most_unpacked(packed: u64) -> u64 {
    packed.saturating_mul(DEFLATE_LIMIT)
}

/// Opens a file whose contents are going to be held in memory. What is compressed may unpack to a thousand times
/// its size, so that reading it ends with an error where memory would.
pub(crate) fn open_for_memory(path: &Path) -> Result<Input> {
    let mut input = open(path)?;
    if !input.exact {
        let limit = memory::available().unwrap_or(u64::MAX);
        input.reader = Box::new(Bounded { reader: input.reader, left: limit, limit });
    }
    Ok(input)
}

/// The whole contents of a file of at most `limit` bytes, unpacked.
pub(crate) fn read_all(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let input = open_for_memory(path)?;
    let mut bytes = Vec::new();
    let mut reader = Bounded { reader: input.reader, left: limit, limit };
    reader.read_to_end(&mut bytes).map_err(io(path, "read"))?;
    Ok(bytes)
}

/// Fails where a reader gives more than a limit.
pub(crate) struct Bounded<R> {
    reader: R,
    left: u64,
    limit: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            let why =
                format!("it has more than {} bytes, unpacked, which is the limit", self.limit);
            io::Error::new(ErrorKind::FileTooLarge, why)
        })?;
        Ok(count)
    }
}

/// Fails where a line is longer than any table's: records are held in memory as a whole.
pub(crate) struct ShortLines<R> {
    reader: R,
    length: usize,
}

impl<R> ShortLines<R> {
    /// The most bytes of a line.
    const LONGEST: usize = 64 << 20;

    pub fn new(reader: R) -> Self {
        Self { reader, length: 0 }
    }
}

impl<R: Read> Read for ShortLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.length = match buffer[..count].iter().rposition(|&byte| byte == b'\n') {
            Some(end) => count - end - 1,
            None => self.length + count,
        };
        if self.length > Self::LONGEST {
            let why = format!("a line is longer than {} bytes; is this a table?", Self::LONGEST);
            return Err(io::Error::new(ErrorKind::FileTooLarge, why));
        }
        Ok(count)
    }
}
