//! NPY files that keep their element type: inputs and outputs of models.

use std::path::Path;

use crate::npy::{from_fortran, header};
use crate::npy_header::Header;
use crate::{Error, Result, binary, files, memory};

/// An array in a file, in C order.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainNpy {
    /// NumPy's name for the type of its numbers, without the byte order: `f4`, `i8`, `b1`.
    pub code: &'static str,
    /// Its dimensions; none for a single number.
    pub dims: Vec<usize>,
    /// Its numbers, little-endian, the last dimension varying fastest.
    pub bytes: Vec<u8>,
}

impl PlainNpy {
    /// Reads an NPY file, plain or gzip-compressed.
    ///
    /// # Errors
    /// If it cannot be read, is no NPY file, or ends too early.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let mut input = files::open_for_memory(path)?;
        let mut read = || -> std::result::Result<Self, String> {
            let (Header { element, big_endian, fortran, dims }, length) =
                header(&mut input.reader)?;
            let most = input.most.saturating_sub(length as u64);
            let count = binary::count(&dims, element, most)?;
            let width = element.width();
            let mut bytes = Vec::new();
            let wanted = (count * width) as u64;
            if input.exact {
                memory::require(wanted)?;
            }
            std::io::Read::read_to_end(
                &mut std::io::Read::take(&mut input.reader, wanted),
                &mut bytes,
            )
            .map_err(|error| error.to_string())?;
            if (bytes.len() as u64) < wanted {
                return Err(format!("it ends after {} of {wanted} bytes of values", bytes.len()));
            }
            if big_endian {
                bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
            }
            if fortran && dims.len() > 1 {
                bytes = from_fortran(&bytes, width, &dims)?;
            }
            Ok(Self { code: element.code(), dims, bytes })
        };
        read().map_err(|reason| Error::Format { path: path.into(), format: "NPY", reason })
    }
}

/// The bytes of an NPY file of numbers in C order, little-endian. `code` is NumPy's name of their type.
pub fn npy_file(code: &str, dims: &[usize], bytes: &[u8]) -> Vec<u8> {
    let mut file = npy_header(code, dims, 0);
    file.extend_from_slice(bytes);
    file
}

/// What stands before the numbers, in at least `least` bytes.
pub(crate) fn npy_header(code: &str, dims: &[usize], least: usize) -> Vec<u8> {
    let order = if code.ends_with('1') { '|' } else { '<' };
    let dims: Vec<String> = dims.iter().map(|dim| format!("{dim},")).collect();
    let dims = dims.join(" ");
    let mut header =
        format!("{{'descr': '{order}{code}', 'fortran_order': False, 'shape': ({dims}), }}");
    // The numbers begin at a multiple of 64 bytes, after a line break.
    let unpadded = 10 + header.len() + 1;
    header.push_str(&" ".repeat(unpadded.max(least).next_multiple_of(64) - unpadded));
    header.push('\n');
    let mut file = Vec::with_capacity(10 + header.len());
    file.extend_from_slice(b"\x93NUMPY\x01\x00");
    file.extend_from_slice(&u16::try_from(header.len()).unwrap_or(u16::MAX).to_le_bytes());
    file.extend_from_slice(header.as_bytes());
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        for (code, dims, width) in
            [("f4", vec![2, 3], 4), ("b1", vec![5], 1), ("i8", vec![], 8), ("f2", vec![0, 4], 2)]
        {
            let count: usize = dims.iter().product::<usize>() * width;
            let bytes: Vec<u8> = (0..count).map(|byte| byte as u8).collect();
            let path = folder.path().join("array.npy");
            std::fs::write(&path, npy_file(code, &dims, &bytes)).unwrap();
            let read = PlainNpy::read(&path).unwrap();
            assert_eq!((read.code, &read.dims, &read.bytes), (code, &dims, &bytes));
        }
    }

    #[test]
    fn a_file_that_ends_too_early_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("array.npy");
        let whole = npy_file("f4", &[4], &[0; 16]);
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(PlainNpy::read(&path).is_err());
    }
}
