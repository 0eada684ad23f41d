//! One file: header, metadata, tensor infos, data.

use bytes::Bytes;

use crate::cursor::Cursor;
use crate::error::{Shown, with_room};
use crate::metadata::{LEAST_PAIR, Metadata};
use crate::tensor::{self, Info, LEAST_INFO, Tensor};
use crate::{Error, Result, Value};

pub(crate) const MAGIC: &[u8; 4] = b"GGUF";
pub(crate) const ALIGNMENT_KEY: &str = "general.alignment";
/// The alignment of files that say nothing.
pub(crate) const DEFAULT_ALIGNMENT: u32 = 32;

/// A file whose every count, length, offset and size was found to be within it.
#[derive(Clone)]
pub(crate) struct File {
    bytes: Bytes,
    pub metadata: Metadata,
    /// Where the first tensor info begins.
    infos: usize,
    /// Where each tensor info begins, by name: eight bytes for each, as for metadata.
    tensors: Vec<u64>,
    alignment: u32,
    data: usize,
}

impl File {
    pub fn parse(bytes: Bytes) -> Result<Self> {
        let mut cursor = Cursor::new(&bytes, 0);
        check_magic(&mut cursor)?;
        let tensors = cursor.count(LEAST_INFO, format_args!("the number of tensors"))?;
        let pairs = cursor.count(LEAST_PAIR, format_args!("the number of metadata pairs"))?;
        let (metadata, infos) = Metadata::read(&bytes, cursor.at(), pairs)?;
        let alignment = alignment(&metadata)?;
        let mut file =
            Self { bytes, metadata, infos, tensors: with_room(tensors)?, alignment, data: 0 };
        file.read_infos(tensors)?;
        file.check_data()?;
        file.check_names()?;
        Ok(file)
    }

    fn read_infos(&mut self, count: usize) -> Result<()> {
        let mut cursor = Cursor::new(&self.bytes, self.infos);
        for number in 0..count {
            self.tensors.push(cursor.at() as u64);
            Info::read(&mut cursor, number)?;
        }
        let end = cursor.at();
        self.data = end.checked_next_multiple_of(self.alignment as usize).ok_or_else(|| {
            Error::format(
                end,
                format!("there is no multiple of the alignment {} behind", self.alignment),
            )
        })?;
        Ok(())
    }

    /// A tensor info that was read before.
    fn info(&self, at: u64) -> Info<'_> {
        Info::read(&mut Cursor::new(&self.bytes, at as usize), 0)
            .expect("tensor infos should have been checked when they were read")
    }

    /// Tensors must lie within the file, aligned, and apart. llama.cpp also wants them in the order of their
    /// infos and without gaps; the format does not.
    fn check_data(&mut self) -> Result<()> {
        for &at in &self.tensors {
            self.info(at).range(at as usize, self.data, self.alignment, self.bytes.len())?;
        }
        let bytes = &self.bytes;
        self.tensors.sort_unstable_by_key(|&at| (tensor::offset_at(bytes, at), at));
        for two in self.tensors.windows(2) {
            let (first, second) = (self.info(two[0]), self.info(two[1]));
            if first.offset + first.size as u64 > second.offset {
                return Err(Error::format(
                    two[1] as usize,
                    format!(
                        "the tensors `{}` (offset {}, {} bytes) and `{}` (offset {}) overlap",
                        Shown(first.name),
                        first.offset,
                        first.size,
                        Shown(second.name),
                        second.offset
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Names must differ. They are left sorted.
    fn check_names(&mut self) -> Result<()> {
        let name = |at: u64| tensor::name_at(&self.bytes, at);
        self.tensors.sort_unstable_by(|&a, &b| (name(a), a).cmp(&(name(b), b)));
        match self.tensors.windows(2).find(|two| name(two[0]) == name(two[1])) {
            None => Ok(()),
            Some(two) => {
                let name = String::from_utf8_lossy(name(two[0]));
                let why =
                    format!("the tensor `{}` was there before, at byte {}", Shown(&name), two[0]);
                Err(Error::format(two[1] as usize, why))
            }
        }
    }

    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    fn tensor<'a>(&'a self, at: usize, info: Info<'a>, part: usize) -> Tensor<'a> {
        let range = info
            .range(at, self.data, self.alignment, self.bytes.len())
            .expect("tensor infos should have been checked when they were read");
        Tensor { info, part, file: &self.bytes, range }
    }

    /// All tensors, in the order of their infos.
    pub fn tensors(&self, part: usize) -> impl Iterator<Item = Tensor<'_>> {
        let mut cursor = Cursor::new(&self.bytes, self.infos);
        (0..self.len()).map(move |number| {
            let at = cursor.at();
            let info = Info::read(&mut cursor, number)
                .expect("tensor infos should have been checked when they were read");
            self.tensor(at, info, part)
        })
    }

    pub fn find(&self, name: &str, part: usize) -> Option<Tensor<'_>> {
        let place = self
            .tensors
            .binary_search_by(|&at| tensor::name_at(&self.bytes, at).cmp(name.as_bytes()))
            .ok()?;
        let at = self.tensors[place];
        Some(self.tensor(at as usize, self.info(at), part))
    }
}

fn check_magic(cursor: &mut Cursor<'_>) -> Result<()> {
    let magic: [u8; 4] = cursor.array(format_args!("the magic number"))?;
    if magic != *MAGIC {
        let found = magic.escape_ascii();
        return Err(Error::format(
            0,
            format!("it begins with \"{found}\"; GGUF files begin with \"GGUF\""),
        ));
    }
    let start = cursor.at();
    let version = cursor.u32(format_args!("the version"))?;
    match version {
        2 | 3 => Ok(()),
        // Versions are small, so that only a swapped one has its lower half empty. Magic numbers are not swapped.
        _ if version & 0xffff == 0 && version != 0 => Err(Error::Unsupported {
            what: format!(
                "a big-endian GGUF file (version {}); little-endian ones are read: convert it with \
                 `gguf-convert-endian FILE little` of the Python package gguf",
                version.swap_bytes()
            ),
        }),
        1 => Err(Error::Unsupported {
            what: "GGUF version 1; versions 2 and 3 are read: convert the model again with a newer llama.cpp"
                .into(),
        }),
        0 => Err(Error::format(start, "the version is 0; versions 2 and 3 are read")),
        _ => Err(Error::Unsupported { what: format!("GGUF version {version}; versions 2 and 3 are read") }),
    }
}

fn alignment(metadata: &Metadata) -> Result<u32> {
    match metadata.value(ALIGNMENT_KEY) {
        None => Ok(DEFAULT_ALIGNMENT),
        // As llama.cpp, no other type is accepted: two readers must not see the data at different places.
        Some(Value::U32(alignment)) if alignment.is_power_of_two() => Ok(alignment),
        Some(other) => Err(Error::key(
            ALIGNMENT_KEY,
            format!("is {other}; expected is a u32 that is a power of two"),
        )),
    }
}
