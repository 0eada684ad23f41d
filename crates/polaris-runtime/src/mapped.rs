//! Memory-mapped files.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use memmap2::Mmap;

use crate::{Error, Result};

/// A file whose bytes are in memory only while they are looked at. It must not be shortened meanwhile:
/// the operating system ends a process that reads what is no longer there, as it does for every
/// program that maps files.
#[derive(Debug, Clone)]
pub struct MappedFile {
    /// `None` for an empty file, which cannot be mapped.
    map: Option<Arc<Mmap>>,
}

/// The map as the owner of shared bytes.
struct Owner(Arc<Mmap>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl MappedFile {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |source| Error::Io { action: "read", path: path.to_owned(), source };
        let (file, metadata) = polaris_files::open(path).map_err(failed)?;
        if metadata.len() == 0 {
            return Ok(Self { map: None });
        }
        // SAFETY: the map is read-only and private. That nobody shortens the file is a condition of this
        // type.
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        Ok(Self { map: Some(Arc::new(map)) })
    }

    /// All its bytes, shared.
    pub fn bytes(&self) -> Bytes {
        self.map.as_ref().map_or_else(Bytes::new, |map| Bytes::from_owner(Owner(Arc::clone(map))))
    }

    /// Lets go of the memory that holds bytes which lie in this file; others are left alone. They are read
    /// again when someone looks at them.
    pub fn release(&self, bytes: &[u8]) {
        let Some(map) = &self.map else { return };
        let whole = map.as_ptr_range();
        let part = bytes.as_ptr_range();
        if part.start < whole.start || part.end > whole.end || bytes.is_empty() {
            return;
        }
        let start = part.start as usize - whole.start as usize;
        release_pages(map, start..start + bytes.len());
    }
}

#[cfg(unix)]
fn release_pages(map: &Mmap, range: Range<usize>) {
    // SAFETY: the pages are those of a private, read-only map of a file and were never written, so that
    // they are read again from the file as they were. A refusal only costs memory.
    let _ = unsafe {
        map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, range.len())
    };
}

#[cfg(not(unix))]
fn release_pages(_map: &Mmap, _range: Range<usize>) {}
