//! What happened in a training, a line of JSON for each event.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::run::Event;
use crate::tensors_file::write_atomically;
use crate::{Error, Result};

/// A file that events are appended to.
pub struct Log {
    path: PathBuf,
    file: std::fs::File,
}

impl Log {
    /// Opens a log, and forgets what it says about later steps: they are about to be taken again.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn open(path: &Path, step: u64) -> Result<Self> {
        let lines = read_log(path)?;
        let kept: Vec<&Value> =
            lines.iter().filter(|line| line["step"].as_u64().is_some_and(|s| s <= step)).collect();
        if kept.len() < lines.len() || step == 0 {
            let kept: &[&Value] = if step == 0 { &[] } else { &kept };
            let text: String = kept.iter().map(|line| format!("{line}\n")).collect();
            write_atomically(path, text.as_bytes())?;
        }
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        Ok(Self { path: path.to_owned(), file: file.map_err(|error| Error::file(path, error))? })
    }

    /// Appends an event.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, event: &Event) -> Result<()> {
        let line = serde_json::to_string(event).map_err(|error| Error::file(&self.path, error))?;
        writeln!(self.file, "{line}").map_err(|error| Error::file(&self.path, error))
    }
}

/// The events of a log. A last line that was cut off is left out.
///
/// # Errors
/// If the file is there and cannot be read.
pub fn read_log(path: &Path) -> Result<Vec<Value>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::file(path, error)),
    }
}
