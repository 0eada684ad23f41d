//! An NPY file that is written row by row, with the number of rows unknown at first.

use std::io::{self, Seek, SeekFrom, Write};

use crate::npy_plain::npy_header;

/// Bytes kept free for the header, whose length depends on the digits of the number of rows.
const HEADER: usize = 128;

/// Rows of `f32`, all of one length. Only [`NpyRows::finish`] makes it a file that can be read.
#[derive(Debug)]
pub struct NpyRows<W> {
    writer: W,
    columns: usize,
    rows: usize,
}

impl<W: Write + Seek> NpyRows<W> {
    /// Begins a file at the writer's beginning.
    ///
    /// # Errors
    /// What the writer says.
    pub fn new(mut writer: W, columns: usize) -> io::Result<Self> {
        writer.write_all(&[0; HEADER])?;
        Ok(Self { writer, columns, rows: 0 })
    }

    /// Appends a row.
    ///
    /// # Errors
    /// What the writer says, and if the row has another length.
    pub fn row(&mut self, values: &[f32]) -> io::Result<()> {
        if values.len() != self.columns {
            let (found, expected) = (values.len(), self.columns);
            return Err(io::Error::other(format!("a row has {found} values; expected {expected}")));
        }
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.writer.write_all(&bytes)?;
        self.rows += 1;
        Ok(())
    }

    /// Writes the header, now that the rows are counted, and gives the writer back.
    ///
    /// # Errors
    /// What the writer says.
    pub fn finish(mut self) -> io::Result<W> {
        let header = npy_header("f4", &[self.rows, self.columns], HEADER);
        self.writer.seek(SeekFrom::Start(0))?;
        self.writer.write_all(&header)?;
        self.writer.flush()?;
        Ok(self.writer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::PlainNpy;

    #[test]
    fn rows_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.npy");
        for rows in [0, 1, 1234] {
            let mut file = NpyRows::new(Cursor::new(Vec::new()), 3).unwrap();
            for row in 0..rows {
                file.row(&[row as f32, 0.5, -1.0]).unwrap();
            }
            assert!(file.row(&[1.0]).is_err());
            std::fs::write(&path, file.finish().unwrap().into_inner()).unwrap();
            let read = PlainNpy::read(&path).unwrap();
            assert_eq!((read.code, read.dims), ("f4", vec![rows, 3]));
            let firsts = read.bytes.chunks_exact(12).map(|row| row[..4].try_into().unwrap());
            assert!(firsts.map(f32::from_le_bytes).eq((0..rows).map(|row| row as f32)));
        }
    }

    /// The most digits that numbers of rows and columns can have.
    #[test]
    fn the_longest_header_fits() {
        assert_eq!(npy_header("f4", &[usize::MAX, usize::MAX], HEADER).len(), HEADER);
    }
}
