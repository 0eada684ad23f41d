//! Tables as data sets: CSV files with a header, one example a row.

use std::io::Read;
use std::path::Path;

use csv::ByteRecord;

use crate::array::input_spec;
use crate::classes::Classes;
use crate::{ArrayDataset, ArrayOptions, Error, Kind, Result, Spec, Target, Values, files, names};

/// How a table becomes a data set.
#[derive(Debug, Clone)]
pub struct CsvOptions {
    /// The column of the targets; by default the last.
    pub target_column: Option<String>,
    /// The columns of the inputs, in this order; by default all but the target's.
    pub columns: Option<Vec<String>>,
    /// What stands between fields; by default a comma.
    pub delimiter: u8,
    /// What the targets are; by default classes.
    pub target: Target,
    /// The classes, in order. By default they are those found: sorted as numbers if all are
    /// integers, as text otherwise. Give those of the training data when reading test data.
    pub classes: Option<Vec<String>>,
    /// The dimensions of each input, such as `[1, 8, 8]` for 64 columns.
    pub input_dims: Option<Vec<usize>>,
    /// What inputs are multiplied with, such as 1/255.
    pub scale: Option<f32>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        CsvOptions {
            target_column: None,
            columns: None,
            delimiter: b',',
            target: Target::default(),
            classes: None,
            input_dims: None,
            scale: None,
        }
    }
}

impl ArrayDataset {
    /// A data set of a CSV file with a header, plain or gzip-compressed.
    pub fn from_csv(path: impl AsRef<Path>, options: &CsvOptions) -> Result<Self> {
        let path = path.as_ref();
        let input = files::open_for_memory(path)?;
        Self::from_csv_reader(path, input.reader, options)
    }

    /// A data set of a CSV text with a header; `path` is what errors call it.
    pub fn from_csv_reader(path: &Path, reader: impl Read, options: &CsvOptions) -> Result<Self> {
        // Records end at line feeds alone, and cells are trimmed here, so that a carriage return
        // before one is white space. Where both end a record, the reader's lines are one too low.
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(options.delimiter)
            .terminator(csv::Terminator::Any(b'\n'))
            // Rows of other lengths are reported with their line.
            .flexible(true)
            // The last record ends with its line, like every other.
            .from_reader(files::ShortLines::new(reader).chain(&b"\n"[..]));
        let header = reader.byte_headers().map_err(|e| failed(path, e))?;
        let header: Vec<String> = header
            .iter()
            .map(|name| String::from_utf8_lossy(name))
            .map(|name| name.trim_start_matches('\u{feff}').trim().to_string())
            .collect();
        let layout = Layout::new(path, header, options)?;
        let mut rows = Rows::new(options)?;
        let mut record = ByteRecord::new();
        while reader.read_byte_record(&mut record).map_err(|e| failed(path, e))? {
            // Where a record starts is counted from its end: before it there may be empty lines.
            let within = record.as_slice().iter().filter(|&&byte| byte == b'\n').count() as u64;
            let line = reader.position().line().saturating_sub(1 + within);
            if record.len() > 1 || record.iter().any(|field| !field.trim_ascii().is_empty()) {
                rows.push(path, &layout, &record, line)?;
            }
        }
        rows.finish(path, &layout, options)
    }
}

/// Which columns are what.
struct Layout {
    header: Vec<String>,
    target: usize,
    inputs: Vec<usize>,
}

impl Layout {
    fn new(path: &Path, header: Vec<String>, options: &CsvOptions) -> Result<Self> {
        if header.iter().all(|name| name.is_empty()) {
            return Err(Error::Empty {
                path: path.into(),
                reason: "the table has no header; its first line names the columns".into(),
            });
        }
        let target = match &options.target_column {
            Some(name) => names::find(path, "column", &header, name)?,
            None => header.len() - 1,
        };
        let inputs: Vec<usize> = match &options.columns {
            Some(columns) => columns
                .iter()
                .map(|name| names::find(path, "column", &header, name))
                .collect::<Result<_>>()?,
            None => (0..header.len()).filter(|&column| column != target).collect(),
        };
        if inputs.is_empty() {
            return Err(Error::BadOption {
                option: "columns",
                value: "[]".into(),
                reason: format!(
                    "no column is left for the inputs of {}, whose columns are {header:?}; check \
                     the delimiter",
                    path.display()
                ),
            });
        }
        if inputs.contains(&target) {
            return Err(Error::BadOption {
                option: "columns",
                value: header[target].clone(),
                reason:
                    "the target column is among the inputs, so the model would see the answer; \
                     remove it from the inputs"
                        .into(),
            });
        }
        Ok(Layout { header, target, inputs })
    }
}

/// The rows read so far.
struct Rows {
    len: usize,
    target: Target,
    inputs: Vec<f32>,
    numbers: Vec<f32>,
    integers: Vec<i64>,
    classes: Classes,
}

impl Rows {
    fn new(options: &CsvOptions) -> Result<Self> {
        Ok(Rows {
            len: 0,
            target: options.target,
            inputs: Vec::new(),
            numbers: Vec::new(),
            integers: Vec::new(),
            classes: Classes::new(options.classes.as_deref())?,
        })
    }

    fn push(&mut self, path: &Path, layout: &Layout, record: &ByteRecord, line: u64) -> Result<()> {
        if record.len() != layout.header.len() {
            return Err(Error::FieldCount {
                path: path.into(),
                line,
                expected: layout.header.len(),
                found: record.len(),
            });
        }
        let bad = |column: usize, reason: String| Error::Cell {
            path: path.into(),
            line,
            column: layout.header[column].clone(),
            reason,
        };
        let cell = |column: usize| {
            std::str::from_utf8(record[column].trim_ascii()).map_err(|_| {
                bad(column, "the cell is not UTF-8 text; save the file as UTF-8".into())
            })
        };
        let no_memory = |error: std::collections::TryReserveError| Error::NoMemory {
            what: format!("{}, line {line}", path.display()),
            reason: error.to_string(),
        };
        self.inputs.try_reserve(layout.inputs.len()).map_err(no_memory)?;
        for &column in &layout.inputs {
            let value = number(cell(column)?).map_err(|reason| bad(column, reason))?;
            self.inputs.push(value);
        }
        let text = cell(layout.target)?;
        let bad = |reason| bad(layout.target, reason);
        match self.target {
            Target::Number => self.numbers.push(number(text).map_err(bad)?),
            Target::Integers => self.integers.push(text.parse().map_err(|_| {
                bad(format!("`{text}` is not an integer; read the target as a float or class"))
            })?),
            Target::Class if text.is_empty() => {
                return Err(bad("the class is missing; fill it in, or remove the row".into()));
            }
            Target::Class => match self.classes.number(text) {
                Some(class) => self.integers.push(class as i64),
                None => {
                    let error = names::unknown(path, "class", self.classes.names(), text);
                    return Err(bad(error.to_string()));
                }
            },
        }
        self.len += 1;
        Ok(())
    }

    fn finish(
        mut self,
        path: &Path,
        layout: &Layout,
        options: &CsvOptions,
    ) -> Result<ArrayDataset> {
        if self.len == 0 {
            return Err(Error::Empty {
                path: path.into(),
                reason: "the table has a header and no rows".into(),
            });
        }
        if self.target == Target::Class && self.classes.look_like_numbers() {
            return Err(Error::Cell {
                path: path.into(),
                line: 1,
                column: layout.header[layout.target].clone(),
                reason: format!(
                    "its {} different values are fractions, not classes; read the target as a float, \
                     or list the classes",
                    self.classes.names().len()
                ),
            });
        }
        let array = ArrayOptions {
            input_dims: options.input_dims.clone(),
            scale: options.scale,
            ..ArrayOptions::default()
        };
        let input = input_spec(Spec::new([layout.inputs.len()], Kind::F32), &array)?;
        let mut inputs = Values::F32(self.inputs);
        crate::array::scale(&mut inputs, options.scale)?;
        let (targets, classes) = match self.target {
            Target::Number => (Values::F32(self.numbers), vec![]),
            Target::Integers => (Values::I64(self.integers), vec![]),
            Target::Class => {
                let classes = self.classes.finish(&mut self.integers);
                (Values::I64(self.integers), classes)
            }
        };
        let target = Spec::new([], targets.kind());
        ArrayDataset::new(input, inputs, target, targets, classes)
    }
}

/// A number that a network can compute with.
fn number(text: &str) -> std::result::Result<f32, String> {
    match text.parse::<f32>() {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => {
            Err(format!("`{text}` is not a finite 32-bit float; replace it or remove the row"))
        }
        Err(_) if text.is_empty() => {
            Err("the cell is empty; fill it in, or remove the row or the column".into())
        }
        Err(_) => Err(format!(
            "`{text}` is not a number; choose other columns for the inputs, or encode it as one"
        )),
    }
}

/// The error while reading: the file, or the format.
fn failed(path: &Path, error: csv::Error) -> Error {
    match error.into_kind() {
        csv::ErrorKind::Io(cause) => Error::Io { path: path.into(), action: "read", cause },
        other => Error::Format { path: path.into(), format: "CSV", reason: format!("{other:?}") },
    }
}
