//! All records as one file, to carry them from one machine to another.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Database, MAX_BYTES, file_error, line_of, parse, write_at_end};
use crate::Result;

/// What became of the lines of an imported file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// How many records were new.
    pub added: usize,
    /// How many records were there before, equal in every field.
    pub already_there: usize,
    /// How many lines were half or damaged.
    pub unreadable: usize,
    /// How many lines another version of Polaris wrote.
    pub other_schema: usize,
}

impl Database {
    /// Writes all readable records to one file and says how many they were. The file appears
    /// complete or not at all.
    ///
    /// # Errors
    /// If a file cannot be read or the target cannot be written.
    pub fn export(&self, target: &Path) -> Result<usize> {
        let failed = |source| file_error(target, source);
        let records = self.load_all()?.records;
        let lines = records.iter().map(line_of).collect::<io::Result<String>>().map_err(failed)?;
        polaris_files::write_atomic(target, lines.as_bytes()).map_err(failed)?;
        Ok(records.len())
    }

    /// Adds the records of an exported file that are not there yet.
    ///
    /// # Errors
    /// If the file cannot be read or the database cannot be written; chips that were done before
    /// keep their new records, and importing again adds the rest.
    pub fn import(&self, source: &Path) -> Result<Imported> {
        let text = polaris_files::read(source, MAX_BYTES);
        let text = text.map_err(|error| file_error(source, error))?;
        let loaded = parse(&text);
        let mut result = Imported {
            unreadable: loaded.unreadable,
            other_schema: loaded.other_schema,
            ..Imported::default()
        };
        let mut by_file: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
        for record in &loaded.records {
            let line = line_of(record).map_err(|error| file_error(source, error))?;
            by_file.entry(self.file_of(&record.device.chip)).or_default().push(line);
        }
        for (path, lines) in by_file {
            let failed = |error| file_error(&path, error);
            // Compared and written under one lock: two imports at once add each record once.
            let mut file = self.open_locked(&path)?;
            let text = polaris_files::read_all(&mut file, MAX_BYTES).map_err(failed)?;
            let there = parse(&text).records;
            let mut there: HashSet<String> =
                there.iter().map(line_of).collect::<io::Result<_>>().map_err(failed)?;
            let total = lines.len();
            let new: Vec<String> =
                lines.into_iter().filter(|line| there.insert(line.clone())).collect();
            if !new.is_empty() {
                write_at_end(&mut file, &new.concat()).map_err(failed)?;
            }
            file.unlock().map_err(failed)?;
            result.added += new.len();
            result.already_there += total - new.len();
        }
        Ok(result)
    }
}
