//! Opens input files, plain or gzip-compressed, and says what is wrong by their name.

use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::{Error, Result};

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
pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |cause| Error::Io { path: path.into(), action, cause }
}

/// Opens a file, unpacking it if its first bytes say that it is gzip: names lie more often.
pub(crate) fn open(path: &Path) -> Result<Input> {
    let mut file = File::open(path).map_err(io(path, "open"))?;
    let metadata = file.metadata().map_err(io(path, "open"))?;
    // A pipe has no length, and cannot be read twice.
    let (length, exact) =
        if metadata.is_file() { (metadata.len(), true) } else { (u64::MAX, false) };
    let mut magic = Vec::with_capacity(2);
    file.by_ref().take(2).read_to_end(&mut magic).map_err(io(path, "read"))?;
    let packed = magic == [0x1f, 0x8b];
    let file = BufReader::new(Cursor::new(magic).chain(file));
    Ok(if packed {
        let most = most_unpacked(length);
        Input { reader: Box::new(BufReader::new(MultiGzDecoder::new(file))), most, exact: false }
    } else {
        Input { reader: Box::new(file), most: length, exact }
    })
}

/// The most bytes that so many compressed ones can become.
pub(crate) fn most_unpacked(packed: u64) -> u64 {
    packed.saturating_mul(DEFLATE_LIMIT)
}

/// The whole contents of a file, unpacked.
pub(crate) fn read_all(path: &Path) -> Result<Vec<u8>> {
    let mut input = open(path)?;
    let mut bytes = Vec::new();
    input.reader.read_to_end(&mut bytes).map_err(io(path, "read"))?;
    Ok(bytes)
}
