//! Writing of GGUF files, version 3.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use polaris_files::AtomicFile;

use crate::convert::ToMetadata;
use crate::cursor::Cursor;
use crate::file::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, MAGIC};
use crate::tensor::{MOST_DIMS, check_name, misfit};
use crate::{Error, Result, TensorType, Value};

const VERSION: u32 = 3;

/// Collects metadata and tensors, and writes them as llama.cpp insists: tensors in the order in which they were given,
/// each at a multiple of the alignment, padded with zeros, the last one too.
///
/// The alignment is 32 unless `general.alignment` is set.
#[derive(Debug)]
pub struct Writer<'a> {
    alignment: u32,
    keys: HashSet<String>,
    /// The pairs as they will be in the file.
    metadata: Vec<u8>,
    names: HashSet<String>,
    tensors: Vec<Entry<'a>>,
}

#[derive(Debug)]
struct Entry<'a> {
    name: String,
    dims: Vec<usize>,
    ty: TensorType,
    size: usize,
    data: Data<'a>,
}

/// Writes the bytes of a tensor.
type Source<'a> = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + 'a>;

enum Data<'a> {
    Bytes(Cow<'a, [u8]>),
    Source(Source<'a>),
}

impl fmt::Debug for Data<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes(_) => "Bytes",
            Self::Source(_) => "Source",
        })
    }
}

impl Default for Writer<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Writer<'a> {
    /// An empty file.
    pub fn new() -> Self {
        Self {
            alignment: DEFAULT_ALIGNMENT,
            keys: HashSet::new(),
            metadata: Vec::new(),
            names: HashSet::new(),
            tensors: Vec::new(),
        }
    }

    /// Adds a key/value pair: a number, a bool, a string, a slice of them, or a [`Value`] of another file.
    ///
    /// # Errors
    /// If the key is empty or was set before, or if it is `general.alignment` and the value no `u32` that is a power of
    /// two.
    pub fn set(&mut self, key: &str, value: impl ToMetadata) -> Result<&mut Self> {
        if key.is_empty() {
            return Err(Error::key(key, "is empty"));
        }
        let mut encoded = Vec::new();
        value.encode(&mut encoded);
        // Read back, so that what `encode` gave is a value whatever the type is.
        let mut cursor = Cursor::new(&encoded, 0);
        let value = Value::read(&mut cursor, format_args!("the value of `{key}`"))?;
        if cursor.at() != encoded.len() {
            return Err(Error::key(key, format!("is {value} with bytes behind it")));
        }
        if key == ALIGNMENT_KEY {
            match value {
                Value::U32(alignment) if alignment.is_power_of_two() => self.alignment = alignment,
                _ => {
                    return Err(Error::key(
                        key,
                        format!("is {value}; expected is a u32 that is a power of two"),
                    ));
                }
            }
        }
        if !self.keys.insert(key.to_owned()) {
            return Err(Error::key(key, "was set before"));
        }
        Value::String(key.as_bytes()).encode_untyped(&mut self.metadata);
        self.metadata.extend(encoded);
        Ok(self)
    }

    /// Adds a tensor with bytes in memory. Dimensions are given outermost first.
    ///
    /// # Errors
    /// If name, shape and type are not what the format allows, or the bytes are not as many as they say.
    pub fn tensor(
        &mut self,
        name: &str,
        shape: &[usize],
        ty: TensorType,
        bytes: impl Into<Cow<'a, [u8]>>,
    ) -> Result<&mut Self> {
        let bytes = bytes.into();
        let size = check(name, shape, ty)?;
        if bytes.len() != size {
            let why = format!(
                "of type {ty} and shape {shape:?} takes {size} bytes; {} were given",
                bytes.len()
            );
            return Err(Error::tensor(name, why));
        }
        self.add(name, shape, ty, size, Data::Bytes(bytes))
    }

    /// Adds a tensor whose bytes `source` writes when the file is written, so that only one has to be in memory.
    ///
    /// # Errors
    /// As [`Writer::tensor`]. Whether it writes as many bytes as it should is found when the file is written.
    pub fn tensor_from(
        &mut self,
        name: &str,
        shape: &[usize],
        ty: TensorType,
        source: impl FnOnce(&mut dyn Write) -> io::Result<()> + 'a,
    ) -> Result<&mut Self> {
        let size = check(name, shape, ty)?;
        self.add(name, shape, ty, size, Data::Source(Box::new(source)))
    }

    fn add(
        &mut self,
        name: &str,
        dims: &[usize],
        ty: TensorType,
        size: usize,
        data: Data<'a>,
    ) -> Result<&mut Self> {
        if !self.names.insert(name.to_owned()) {
            return Err(Error::tensor(name, "was added before"));
        }
        self.tensors.push(Entry { name: name.to_owned(), dims: dims.to_owned(), ty, size, data });
        Ok(self)
    }

    /// Writes the file: all of it or, where something fails, nothing.
    ///
    /// # Errors
    /// If the place cannot be written, or a source fails or writes too many or too few bytes.
    pub fn write(self, path: &Path) -> Result<()> {
        let failed = |source| Error::Write { path: path.to_owned(), source };
        let mut file = BufWriter::new(AtomicFile::create(path).map_err(failed)?);
        self.write_all(&mut file, failed)?;
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.finish().map_err(failed)
    }

    /// The file in memory.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn into_bytes(self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let failed = |source| Error::Write { path: "memory".into(), source };
        self.write_all(&mut bytes, failed)?;
        Ok(bytes)
    }

    fn write_all(self, out: &mut dyn Write, failed: impl Fn(io::Error) -> Error) -> Result<()> {
        let alignment = u64::from(self.alignment);
        let header = self.header()?;
        out.write_all(&header).map_err(&failed)?;
        pad(out, header.len() as u64, alignment).map_err(&failed)?;
        for Entry { name, size, data, .. } in self.tensors {
            match data {
                Data::Bytes(bytes) => out.write_all(&bytes).map_err(&failed)?,
                Data::Source(source) => {
                    let mut counted = Counted { out, left: size };
                    source(&mut counted).map_err(&failed)?;
                    if counted.left > 0 {
                        let why =
                            format!("takes {size} bytes; its source wrote {}", size - counted.left);
                        return Err(Error::tensor(&name, why));
                    }
                }
            }
            pad(out, size as u64, alignment).map_err(&failed)?;
        }
        Ok(())
    }

    /// Everything before the padding in front of the data.
    fn header(&self) -> Result<Vec<u8>> {
        let mut header = MAGIC.to_vec();
        header.extend(VERSION.to_le_bytes());
        header.extend((self.tensors.len() as u64).to_le_bytes());
        header.extend((self.keys.len() as u64).to_le_bytes());
        header.extend(&self.metadata);
        let mut offset = 0u64;
        for Entry { name, dims, ty, size, .. } in &self.tensors {
            Value::String(name.as_bytes()).encode_untyped(&mut header);
            header.extend((dims.len() as u32).to_le_bytes());
            for &dim in dims.iter().rev() {
                header.extend((dim as u64).to_le_bytes());
            }
            header.extend(ty.id().to_le_bytes());
            header.extend(offset.to_le_bytes());
            offset = offset
                .checked_add(*size as u64)
                .and_then(|end| end.checked_next_multiple_of(u64::from(self.alignment)))
                .ok_or_else(|| Error::tensor(name, "makes the file larger than offsets can say"))?;
        }
        Ok(header)
    }
}

/// The bytes of a tensor that can be written.
fn check(name: &str, shape: &[usize], ty: TensorType) -> Result<usize> {
    check_name(name).map_err(|why| Error::tensor(name, format!("has a name that {why}")))?;
    if shape.len() > MOST_DIMS {
        let why = format!("has the shape {shape:?}; at most {MOST_DIMS} dimensions are accepted");
        return Err(Error::tensor(name, why));
    }
    if shape.contains(&0) {
        return Err(Error::tensor(
            name,
            format!("has the shape {shape:?}; every dimension must be at least 1"),
        ));
    }
    ty.bytes_of(shape).ok_or_else(|| Error::tensor(name, misfit(ty, shape)))
}

/// Zeros up to the next multiple.
fn pad(out: &mut dyn Write, written: u64, alignment: u64) -> io::Result<()> {
    let zeros = written.wrapping_neg() % alignment;
    io::copy(&mut io::repeat(0).take(zeros), out).map(drop)
}

/// Passes on as many bytes as a tensor has.
struct Counted<'w> {
    out: &'w mut dyn Write,
    left: usize,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.left {
            let why =
                format!("the source of a tensor writes {} bytes too many", bytes.len() - self.left);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let written = self.out.write(bytes)?;
        self.left -= written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
