//! Parts of an NPY file, read when they are needed.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::npy::header;
use crate::{Error, PlainNpy, Result, binary, files};

/// An array in an NPY file whose first dimension counts rows, of which only those are in memory that are asked for. Files that
/// are compressed, big-endian or in Fortran order have no rows that lie together: they are in memory as a whole.
#[derive(Debug)]
pub struct NpySlices {
    path: PathBuf,
    code: &'static str,
    dims: Vec<usize>,
    /// Bytes of a row.
    row: usize,
    rows: Rows,
}

#[derive(Debug)]
enum Rows {
    File { file: RefCell<File>, offset: u64 },
    Memory(Vec<u8>),
}

impl NpySlices {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be read, is no NPY file, has fewer bytes than its dimensions say, or is a single number.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bad = |reason: String| Error::Format { path: path.into(), format: "NPY", reason };
        let (mut file, metadata) = polaris_files::open(path).map_err(files::io(path, "open"))?;
        let plain = match header(&mut file) {
            Ok((head, length)) if !head.big_endian && (!head.fortran || head.dims.len() < 2) => {
                let most = metadata.len().saturating_sub(length as u64);
                binary::count(&head.dims, head.element, most).map_err(bad)?;
                Some((head, length as u64))
            }
            _ => None,
        };
        let (code, dims, rows) = match plain {
            Some((head, offset)) => {
                let file = RefCell::new(file);
                (head.element.code(), head.dims, Rows::File { file, offset })
            }
            None => {
                let PlainNpy { code, dims, bytes } = PlainNpy::read(path)?;
                (code, dims, Rows::Memory(bytes))
            }
        };
        let Some((_, rest)) = dims.split_first() else {
            return Err(bad("it is a single number; its first dimension should be rows".into()));
        };
        let width = code[1..].parse().unwrap_or(1);
        // Without rows, a file of no bytes may say that they are of any length.
        let row = rest.iter().try_fold(width, |bytes: usize, &length| bytes.checked_mul(length));
        let row = row.ok_or_else(|| bad(format!("rows of {rest:?} numbers are too long")))?;
        Ok(Self { path: path.to_owned(), code, dims, row, rows })
    }

    /// NumPy's name for the type of its numbers, without the byte order: `f4`, `i8`, `b1`.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// Its dimensions, the rows first.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The numbers of some rows, little-endian.
    ///
    /// # Errors
    /// If there are no such rows, or the file cannot be read any more.
    pub fn read(&self, from: usize, count: usize) -> Result<Vec<u8>> {
        let end = from.saturating_add(count);
        if end > self.dims[0] {
            return Err(Error::IndexOutOfRange { index: end, len: self.dims[0] });
        }
        match &self.rows {
            Rows::Memory(bytes) => Ok(bytes[from * self.row..end * self.row].to_vec()),
            Rows::File { file, offset } => {
                let mut file = file.borrow_mut();
                let mut bytes = vec![0; count * self.row];
                let failed = files::io(&self.path, "read");
                let place = SeekFrom::Start(offset + (from * self.row) as u64);
                file.seek(place).and_then(|_| file.read_exact(&mut bytes)).map_err(failed)?;
                Ok(bytes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npy_file;

    #[test]
    fn rows_are_read_where_they_lie() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.npy");
        let bytes: Vec<u8> = (0..5 * 3 * 2).collect();
        std::fs::write(&path, npy_file("i2", &[5, 3], &bytes)).unwrap();
        let rows = NpySlices::open(&path).unwrap();
        assert_eq!((rows.code(), rows.dims()), ("i2", &[5, 3][..]));
        assert_eq!(rows.read(2, 2).unwrap(), bytes[12..24]);
        assert_eq!(rows.read(0, 5).unwrap(), bytes);
        assert!(rows.read(5, 0).unwrap().is_empty());
        assert!(rows.read(4, 2).is_err() && rows.read(usize::MAX, 2).is_err());
        // Fortran's order is brought into C's.
        let mut file = npy_file("i2", &[5, 3], &bytes);
        let at = file.windows(5).position(|word| word == b"False").unwrap();
        file[at..at + 5].copy_from_slice(b"True ");
        std::fs::write(&path, &file).unwrap();
        let turned = NpySlices::open(&path).unwrap();
        assert_eq!(
            turned.read(1, 1).unwrap(),
            [bytes[2], bytes[3], bytes[12], bytes[13], bytes[22], bytes[23]]
        );
        std::fs::write(&path, &npy_file("i2", &[5, 3], &bytes)[..100]).unwrap();
        assert!(NpySlices::open(&path).is_err());
        std::fs::write(&path, npy_file("f4", &[0, 1 << 40, 1 << 40], &[])).unwrap();
        let error = NpySlices::open(&path).unwrap_err().to_string();
        assert!(error.contains("too long"), "{error}");
        std::fs::write(&path, npy_file("f4", &[], &[0; 4])).unwrap();
        assert!(NpySlices::open(&path).is_err());
    }
}
