//! Importance matrices: how large the elements are that each column of a matrix is multiplied with.
//!
//! The error of a product is that of the weights times the activations, so errors of a column count by the mean square of
//! the activations that it meets. [`Importance::collect`] sums the squares while a model computes a text
//! (`collect.rs`). Files are those of llama.cpp: GGUF (`gguf.rs`) and the older `.dat` (`legacy.rs`).

mod collect;
mod gguf;
mod legacy;

pub use collect::CalibrationText;

use std::collections::BTreeMap;
use std::path::Path;

use polaris_runtime::MappedFile;

use crate::{Error, Result};

/// The window of files that do not say theirs: llama.cpp's default.
const USUAL_WINDOW: usize = 512;

/// Sums over the rows that the matrices of a tensor were multiplied with.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ColumnSums {
    /// The sums of squares of each column, matrix after matrix.
    pub squares: Vec<f64>,
    /// The rows of each matrix, or of all of them if there is one number.
    pub rows: Vec<u64>,
}

impl ColumnSums {
    /// Adds others, of the same columns and matrices; `false` if there are other ones.
    fn add(&mut self, other: &Self) -> bool {
        let [own, more] = [self.rows.len(), other.rows.len()];
        if self.squares.len() != other.squares.len() || own != more && own != 1 && more != 1 {
            return false;
        }
        self.squares.iter_mut().zip(&other.squares).for_each(|(sum, more)| *sum += more);
        if own == 1 {
            self.rows = vec![self.rows[0]; more];
        }
        let more = other.rows.iter().cycle();
        self.rows.iter_mut().zip(more).for_each(|(rows, more)| *rows = rows.saturating_add(*more));
        true
    }
}

/// The importance of the columns of a model's matrices, from one text or several.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Importance {
    tensors: BTreeMap<String, ColumnSums>,
    /// Tokens of a window.
    pub window: usize,
    /// Windows that were computed.
    pub windows: usize,
    /// The names of the texts.
    pub texts: Vec<String>,
    /// Of what one run collected: which tokens it was to see, so that another goes on with the same.
    run: Option<u64>,
}

impl Importance {
    /// Nothing yet, to be collected in windows of so many tokens.
    pub fn new(window: usize) -> Self {
        Self { window, ..Self::default() }
    }

    /// Reads a file of either format.
    ///
    /// # Errors
    /// If it cannot be read or is none.
    pub fn read(path: &Path) -> Result<Self> {
        let file = MappedFile::open(path)?;
        Self::from_bytes(file.bytes())
            .map_err(|error| Error::InFile { path: path.to_owned(), source: Box::new(error) })
    }

    /// The same from the bytes of a file.
    ///
    /// # Errors
    /// If it is none.
    pub fn from_bytes(bytes: bytes::Bytes) -> Result<Self> {
        match bytes.starts_with(b"GGUF") {
            true => gguf::read(bytes),
            false => legacy::read(&bytes),
        }
    }

    /// Writes a file, whole or not at all: the older format if its name ends with `.dat`, which neither says how many tokens a
    /// window has nor can be gone on with; else GGUF.
    ///
    /// # Errors
    /// If it cannot be written, or a sum is beyond `f32`.
    pub fn write(&self, path: &Path) -> Result<()> {
        let is_legacy = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("dat"));
        if !is_legacy {
            return gguf::write(self)?.write(path).map_err(Error::from);
        }
        let bytes = legacy::write(self)?;
        let failed = |source| polaris_gguf::Error::Write { path: path.to_owned(), source };
        Ok(polaris_files::write_atomic(path, &bytes).map_err(failed)?)
    }

    /// The tensors, with their sums.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = (&str, &ColumnSums)> {
        self.tensors.iter().map(|(name, sums)| (name.as_str(), sums))
    }

    /// Matrices that were multiplied with nothing: experts that no token was sent to.
    pub fn unseen(&self) -> usize {
        let all = self.tensors.values().flat_map(|sums| &sums.rows);
        all.filter(|&&rows| rows == 0).count()
    }

    /// Adds what was collected elsewhere, with the same model.
    ///
    /// # Errors
    /// If a tensor has other sizes there.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.add(other)?;
        if self.window == 0 {
            self.window = other.window;
        }
        let tokens = other.windows.saturating_mul(other.window);
        self.windows = self.windows.saturating_add(tokens / self.window.max(1));
        self.texts.extend_from_slice(&other.texts);
        self.run = None;
        Ok(())
    }

    /// Adds sums alone.
    fn add(&mut self, other: &Self) -> Result<()> {
        for (name, sums) in &other.tensors {
            let Some(own) = self.tensors.get_mut(name) else {
                self.insert(name, sums.clone());
                continue;
            };
            let [squares, counts] = [own.squares.len(), own.rows.len()];
            if !own.add(sums) {
                let (sums, counts) = ([squares, sums.squares.len()], [counts, sums.rows.len()]);
                return Err(Error::Unlike { tensor: name.clone(), sums, counts });
            }
        }
        Ok(())
    }

    /// How much each column of each matrix of a tensor counts: the mean square of what it is multiplied with; 1 for
    /// matrices that were multiplied with nothing. `None` if the tensor is not there.
    ///
    /// # Errors
    /// If it has other columns or matrices.
    pub fn of(&self, name: &str, matrices: usize, columns: usize) -> Result<Option<Vec<f32>>> {
        let Some(ColumnSums { squares, rows }) = self.tensors.get(name) else { return Ok(None) };
        let is_it = squares.len() == matrices * columns && [1, matrices].contains(&rows.len());
        if !is_it {
            return Err(Error::Columns {
                tensor: name.to_owned(),
                sums: squares.len(),
                counts: rows.len(),
                matrices,
                columns,
            });
        }
        let each = squares.chunks(columns).zip(rows.iter().cycle());
        let means = each.flat_map(|(squares, &rows)| {
            squares.iter().map(move |&sum| if rows == 0 { 1.0 } else { (sum / rows as f64) as f32 })
        });
        Ok(Some(means.collect()))
    }

    /// Adds a tensor of a file; `false` if there is one of its name.
    fn insert(&mut self, name: &str, sums: ColumnSums) -> bool {
        self.tensors.insert(name.to_owned(), sums).is_none()
    }
}

/// That numbers of a file can be sums of squares and rows.
fn check(name: &str, sums: &ColumnSums) -> Result<()> {
    let wrong = sums.squares.iter().find(|sum| !(sum.is_finite() && **sum >= 0.0));
    if let Some(&value) = wrong {
        let why = format!("`{name}` has {value} as a sum of squares");
        return Err(Error::NoImportance { why });
    }
    if sums.rows.is_empty()
        || sums.squares.is_empty()
        || !sums.squares.len().is_multiple_of(sums.rows.len())
    {
        let (squares, rows) = (sums.squares.len(), sums.rows.len());
        let why =
            format!("`{name}` has {squares} sums and {rows} counts, which do not fit together");
        return Err(Error::NoImportance { why });
    }
    Ok(())
}
