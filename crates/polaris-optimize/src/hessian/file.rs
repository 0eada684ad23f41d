//! Hessians in files, so that a calibration can go on where it was stopped.
//!
//! Little-endian: 8 bytes `PLRHESS1`, the columns and the inputs as `u64`, the sums on and above the diagonal row by row as
//! `f32`, and a check over these as `u64`.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use polaris_core::random::mix;
use polaris_files::AtomicFile;
use polaris_runtime::DeviceRef;

use super::Hessian;
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"PLRHESS1";
const HEADER: u64 = 24;

impl Hessian {
    /// Writes a file, whole or not at all.
    ///
    /// # Errors
    /// If the place cannot be written or the disk is full.
    pub fn save(&self, path: &Path) -> Result<()> {
        let sum = self.sum.buffer().host_slice::<f32>().map_err(polaris_ops::Error::from)?;
        let write = || -> io::Result<()> {
            let mut file = BufWriter::with_capacity(1 << 20, AtomicFile::create(path)?);
            file.write_all(MAGIC)?;
            file.write_all(&(self.columns as u64).to_le_bytes())?;
            file.write_all(&self.rows.to_le_bytes())?;
            let mut check = mix(self.rows);
            for (row, sums) in sum.chunks(self.columns).enumerate() {
                for sum in &sums[row..] {
                    check = mix(check ^ u64::from(sum.to_bits()));
                    file.write_all(&sum.to_le_bytes())?;
                }
            }
            file.write_all(&check.to_le_bytes())?;
            file.into_inner().map_err(io::IntoInnerError::into_error)?.finish()
        };
        write().map_err(|source| Error::Io { path: path.to_owned(), source })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or is not what was written.
    pub fn load(device: &DeviceRef, path: &Path) -> Result<Self> {
        let failed = |source| Error::Io { path: path.to_owned(), source };
        let wrong = |what: &str| Error::Damaged { path: path.to_owned(), what: what.to_owned() };
        let (file, metadata) = polaris_files::open(path).map_err(failed)?;
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut header = [0; HEADER as usize];
        file.read_exact(&mut header).map_err(failed)?;
        let number = |at: usize| {
            u64::from_le_bytes(*header[at..].first_chunk().expect("the header should be whole"))
        };
        if &header[..8] != MAGIC {
            return Err(wrong("it does not begin as a Hessian does"));
        }
        let (columns, rows) = (number(8), number(16));
        // Checked against the length of the file, so that nothing is allocated that it does not hold.
        let expected = columns
            .checked_add(1)
            .and_then(|more| columns.checked_mul(more))
            .and_then(|twice| (twice / 2).checked_mul(4))
            .and_then(|bytes| bytes.checked_add(HEADER + 8));
        if columns == 0 || expected != Some(metadata.len()) {
            let found = metadata.len();
            return Err(wrong(&format!("{found} bytes are not those of {columns} columns")));
        }
        let hessian = Self { rows, ..Self::new(device, columns as usize)? };
        let mut check = mix(rows);
        {
            let mut sum =
                hessian.sum.buffer().host_slice_mut::<f32>().map_err(polaris_ops::Error::from)?;
            for (row, sums) in sum.chunks_mut(columns as usize).enumerate() {
                let mut bytes = vec![0; 4 * (columns as usize - row)];
                file.read_exact(&mut bytes).map_err(failed)?;
                for (sum, &bytes) in sums[row..].iter_mut().zip(bytes.as_chunks::<4>().0) {
                    *sum = f32::from_le_bytes(bytes);
                    check = mix(check ^ u64::from(sum.to_bits()));
                    if !sum.is_finite() {
                        return Err(wrong(&format!("it holds {sum}")));
                    }
                }
            }
        }
        let mut written = [0; 8];
        file.read_exact(&mut written).map_err(failed)?;
        if u64::from_le_bytes(written) != check {
            return Err(wrong("its check does not fit its contents"));
        }
        Ok(hessian)
    }
}
