//! Files that are complete or absent: written to a temporary name and renamed at the end.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, TryLockError};

/// How the names of files begin that are not whole yet.
const UNFINISHED: &str = ".writing-";

/// Files of this process that have no name yet. A process that ends without destructors, as it must when there is no
/// memory left, removes them with [`abandon_unfinished`]. It is process-wide because such an end is.
static UNFINISHED_HERE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file that gets its name only when all of it is on the disk. If it is dropped before, nothing is left
/// of it, and what was under its name is still there.
#[derive(Debug)]
pub struct AtomicFile {
    file: tempfile::NamedTempFile,
    path: PathBuf,
    _listed: Listed,
}

/// The entry of a file in the list of those without a name.
#[derive(Debug)]
struct Listed(PathBuf);

impl Listed {
    fn new(path: &Path) -> Self {
        let (entry, own) = (path.to_owned(), path.to_owned());
        UNFINISHED_HERE.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        Self(own)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut list = UNFINISHED_HERE.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|path| *path != self.0);
    }
}

impl AtomicFile {
    /// Begins a file in a folder that is there.
    ///
    /// # Errors
    /// If the place cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        let folder = folder_of(path);
        // A rename would put a file in the place of a pipe, or of /dev/null.
        if let Ok(there) = std::fs::metadata(path) {
            crate::regular::require_regular(&there)?;
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix(UNFINISHED);
        // Others may read it, as far as the user lets them; temporary files are private otherwise.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(folder)?;
        let _listed = Listed::new(file.path());
        Ok(Self { file, path: path.to_owned(), _listed })
    }

    /// Brings it to the disk and gives it its name.
    ///
    /// # Errors
    /// If the disk is full or the place cannot be written; then nothing is left of it.
    pub fn finish(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        let path = self.path.clone();
        self.finish_unsynced()?;
        // The new name must be on the disk, too.
        if let Ok(folder) = File::open(folder_of(&path)) {
            let _ = folder.sync_all();
        }
        Ok(())
    }

    /// Gives it its name without waiting for the disk: for what can be made again, and is checked when it
    /// is read. After a loss of power a part of it may be missing.
    ///
    /// # Errors
    /// If the place cannot be written; then nothing is left of it.
    pub fn finish_unsynced(self) -> io::Result<()> {
        self.file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Writes a file so that it is complete or absent, in a folder that is there.
///
/// # Errors
/// If the disk is full or the place cannot be written.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes)?;
    file.finish()
}

/// What to do about a write that failed, to be put behind the reason; empty where the reason says it.
pub fn write_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space. The old file is unchanged"
        }
        io::ErrorKind::FileTooLarge => {
            "; raise the limit on file sizes (ulimit -f). The old file is unchanged"
        }
        _ => "",
    }
}

/// Removes the files that this process has begun and not finished: for an end without destructors. It neither
/// allocates, but for paths of several hundred bytes, nor waits.
pub fn abandon_unfinished() {
    let list = match UNFINISHED_HERE.try_lock() {
        Ok(list) => list,
        Err(TryLockError::Poisoned(list)) => list.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    for path in list.iter() {
        let _ = std::fs::remove_file(path);
    }
}

/// Removes what a process left in a folder that was ended while it wrote.
pub fn remove_unfinished(folder: &Path) {
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if file.file_name().to_string_lossy().starts_with(UNFINISHED) {
            // One that cannot be removed does no harm.
            let _ = std::fs::remove_file(file.path());
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        assert!(AtomicFile::create(&folder.path().join("missing").join("file")).is_err());
        assert!(AtomicFile::create(folder.path()).is_err());
        let path = folder.path().join("file");
        let mut unfinished = AtomicFile::create(&path).unwrap();
        unfinished.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(unfinished);
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
        write_atomic(&path, b"old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"__w").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(b"ne").unwrap();
        file.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn an_end_without_destructors_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        write_atomic(&folder.path().join("kept"), b"whole").unwrap();
        let file = AtomicFile::create(&folder.path().join("file")).unwrap();
        let place = file.file.path().to_owned();
        std::mem::forget(file);
        assert!(place.exists());
        let is_listed = |path: &Path| UNFINISHED_HERE.lock().unwrap().iter().any(|p| p == path);
        assert!(is_listed(&place) && !is_listed(&folder.path().join("kept")));
        // What other tests write at the same time is theirs.
        UNFINISHED_HERE.lock().unwrap().retain(|path| *path == place);
        abandon_unfinished();
        assert!(!place.exists() && folder.path().join("kept").exists());
    }

    #[test]
    fn what_an_ended_process_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        write_atomic(&folder.path().join("kept"), b"").unwrap();
        std::fs::write(folder.path().join(format!("{UNFINISHED}abc")), b"").unwrap();
        remove_unfinished(folder.path());
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(names.len(), 1);
        assert!(folder.path().join("kept").exists());
    }
}
