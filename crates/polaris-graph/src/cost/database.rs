//! Measured times of instructions: one JSON file for each device in the cache folder, replaced as a whole.
//! What another version of Polaris, another driver or another number of threads has measured is not used.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use polaris_files::{FileLock, read_text, write_atomic};
use polaris_runtime::machine::Paths;
use polaris_runtime::{Device, Error as RuntimeError};
use serde::{Deserialize, Serialize};

use super::signature::fingerprint;
use super::{Class, Work};
use crate::Result;
use crate::plan::Trial;

/// Changes when the meaning of the file does.
const SCHEMA: &str = "polaris.costs/1";
/// A file does not grow for ever: beyond this, the entries that were measured first go.
const MOST_ENTRIES: usize = 20_000;
/// More than so many entries have.
const MAX_BYTES: u64 = 256 << 20;

/// What is known of one instruction on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Instructions of its kind.
    pub class: Class,
    /// What it has to do.
    #[serde(flatten)]
    pub work: Work,
    /// The median time, without the wait for the device.
    pub seconds: f64,
    /// Seconds since 1970.
    pub unix_time: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Contents {
    schema: String,
    polaris: String,
    device: String,
    entries: BTreeMap<String, Entry>,
    #[serde(default)]
    trials: BTreeMap<String, Trial>,
}

/// The measured times of a device.
#[derive(Debug)]
pub struct Database {
    path: Option<PathBuf>,
    contents: Contents,
    /// What is not in the file yet.
    new: Vec<(String, Entry)>,
    new_trials: Vec<(String, Trial)>,
}

impl Database {
    /// Reads the file of a device below the cache folder; without a folder all is kept in memory only.
    pub fn open(cache: Option<&Path>, device: &dyn Device) -> Self {
        let key = key_of(device);
        let path = cache.map(|cache| {
            let words: String = (device.info().name.chars().take(40))
                .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
                .collect();
            Paths::costs(cache).join(format!("{words}-{:016x}.json", fingerprint(key.as_bytes())))
        });
        Self::read(path, key)
    }

    fn read(path: Option<PathBuf>, key: String) -> Self {
        let contents = path.as_deref().map_or_else(|| empty(&key), |path| load(path, &key));
        Self { path, contents, new: Vec::new(), new_trials: Vec::new() }
    }

    /// What is known of an instruction.
    pub fn get(&self, signature: &str) -> Option<&Entry> {
        self.contents.entries.get(signature)
    }

    /// All that is known.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.contents.entries.values()
    }

    /// Remembers an instruction's time.
    pub fn insert(&mut self, signature: String, entry: Entry) {
        self.contents.entries.insert(signature.clone(), entry.clone());
        self.new.push((signature, entry));
    }

    /// How long plans took that were tried side by side.
    pub fn trial(&self, name: &str) -> Option<Trial> {
        self.contents.trials.get(name).copied()
    }

    /// Remembers how long plans took.
    pub fn insert_trial(&mut self, name: String, trial: Trial) {
        self.contents.trials.insert(name.clone(), trial);
        self.new_trials.push((name, trial));
    }

    /// Writes what is new. Entries of other processes are kept.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&mut self) -> Result<()> {
        let Some(path) = self.path.as_deref() else { return Ok(()) };
        if self.new.is_empty() && self.new_trials.is_empty() {
            return Ok(());
        }
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| RuntimeError::Io { action, path, source }
        };
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(io("make the folder", folder))?;
        let lock_path = path.with_extension("lock");
        let _lock = FileLock::wait(&lock_path).map_err(io("lock", &lock_path))?;
        let mut merged = load(path, &self.contents.device);
        merged.entries.extend(self.new.drain(..));
        merged.trials.extend(self.new_trials.drain(..));
        forget_oldest(&mut merged.entries);
        let text = serde_json::to_string_pretty(&merged).expect("costs should be valid JSON");
        write_atomic(path, text.as_bytes()).map_err(io("write", path))?;
        self.contents = merged;
        Ok(())
    }
}

/// A device under its driver, with as many threads.
fn key_of(device: &dyn Device) -> String {
    format!("{} | {} units", device.info().profile_key(), device.capabilities().compute_units)
}

fn empty(key: &str) -> Contents {
    Contents {
        schema: SCHEMA.to_owned(),
        polaris: env!("CARGO_PKG_VERSION").to_owned(),
        device: key.to_owned(),
        ..Contents::default()
    }
}

fn load(path: &Path, key: &str) -> Contents {
    let text = match read_text(path, MAX_BYTES) {
        Ok(text) => text,
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                log::warn!("{} cannot be read ({error}); times are measured anew", path.display());
            }
            return empty(key);
        }
    };
    let expected = empty(key);
    match serde_json::from_str::<Contents>(&text) {
        Ok(found) if found.schema == SCHEMA && found.polaris == expected.polaris => {
            // A meeting of hashes in the file's name is the only way to another device.
            if found.device == key { found } else { expected }
        }
        Ok(found) => {
            let (schema, version) = (found.schema, found.polaris);
            log::info!("{}: of {schema}, Polaris {version}; measured anew", path.display());
            expected
        }
        Err(error) => {
            log::warn!("{} is damaged ({error}); times are measured anew", path.display());
            expected
        }
    }
}

fn forget_oldest(entries: &mut BTreeMap<String, Entry>) {
    if entries.len() <= MOST_ENTRIES {
        return;
    }
    let mut times: Vec<u64> = entries.values().map(|entry| entry.unix_time).collect();
    times.sort_unstable();
    let first_kept = times[times.len() - MOST_ENTRIES / 2];
    entries.retain(|_, entry| entry.unix_time >= first_kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seconds: f64) -> Entry {
        Entry { class: Class::MatMul, work: Work::default(), seconds, unix_time: 7 }
    }

    #[test]
    fn entries_come_back_and_those_of_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("costs/card.json");
        let open = || Database::read(Some(path.clone()), "card".to_owned());
        let (mut one, mut other) = (open(), open());
        one.insert("a".to_owned(), entry(1.0));
        one.insert_trial("p".to_owned(), Trial { hybrid: Some(0.5), ..Trial::default() });
        other.insert("b".to_owned(), entry(2.0));
        one.save().unwrap();
        other.save().unwrap();
        let found = open();
        assert_eq!(found.get("a"), Some(&entry(1.0)));
        assert_eq!(found.get("b"), Some(&entry(2.0)));
        assert_eq!(found.trial("p").unwrap().hybrid, Some(0.5));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn special_files_are_not_read_and_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("card.json");
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let mut database = Database::read(Some(path.clone()), "card".to_owned());
        database.insert("a".to_owned(), entry(1.0));
        let error = database.save().unwrap_err().to_string();
        assert!(error.contains("it is a device"), "{error}");
        assert!(path.is_symlink());
    }

    #[test]
    fn files_of_other_versions_and_damaged_ones_are_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("card.json");
        let open = || Database::read(Some(path.clone()), "card".to_owned());
        let mut database = open();
        database.insert("a".to_owned(), entry(1.0));
        database.save().unwrap();
        let good = fs::read_to_string(&path).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        let others = [
            good.replace(SCHEMA, "polaris.costs/0"),
            good.replace(version, "0.0.0-other"),
            good.replace("\"card\"", "\"another card\""),
            good[..good.len() / 2].to_owned(),
            String::new(),
        ];
        for other in others {
            assert_ne!(other, good, "the file should be another one");
            fs::write(&path, &other).unwrap();
            let mut database = open();
            assert!(database.get("a").is_none(), "{other}");
            database.insert("b".to_owned(), entry(2.0));
            database.save().unwrap();
            let found = open();
            assert!(found.get("b").is_some() && found.get("a").is_none());
        }
    }
}
