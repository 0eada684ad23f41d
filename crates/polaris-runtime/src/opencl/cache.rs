//! Built programs on disk, shared by all processes of a user.
//!
//! A file is named by the hash of everything its contents depend on, is written to a temporary name and then renamed,
//! and carries a checksum. So readers never see half a file, and a damaged one is as good as absent.

use std::fs;
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

use polaris_files::{FileLock, write_atomic};
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

/// More than any program's binary: a file of more bytes is something else.
const MAX_BYTES: u64 = 256 << 20;

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
        let bytes = polaris_files::read(&path, MAX_BYTES).ok()?;
        let payload = unpack(&bytes, key);
        if payload.is_none() {
            log::info!("{} is damaged; the program is rebuilt", path.display());
        }
        payload.map(<[u8]>::to_vec)
    }

    pub(super) fn store(&self, key: &CacheKey, payload: &[u8]) {
        let Some(path) = self.path(key) else { return };
        if let Err(error) = write_atomic(&path, &pack(key, payload)) {
            self.say_once(&error);
        }
    }

    /// Keeps other processes from building the same program until the result is dropped. Best
    /// effort: without a lock the program is merely built twice.
    pub(super) fn lock(&self, key: &CacheKey) -> Option<FileLock> {
        // A few lock files for all programs, so that they do not pile up.
        let path = self.folder.as_ref()?.join(format!("build-{}.lock", &key.0[..1]));
        FileLock::wait_at_most(&path, PATIENCE).ok().flatten()
    }

    fn path(&self, key: &CacheKey) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{}.program", key.0)))
    }

    fn say_once(&self, error: &std::io::Error) {
        self.write_failure.call_once(|| {
            let folder = self.folder.as_ref().map(|folder| folder.display().to_string());
            log::warn!(
                "cannot store programs in {} ({error}), so every process rebuilds them; make the folder writable or set POLARIS_CACHE_DIR to one that is",
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
        // Whoever waits has it only after it was dropped.
        let dropped = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(cache.lock(&key).is_some());
                assert!(dropped.load(std::sync::atomic::Ordering::SeqCst));
            });
            dropped.store(true, std::sync::atomic::Ordering::SeqCst);
            drop(held);
        });
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn special_and_huge_files_count_as_absent_and_stay() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ProgramCache::new(Some(folder.path().to_owned()));
        let key = CacheKey::new(&["source"]);
        let path = cache.path(&key).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert_eq!(cache.load(&key), None);
        cache.store(&key, b"binary");
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
        fs::remove_file(&path).unwrap();
        fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(cache.load(&key), None);
        cache.store(&key, b"binary");
        assert_eq!(cache.load(&key).as_deref(), Some(&b"binary"[..]));
    }
}
