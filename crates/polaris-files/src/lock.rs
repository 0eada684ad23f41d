//! Locks between processes. The operating system gives a lock back when its process ends, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// An exclusive lock on a file, held until it is dropped.
#[derive(Debug)]
pub struct FileLock {
    /// The lock belongs to the open file.
    _file: File,
}

impl FileLock {
    /// Waits for the lock on a file, which is created if it is missing.
    ///
    /// # Errors
    /// If the file cannot be opened or its file system has no locks.
    pub fn wait(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        file.lock()?;
        Ok(Self { _file: file })
    }

    /// Takes the lock if nobody holds it; `None` if somebody does.
    ///
    /// # Errors
    /// As [`FileLock::wait`].
    pub fn try_now(path: &Path) -> io::Result<Option<Self>> {
        Self::wait_at_most(path, Duration::ZERO)
    }

    /// Waits for the lock, but not for longer than this; `None` if somebody holds it still.
    ///
    /// # Errors
    /// As [`FileLock::wait`].
    pub fn wait_at_most(path: &Path, patience: Duration) -> io::Result<Option<Self>> {
        let file = open(path)?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Self { _file: file })),
                Err(TryLockError::WouldBlock) if start.elapsed() < patience => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false);
    // A FIFO in its place would block; with this it is refused or found out below.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.open(path)?;
    crate::regular::require_regular(&file.metadata()?)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = FileLock::try_now(&path).unwrap();
        assert!(held.is_some());
        assert!(FileLock::try_now(&path).unwrap().is_none());
        let patience = Duration::from_millis(10);
        assert!(FileLock::wait_at_most(&path, patience).unwrap().is_none());
        drop(held);
        FileLock::wait(&path).unwrap();
        assert!(FileLock::try_now(&path).unwrap().is_some());
        assert!(FileLock::try_now(folder.path()).is_err());
    }
}
