//! The folder of a training: who may write to it, and where its files lie.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use polaris_files::FileLock;

use super::checkpoint::Checkpoint;
use crate::{Error, Result};

/// Locked while a training writes to the folder. It stays there, which shows that a training made the folder.
const LOCK: &str = ".lock";

/// The folder of a training, which nobody else writes to.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// None where the file system has no locks.
    _lock: Option<FileLock>,
}

impl RunFolder {
    /// Takes a folder, which is made if it is missing.
    ///
    /// # Errors
    /// `FolderInUse` if another training writes to it; `File` if it cannot be made or written.
    pub fn open(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path).map_err(|error| {
            let why = format!("this folder cannot be made: {error}; name another one");
            Error::io_in_words(path, &error, why)
        })?;
        let lock = match FileLock::try_now(&path.join(LOCK)) {
            Ok(Some(lock)) => Some(lock),
            Ok(None) => return Err(Error::FolderInUse { path: path.to_owned() }),
            Err(error) if error.kind() == ErrorKind::Unsupported => None,
            Err(error) => return Err(Error::io(path.join(LOCK), &error)),
        };
        let folder = Self { path: path.to_owned(), _lock: lock };
        polaris_files::remove_unfinished(path);
        polaris_files::remove_unfinished(&folder.checkpoints());
        Ok(folder)
    }

    /// What stands against beginning a training here: a file that would be lost. What a training left that
    /// ended before its first checkpoint is no loss.
    pub fn obstacle(path: &Path) -> Option<PathBuf> {
        let there = |name: &str| Some(path.join(name)).filter(|file| file.exists());
        if let Some(checkpoint) = Checkpoint::list(&path.join("checkpoints")).pop() {
            return Some(checkpoint);
        }
        let of_a_training = || {
            ["model.safetensors", "log.jsonl", "config.toml"].iter().find_map(|name| there(name))
        };
        there("report.html")
            .or_else(|| if path.join(LOCK).exists() { None } else { of_a_training() })
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where checkpoints lie.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }
}
