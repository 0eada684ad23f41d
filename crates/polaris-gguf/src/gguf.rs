//! A model: one file, or the parts that it was split into.

use std::fmt;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::error::Shown;
use crate::file::File;
use crate::{Error, Metadata, Result, Tensor};

const NUMBER_KEY: &str = "split.no";
const COUNT_KEY: &str = "split.count";
const TENSORS_KEY: &str = "split.tensors.count";

/// A GGUF model that was found to be whole: metadata and tensors.
#[derive(Clone)]
pub struct Gguf {
    /// The first has the metadata.
    parts: Vec<File>,
}

/// Without the bytes, of which there may be gigabytes.
impl fmt::Debug for Gguf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parts, tensors) = (self.parts(), self.tensor_count());
        f.debug_struct("Gguf")
            .field("parts", &parts)
            .field("tensors", &tensors)
            .finish_non_exhaustive()
    }
}

/// The name of a part: `NAME-00002-of-00003.gguf`.
struct PartName {
    folder: PathBuf,
    stem: String,
    number: usize,
    count: usize,
}

impl PartName {
    fn parse(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
        let (rest, count) = name.rsplit_once("-of-")?;
        let (stem, number) = rest.rsplit_once('-')?;
        let parse = |digits: &str| {
            let valid = digits.len() >= 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| valid)
        };
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Some(Self { folder, stem: stem.to_owned(), number: parse(number)?, count: parse(count)? })
    }

    /// The path of a part, from 0.
    fn path(&self, part: usize) -> PathBuf {
        self.folder.join(format!("{}-{:05}-of-{:05}.gguf", self.stem, part + 1, self.count))
    }
}

impl Gguf {
    /// Reads a model that is one file.
    ///
    /// ```
    /// use polaris_gguf::{Gguf, TensorType, Writer};
    ///
    /// let mut writer = Writer::new();
    /// writer.set("general.name", "tiny")?;
    /// writer.tensor("x", &[2], TensorType::F16, &[0, 0x3c, 0, 0xc0][..])?;
    /// let gguf = Gguf::from_bytes(writer.into_bytes()?.into())?;
    /// assert_eq!(gguf.metadata().require::<&str>("general.name")?, "tiny");
    /// assert_eq!(gguf.tensor("x")?.to_f32()?, [1.0, -2.0]);
    /// # Ok::<(), polaris_gguf::Error>(())
    /// ```
    ///
    /// # Errors
    /// If it is no valid file, or one of several parts.
    pub fn from_bytes(bytes: Bytes) -> Result<Self> {
        let file = File::parse(bytes)?;
        let count = part_count(&file.metadata)?;
        if count > 1 {
            let why = format!(
                "is {count}; open the model by its path, so that its other parts are found"
            );
            return Err(Error::key(COUNT_KEY, why));
        }
        Ok(Self { parts: vec![file] })
    }

    /// Opens a model by the path of its file, or of any of its parts. `open` gives the bytes of a file, best by mapping
    /// it: then only the pages that are read take memory. It is called once for each part. The files must not change
    /// as long as the model is in use: what was checked when they were opened is relied on later.
    ///
    /// # Errors
    /// If a file cannot be opened or is not valid, or if a part is missing or belongs to another model.
    pub fn open<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        path: &Path,
        mut open: impl FnMut(&Path) -> std::result::Result<Bytes, E>,
    ) -> Result<Self> {
        let mut load = |path: &Path| {
            let bytes = open(path)
                .map_err(|source| Error::Open { path: path.to_owned(), source: source.into() })?;
            File::parse(bytes).map_err(|error| error.in_file(path))
        };
        let file = load(path)?;
        let count = part_count(&file.metadata).map_err(|error| error.in_file(path))?;
        if count == 1 {
            return Ok(Self { parts: vec![file] });
        }
        let name = part_name(path, &file.metadata, count).map_err(|error| error.in_file(path))?;
        let expected = expected_tensors(&file.metadata).map_err(|error| error.in_file(path))?;
        let mut given = Some(file);
        let mut parts = Vec::new();
        for part in 0..count {
            let path = name.path(part);
            let file = match given.take_if(|_| part + 1 == name.number) {
                Some(file) => file,
                None => load(&path)?,
            };
            check_part(&file, part, count, expected).map_err(|error| error.in_file(&path))?;
            check_names(&file, &parts).map_err(|error| error.in_file(&path))?;
            parts.push(file);
        }
        let found: usize = parts.iter().map(File::len).sum();
        if found != expected {
            let why = format!("is {expected}; the {count} parts have {found} tensors together");
            return Err(Error::key(TENSORS_KEY, why).in_file(path));
        }
        Ok(Self { parts })
    }

    /// The metadata; of a split model, that of its first part.
    pub fn metadata(&self) -> &Metadata {
        &self.parts[0].metadata
    }

    /// How many files it has.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// How many tensors it has.
    pub fn tensor_count(&self) -> usize {
        self.parts.iter().map(File::len).sum()
    }

    /// All tensors, in the order of the files.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'_>> {
        self.parts.iter().enumerate().flat_map(|(part, file)| file.tensors(part))
    }

    /// The tensor of a name, if there is one.
    pub fn find(&self, name: &str) -> Option<Tensor<'_>> {
        self.parts.iter().enumerate().find_map(|(part, file)| file.find(name, part))
    }

    /// The tensor of a name that must be there.
    ///
    /// # Errors
    /// If there is none.
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>> {
        self.find(name).ok_or_else(|| Error::NoTensor {
            name: Shown(name).to_string(),
            count: self.tensor_count(),
        })
    }
}

/// How many parts a model has; 1 if it was not split.
fn part_count(metadata: &Metadata) -> Result<usize> {
    // `gguf-split` writes 0 where it merges.
    Ok(metadata.get::<u16>(COUNT_KEY)?.map_or(1, |count| usize::from(count.max(1))))
}

fn expected_tensors(metadata: &Metadata) -> Result<usize> {
    metadata.require::<u32>(TENSORS_KEY).map(|count| count as usize)
}

/// The name of the part that was asked for, which must say what the part says.
fn part_name(path: &Path, metadata: &Metadata, count: usize) -> Result<PartName> {
    let number = usize::from(metadata.require::<u16>(NUMBER_KEY)?) + 1;
    match PartName::parse(path) {
        Some(name) if (name.number, name.count) == (number, count) => Ok(name),
        _ => Err(Error::key(
            COUNT_KEY,
            format!(
                "makes it part {number} of {count}; its name must end in -{number:05}-of-{count:05}.gguf, so that \
                 the other parts are found"
            ),
        )),
    }
}

/// Whether a file is the part that its name says, of the same model.
fn check_part(file: &File, part: usize, count: usize, tensors: usize) -> Result<()> {
    for (key, expected) in [(NUMBER_KEY, part), (COUNT_KEY, count), (TENSORS_KEY, tensors)] {
        let found: u32 = file.metadata.require(key)?;
        if found as usize != expected {
            return Err(Error::key(
                key,
                format!("is {found}; expected is {expected}, by the first part and the name"),
            ));
        }
    }
    Ok(())
}

fn check_names(file: &File, before: &[File]) -> Result<()> {
    for tensor in file.tensors(0) {
        if let Some(part) = before.iter().position(|other| other.find(tensor.name(), 0).is_some()) {
            let name = Shown(tensor.name());
            let why = format!("the tensor `{name}` is in part {} too", part + 1);
            return Err(Error::format(tensor.range().start, why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts() {
        let name = PartName::parse(Path::new("models/a-b-00002-of-00003.gguf")).unwrap();
        assert_eq!((name.stem.as_str(), name.number, name.count), ("a-b", 2, 3));
        assert_eq!(name.path(2), Path::new("models/a-b-00003-of-00003.gguf"));
        for other in
            ["a.gguf", "a-00001-of-00002.bin", "a-1-of-2.gguf", "a-0000x-of-00002.gguf", ""]
        {
            assert!(PartName::parse(Path::new(other)).is_none(), "{other}");
        }
    }
}
