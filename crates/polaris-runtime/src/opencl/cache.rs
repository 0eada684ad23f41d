//! Built programs on disk, shared by all processes of a user.
//!
//! A file is named by the hash of everything its contents depend on, is written beside its place
//! and then renamed, and carries a checksum. So readers never see half a file, and a damaged one
//! is as good as absent.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Once;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::machine::files_in;

/// Names a program: a hash of its source, options, device and driver.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CacheKey(String);

impl CacheKey {
    pub fn new(parts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            // The length keeps the border between two parts from moving.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(hex(&hash.finalize()))
    }
}

/// Changes when the meaning of the files does.
const MAGIC: &str = "polaris-program 1";

/// Another process that builds for longer than this is taken to hang.
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder of built programs.
#[derive(Debug)]
pub struct ProgramCache {
    /// `None` where there is no such folder and none can be made.
    folder: Option<PathBuf>,
    write_failure: Once,
}

impl ProgramCache {
    /// Uses this folder, made if need be; `None` keeps nothing on disk.
    pub fn new(folder: Option<PathBuf>) -> Self {
        let cache = Self { folder, write_failure: Once::new() };
        if let Some(folder) = &cache.folder
            && let Err(error) = fs::create_dir_all(folder)
        {
            cache.say_once(&error);
            return Self { folder: None, ..cache };
        }
        cache
    }

    /// The folder in use.
    pub fn folder(&self) -> Option<&PathBuf> {
        self.folder.as_ref()
    }

    /// How many programs there are, and their bytes.
    pub fn contents(&self) -> (usize, u64) {
        self.files().fold((0, 0), |(count, bytes), file| {
            (count + 1, bytes + file.metadata().map_or(0, |meta| meta.len()))
        })
    }

    /// Removes all programs; returns how many there were.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn clear(&self) -> std::io::Result<usize> {
        self.files().try_fold(0, |count, file| fs::remove_file(file).map(|()| count + 1))
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let is_program =
            |path: &PathBuf| path.extension().is_some_and(|extension| extension == "program");
        files_in(self.folder.as_deref()).filter(is_program)
    }

    pub(super) fn load(&self, key: &CacheKey) -> Option<Vec<u8>> {
        let path = self.path(key)?;
        let bytes = fs::read(&path).ok()?;
        let payload = unpack(&bytes, key);
        if payload.is_none() {
            log::info!("{} is damaged; the program is built anew", path.display());
        }
        payload.map(<[u8]>::to_vec)
    }

    pub(super) fn store(&self, key: &CacheKey, payload: &[u8]) {
        let (Some(folder), Some(path)) = (&self.folder, self.path(key)) else {
            return;
        };
        let write = || {
            let mut file = tempfile::Builder::new().prefix(".writing-").tempfile_in(folder)?;
            file.write_all(&pack(key, payload))?;
            file.as_file().sync_all()?;
            file.persist(path).map_err(|error| error.error)
        };
        if let Err(error) = write() {
            self.say_once(&error);
        }
    }

    /// Keeps other processes from building the same program until the result is dropped. Best
    /// effort: without a lock the program is merely built twice.
    pub(super) fn lock(&self, key: &CacheKey) -> Option<File> {
        // A few lock files for all programs, so that they do not pile up.
        let path = self.folder.as_ref()?.join(format!("build-{}.lock", &key.0[..1]));
        let file = OpenOptions::new().create(true).write(true).truncate(false).open(path).ok()?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Some(file),
                Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(_) => return None,
            }
        }
    }

    fn path(&self, key: &CacheKey) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{}.program", key.0)))
    }

    fn say_once(&self, error: &std::io::Error) {
        self.write_failure.call_once(|| {
            let folder = self.folder.as_ref().map(|folder| folder.display().to_string());
            log::warn!(
                "programs cannot be kept in {} ({error}), so they are built anew in every process; \
                 make the folder writable or set POLARIS_CACHE_DIR to one that is",
                folder.unwrap_or_default(),
            );
        });
    }
}

fn pack(key: &CacheKey, payload: &[u8]) -> Vec<u8> {
    let header = format!("{MAGIC}\n{}\n{}\n", key.0, hex(&Sha256::digest(payload)));
    [header.as_bytes(), payload].concat()
}

fn unpack<'a>(bytes: &'a [u8], key: &CacheKey) -> Option<&'a [u8]> {
    let rest = bytes.strip_prefix(MAGIC.as_bytes())?.strip_prefix(b"\n")?;
    let rest = rest.strip_prefix(key.0.as_bytes())?.strip_prefix(b"\n")?;
    let (checksum, payload) = rest.split_at_checked(64)?;
    let payload = payload.strip_prefix(b"\n")?;
    (hex(&Sha256::digest(payload)).as_bytes() == checksum).then_some(payload)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ProgramCache::new(Some(folder.path().join("a/b")));
        let key = CacheKey::new(&["source", "options"]);
        assert_eq!(cache.load(&key), None);
        cache.store(&key, b"binary");
        assert_eq!(cache.load(&key).as_deref(), Some(&b"binary"[..]));
        assert_eq!(cache.load(&CacheKey::new(&["sourceo", "ptions"])), None);
        assert_eq!(cache.contents().0, 1);
        assert_eq!(cache.clear().unwrap(), 1);
        assert_eq!(cache.load(&key), None);
    }

    #[test]
    fn every_damaged_file_counts_as_absent() {
        let key = CacheKey::new(&["source"]);
        let whole = pack(&key, b"some binary");
        assert!(unpack(&whole, &key).is_some());
        for cut in 0..whole.len() {
            assert!(unpack(&whole[..cut], &key).is_none(), "cut at {cut}");
        }
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            assert!(unpack(&flipped, &key).is_none(), "flipped at {at}");
        }
        assert!(unpack(&whole, &CacheKey::new(&["other"])).is_none());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_survived() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let cache = ProgramCache::new(Some(file.path().join("below-a-file")));
        let key = CacheKey::new(&["source"]);
        cache.store(&key, b"binary");
        assert_eq!(cache.load(&key), None);
        assert!(cache.lock(&key).is_none());
    }

    #[test]
    fn a_lock_excludes_others_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ProgramCache::new(Some(folder.path().to_owned()));
        let key = CacheKey::new(&["source"]);
        let held = cache.lock(&key).unwrap();
        let start = Instant::now();
        let waiter = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| cache.lock(&key).map(|_| start.elapsed()));
            std::thread::sleep(Duration::from_millis(50));
            drop(held);
            waiter.join().unwrap()
        });
        assert!(waiter.unwrap() >= Duration::from_millis(50));
    }
}
