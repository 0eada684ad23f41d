//! Every measurement ever made, as lines of JSON that are only ever appended to.
//!
//! There is one file for each chip. A line is written under an exclusive lock and in one piece, so
//! that any number of processes may append at once. A line that was cut short, because its writer
//! was killed or the disk was full, costs that line alone: readers count and skip it, and the next
//! writer begins a new one.
//!
//! Lines are handed to the system, not forced onto the disk: a killed process loses nothing that
//! [`Database::append`] returned for, a loss of power may lose the last seconds. Forcing each line
//! would take longer than many a measurement, and what is lost can be measured again.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::record::{Record, SCHEMA};
use crate::{Error, Result};

mod exchange;

pub use exchange::Imported;

/// Measurements of a chip that are read at once: some millions.
const MAX_BYTES: u64 = 1 << 30;

/// A folder of measurements.
#[derive(Debug, Clone)]
pub struct Database {
    folder: PathBuf,
}

/// What was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loaded {
    /// The records, oldest first within each chip.
    pub records: Vec<Record>,
    /// How many lines were half or damaged.
    pub unreadable: usize,
    /// How many lines another version of Polaris wrote, with fields of another meaning.
    pub other_schema: usize,
}

impl Database {
    /// The database in a folder, which is made with the first record.
    pub fn open(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds a record. When this returns, the record outlives the process.
    ///
    /// # Errors
    /// If the file cannot be written, or a number in the record is infinite or NaN.
    pub fn append(&self, record: &Record) -> Result<()> {
        let path = self.file_of(&record.device.chip);
        let failed = |source| file_error(&path, source);
        let line = line_of(record).map_err(failed)?;
        let mut file = self.open_locked(&path)?;
        write_at_end(&mut file, &line).and_then(|()| file.unlock()).map_err(failed)
    }

    /// All records of a chip; none if there is no file.
    ///
    /// # Errors
    /// If the file is there but cannot be read. Damaged lines are not errors.
    pub fn load(&self, chip: &str) -> Result<Loaded> {
        let mut loaded = read(&self.file_of(chip))?;
        // Two names may share a file.
        loaded.records.retain(|record| record.device.chip == chip);
        Ok(loaded)
    }

    /// All records of all chips; none if there is no folder.
    ///
    /// # Errors
    /// If a file cannot be read. Damaged lines are not errors.
    pub fn load_all(&self) -> Result<Loaded> {
        let failed = |source| file_error(&self.folder, source);
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Loaded::default()),
            entries => entries.map_err(failed)?,
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|extension| extension == "jsonl") {
                paths.push(path);
            }
        }
        paths.sort();
        let mut all = Loaded::default();
        for path in paths {
            let loaded = read(&path)?;
            all.records.extend(loaded.records);
            all.unreadable += loaded.unreadable;
            all.other_schema += loaded.other_schema;
        }
        Ok(all)
    }

    fn file_of(&self, chip: &str) -> PathBuf {
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let name: String = chip.chars().take(100).map(|c| safe(c.to_ascii_lowercase())).collect();
        let name = if name.is_empty() { "unnamed" } else { &name };
        self.folder.join(format!("{name}.jsonl"))
    }

    fn open_locked(&self, path: &Path) -> Result<File> {
        let open = || polaris_files::open_append(path);
        let file = open().or_else(|error| {
            if error.kind() != ErrorKind::NotFound {
                return Err(error);
            }
            fs::create_dir_all(&self.folder)?;
            open()
        });
        let file = file.map_err(|error| file_error(path, error))?;
        loop {
            match file.lock() {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Some network file systems have no locks. What is appended in one write is
                // rarely torn, and a torn line costs itself alone.
                Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(file),
                locked => return locked.map(|()| file).map_err(|error| file_error(path, error)),
            }
        }
    }
}

/// A record as a line, with its end.
fn line_of(record: &Record) -> io::Result<String> {
    if !record.outcome.is_finite() {
        let why = "a record with an infinite time or error is not a measurement";
        return Err(io::Error::new(ErrorKind::InvalidData, why));
    }
    let mut line = serde_json::to_string(record)?;
    line.push('\n');
    Ok(line)
}

/// Appends whole lines in one write, on a line of their own.
fn write_at_end(file: &mut File, lines: &str) -> io::Result<()> {
    let mut text = String::with_capacity(lines.len() + 1);
    if file.seek(SeekFrom::End(0))? > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            text.push('\n');
        }
    }
    text.push_str(lines);
    file.write_all(text.as_bytes())
}

fn read(path: &Path) -> Result<Loaded> {
    let (mut file, _) = match polaris_files::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Loaded::default()),
        opened => opened.map_err(|error| file_error(path, error))?,
    };
    // A writer's line is then whole. Where there are no locks, a half one is skipped.
    let _ = file.lock_shared();
    let text = polaris_files::read_all(&mut file, MAX_BYTES);
    Ok(parse(&text.map_err(|error| file_error(path, error))?))
}

fn parse(text: &[u8]) -> Loaded {
    #[derive(Deserialize)]
    struct Head {
        schema: u32,
    }
    let mut loaded = Loaded::default();
    for line in text.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        // The number first: the fields of another schema may not even fit.
        match serde_json::from_slice::<Head>(line) {
            Err(_) => loaded.unreadable += 1,
            Ok(head) if head.schema != SCHEMA => loaded.other_schema += 1,
            Ok(_) => match serde_json::from_slice(line) {
                Ok(record) => loaded.records.push(record),
                Err(_) => loaded.unreadable += 1,
            },
        }
    }
    loaded
}

fn file_error(path: &Path, source: io::Error) -> Error {
    let cure = match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space on that disk",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "make the folder writable for you, or set POLARIS_DATA_DIR to one that is"
        }
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            "a file is where a folder should be: move it, or set POLARIS_DATA_DIR to another folder"
        }
        ErrorKind::NotFound | ErrorKind::InvalidFilename => "check the name",
        ErrorKind::InvalidData => "measure it again, or record it as failed",
        ErrorKind::InvalidInput => "move it away, or set POLARIS_DATA_DIR to another folder",
        ErrorKind::FileTooLarge => "move it away; a new database is started",
        _ => "check the disk, or set POLARIS_DATA_DIR to a folder on another one",
    };
    Error::File { path: path.display().to_string(), source, cure }
}

#[cfg(test)]
mod tests;
