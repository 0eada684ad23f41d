//! What happened in a training, a line of JSON for each event.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::run::Event;
use crate::tensors_file::write_atomically;
use crate::{Error, Result};

/// The largest log that is read: some ten million steps.
const LARGEST: u64 = 1 << 31;

/// A file that events are appended to.
pub struct Log {
    path: PathBuf,
    file: std::fs::File,
}

impl Log {
    /// Opens a log, and forgets what it says about later steps, which are about to be taken again,
    /// and a last line that was cut off.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn open(path: &Path, step: u64) -> Result<Self> {
        let text = read_text(path)?;
        let is_kept = |event: &Value| step > 0 && event["step"].as_u64().is_some_and(|s| s <= step);
        let kept = events(&text).filter(|(_, event)| is_kept(event));
        let kept: String = kept.map(|(line, _)| format!("{line}\n")).collect();
        if kept != text {
            write_atomically(path, kept.as_bytes())?;
        }
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        Ok(Self { path: path.to_owned(), file: file.map_err(|error| Error::io(path, &error))? })
    }

    /// Appends an event.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, event: &Event) -> Result<()> {
        let line = serde_json::to_string(event).map_err(|error| Error::file(&self.path, error))?;
        let line = line + "\n";
        self.file.write_all(line.as_bytes()).map_err(|error| Error::io(&self.path, &error))
    }
}

/// The events of a log. A last line that was cut off is left out.
///
/// # Errors
/// If the file is there and cannot be read.
pub fn read_log(path: &Path) -> Result<Vec<Value>> {
    Ok(events(&read_text(path)?).map(|(_, event)| event).collect())
}

fn read_text(path: &Path) -> Result<String> {
    match polaris_files::read_text(path, LARGEST) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Error::io(path, &error)),
    }
}

/// Lines that are whole, with what they say.
fn events(text: &str) -> impl Iterator<Item = (&str, Value)> {
    text.lines().filter_map(|line| Some((line, serde_json::from_str(line).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(step: u64) -> Event {
        Event::Step { step, epoch: 0, loss: 0.5, rate: 0.1, examples: 4, seconds: 0.0 }
    }

    #[test]
    fn a_line_that_was_cut_off_and_steps_to_be_repeated_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let steps = || -> Vec<u64> {
            read_log(&path).unwrap().iter().map(|event| event["step"].as_u64().unwrap()).collect()
        };
        let mut log = Log::open(&path, 0).unwrap();
        (1..=3).for_each(|number| log.write(&step(number)).unwrap());
        // Whatever ended the process ended it in the middle of a line.
        log.file.write_all(b"{\"event\":\"st").unwrap();
        let mut log = Log::open(&path, 3).unwrap();
        log.write(&step(4)).unwrap();
        assert_eq!(steps(), [1, 2, 3, 4]);
        let mut log = Log::open(&path, 2).unwrap();
        log.write(&step(3)).unwrap();
        assert_eq!(steps(), [1, 2, 3]);
        Log::open(&path, 0).unwrap();
        assert!(steps().is_empty());
    }
}
