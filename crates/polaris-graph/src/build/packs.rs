//! Prepacked weights on disk, so that a model that was loaded before is not packed again.
//!
//! One file for each model in the cache folder. Entries are content-addressed, so a changed model never finds weights
//! of its earlier version, and checked before use. A file that is damaged, or of another version or processor, is
//! replaced.

use std::collections::HashMap;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use polaris_files::AtomicFile;
use polaris_runtime::machine::Paths;
use polaris_runtime::{Device, Error as RuntimeError, MappedFile};

use crate::Result;
use crate::cost::fingerprint;

/// The first bytes of a file; they change when its meaning does.
const MAGIC: &[u8; 8] = b"PLRPACK2";
/// Magic, version, number of entries.
const HEADER: usize = 24;
/// Key, first byte, number of bytes, sum of the bytes.
const ENTRY: usize = 40;
/// Where weights begin.
const ALIGNMENT: usize = 64;
/// Less than this is packed as fast as it is read.
const FEWEST_BYTES: usize = 1 << 20;

/// What a weight holds and how it was packed.
pub type Key = [u64; 2];

/// The packed weights of a model, as a file has them.
#[derive(Debug)]
pub struct Packs {
    path: Option<PathBuf>,
    version: u64,
    file: Option<MappedFile>,
    /// First byte, number of bytes, sum.
    entries: HashMap<Key, [usize; 3]>,
}

impl Packs {
    /// Those of a model, whose file has this path; without a path or a folder there are none.
    pub fn open(cache: Option<&Path>, model: Option<&Path>, device: &dyn Device) -> Self {
        let key = format!("{} | {}", env!("CARGO_PKG_VERSION"), device.info().profile_key());
        let version = fingerprint(key.as_bytes());
        let path = cache.zip(model).map(|(cache, model)| {
            let model = std::path::absolute(model).unwrap_or_else(|_| model.to_owned());
            let name = fingerprint(model.as_os_str().as_encoded_bytes());
            Paths::packed(cache).join(format!("{name:016x}.pack"))
        });
        let mut packs = Self { path, version, file: None, entries: HashMap::new() };
        if let Some(path) = &packs.path
            && let Ok(file) = MappedFile::open(path)
            && let Some(entries) = parse(&file.bytes(), version)
        {
            (packs.file, packs.entries) = (Some(file), entries);
        }
        packs
    }

    /// The packed bytes of a weight, if they are there and as they were written.
    pub fn get(&self, key: &Key) -> Option<Bytes> {
        let &[start, length, sum] = self.entries.get(key)?;
        let bytes = self.file.as_ref()?.bytes().slice(start..start + length);
        (content_hash(&bytes, 0)[0] as usize == sum).then_some(bytes)
    }

    /// Gives back the memory of bytes that were read.
    pub fn release(&self, bytes: &[u8]) {
        if let Some(file) = &self.file {
            file.release(bytes);
        }
    }

    /// Whether something of these is missing, and all together worth a file.
    pub fn lacks(&self, keys: &[Key], bytes: usize) -> bool {
        let missing = keys.iter().any(|key| !self.entries.contains_key(key));
        self.path.is_some() && missing && bytes >= FEWEST_BYTES
    }

    /// Replaces the file. `load` gives the bytes of an entry, one after the other.
    ///
    /// # Errors
    /// If it cannot be written, or an entry cannot be read.
    pub fn save(&self, keys: &[Key], load: impl Fn(&Key) -> Result<Vec<u8>>) -> Result<()> {
        let Some(path) = self.path.as_deref() else { return Ok(()) };
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| RuntimeError::Io { action, path, source }
        };
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(io("make the folder", folder))?;
        let file = AtomicFile::create(path).map_err(io("write", path))?;
        let first = (HEADER + keys.len() * ENTRY).next_multiple_of(ALIGNMENT);
        let mut table = Vec::with_capacity(first);
        table.extend_from_slice(MAGIC);
        table.extend_from_slice(&self.version.to_le_bytes());
        table.extend_from_slice(&(keys.len() as u64).to_le_bytes());
        // The table is written last, when the sums are known.
        let mut writer = Positioned { file: BufWriter::new(file), at: 0 };
        writer.pad(first).map_err(io("write", path))?;
        for key in keys {
            let data = load(key)?;
            writer.pad(writer.at.next_multiple_of(ALIGNMENT)).map_err(io("write", path))?;
            let sum = content_hash(&data, 0)[0];
            for number in [key[0], key[1], writer.at as u64, data.len() as u64, sum] {
                table.extend_from_slice(&number.to_le_bytes());
            }
            writer.write(&data).map_err(io("write", path))?;
        }
        let file = writer.file.into_inner().map_err(std::io::IntoInnerError::into_error);
        let mut file = file.map_err(io("write", path))?;
        file.seek(SeekFrom::Start(0)).map_err(io("write", path))?;
        file.write_all(&table).map_err(io("write", path))?;
        // The disk is not waited for: what a crash leaves is found by its sums, and made again.
        file.finish_unsynced().map_err(io("write", path))?;
        Ok(())
    }
}

/// A file that knows how far it was written.
struct Positioned<W> {
    file: W,
    at: usize,
}

impl<W: Write> Positioned<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.at += bytes.len();
        self.file.write_all(bytes)
    }

    fn pad(&mut self, to: usize) -> std::io::Result<()> {
        let zeros = vec![0; to - self.at];
        self.write(&zeros)
    }
}

/// The table of a file, if it is one of this version and all its entries lie inside it.
fn parse(bytes: &[u8], version: u64) -> Option<HashMap<Key, [usize; 3]>> {
    let number = |at: usize| -> Option<u64> {
        Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
    };
    if bytes.get(..8)? != MAGIC || number(8)? != version {
        return None;
    }
    let count = usize::try_from(number(16)?).ok()?;
    if count.checked_mul(ENTRY)?.checked_add(HEADER)? > bytes.len() {
        return None;
    }
    let mut entries = HashMap::with_capacity(count);
    for index in 0..count {
        let at = HEADER + index * ENTRY;
        let place = |at: usize| usize::try_from(number(at)?).ok();
        let (start, length) = (place(at + 16)?, place(at + 24)?);
        if start.checked_add(length)? > bytes.len() {
            return None;
        }
        entries.insert([number(at)?, number(at + 8)?], [start, length, place(at + 32)?]);
    }
    Some(entries)
}

/// A number for what bytes are, as fast as they can be read: four lanes that are multiplied and folded.
/// For chance, not for adversaries, who could as well change the model.
pub fn content_hash(bytes: &[u8], seed: u64) -> [u64; 2] {
    const FACTORS: [u64; 4] = [
        0x9e37_79b9_7f4a_7c15,
        0xc2b2_ae3d_27d4_eb4f,
        0x1656_67b1_9e37_79f9,
        0x27d4_eb2f_1656_67c5,
    ];
    let mut lanes = FACTORS.map(|factor| factor ^ seed);
    let mix = |lane: u64, word: u64, factor: u64| {
        let wide = u128::from(lane ^ word) * u128::from(factor | 1);
        (wide as u64) ^ ((wide >> 64) as u64) ^ word.rotate_left(29)
    };
    let mut blocks = bytes.chunks_exact(32);
    for block in &mut blocks {
        for (lane, (word, factor)) in lanes.iter_mut().zip(block.chunks_exact(8).zip(FACTORS)) {
            let word = u64::from_le_bytes(word.try_into().expect("a word should have 8 bytes"));
            *lane = mix(*lane, word, factor);
        }
    }
    let mut last = [0; 32];
    last[..blocks.remainder().len()].copy_from_slice(blocks.remainder());
    for (lane, (word, factor)) in lanes.iter_mut().zip(last.chunks_exact(8).zip(FACTORS)) {
        let word = u64::from_le_bytes(word.try_into().expect("a word should have 8 bytes"));
        *lane = mix(*lane, word, factor);
    }
    let fold = |start: u64, turn: u32| {
        let all = lanes.iter().fold(start ^ bytes.len() as u64, |sum, &lane| {
            mix(sum.rotate_left(turn), lane, FACTORS[2])
        });
        mix(all, start, FACTORS[3])
    };
    [fold(seed, 11), fold(!seed, 23)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use polaris_runtime::{Runtime, RuntimeOptions};

    #[test]
    fn every_byte_and_the_length_count() {
        let bytes: Vec<u8> = (0..200u8).collect();
        let whole = content_hash(&bytes, 0);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_ne!(content_hash(&changed, 0), whole, "byte {at}");
        }
        assert_ne!(content_hash(&bytes[..199], 0), whole);
        assert_ne!(content_hash(&[0; 3], 0), content_hash(&[0; 4], 0));
        assert_ne!(content_hash(&bytes, 1), whole);
    }

    #[test]
    fn only_whole_files_of_this_version_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let cpu = Runtime::discover(&RuntimeOptions::default()).unwrap().cpu().clone();
        let open = || Packs::open(Some(folder.path()), Some(Path::new("model.onnx")), &*cpu);
        let data: Vec<u8> = (0..3 << 20).map(|at| (at % 251) as u8).collect();
        let keys = [[1, 2], [3, 4]];
        let packs = open();
        assert!(packs.lacks(&[[1, 2]], data.len()) && !packs.lacks(&[[1, 2]], 100));
        let load = |key: &Key| -> Result<Vec<u8>> {
            Ok(if *key == [1, 2] { data.clone() } else { vec![7; 10] })
        };
        packs.save(&keys, load).unwrap();
        let packs = open();
        assert_eq!(packs.get(&[1, 2]).unwrap()[..], data[..]);
        assert_eq!(packs.get(&[3, 4]).unwrap()[..], [7; 10]);
        assert!(packs.get(&[1, 3]).is_none() && !packs.lacks(&keys, data.len()));
        let path = packs.path.clone().unwrap();
        let whole = std::fs::read(&path).unwrap();
        // Damaged data is noticed when it is used, a damaged table at once.
        let mut damaged = whole.clone();
        *damaged.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        assert!(open().get(&[3, 4]).is_none() && open().get(&[1, 2]).is_some());
        for cut in [0, 7, 20, 30, 100, whole.len() - 1] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert!(open().get(&[3, 4]).is_none(), "cut at {cut}");
        }
        let mut other = whole;
        other[8] ^= 1;
        std::fs::write(&path, &other).unwrap();
        assert!(open().entries.is_empty(), "a file of another version");
    }
}
