//! The decisions of tuning for each problem on one chip: a small file that is read on first use, next to the large
//! one with every measurement.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use polaris_files::FileLock;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::files::{failed, replace, text_of};
use crate::record::ProblemKey;

/// The version of the file.
const SCHEMA: u32 = 1;

/// The decision for one problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// What it is for.
    pub problem: ProblemKey,
    /// The configuration; none where the default is best.
    pub config: Option<BTreeMap<String, i64>>,
    /// Its time, measured in turns with the default's, or predicted.
    pub seconds: f64,
    /// The default's time in the same turns.
    pub default_seconds: f64,
    /// The driver it was measured with.
    pub driver: String,
    /// The fingerprint of the kernel's source.
    pub source: String,
    /// Whether a model said so and nothing was measured.
    #[serde(default)]
    pub predicted: bool,
}

/// All decisions for one chip.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Choices {
    schema: u32,
    /// One for each problem.
    pub choices: Vec<Choice>,
}

impl Choices {
    /// Where the decisions for a chip are in a folder.
    pub fn file(folder: &Path, chip: &str) -> PathBuf {
        folder.join(format!("{chip}.choices.json"))
    }

    /// From JSON; nothing if it is damaged or of another version, since a default is always safe.
    pub fn from_json(text: &str) -> Self {
        let read: Option<Self> = serde_json::from_str(text).ok();
        read.filter(|choices| choices.schema == SCHEMA).unwrap_or_default()
    }

    /// From a file; nothing if there is none.
    pub fn load(path: &Path) -> Self {
        text_of(path).map(|text| Self::from_json(&text)).unwrap_or_default()
    }

    /// Puts decisions into a file in the place of those for the same problems, measured or
    /// predicted. The file is replaced as a whole, by one tuner at a time.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn merge_into(path: &Path, decided: &[Choice]) -> Result<()> {
        Self::change(path, |choices| {
            choices.retain(|old| !decided.iter().any(|new| new.problem == old.problem));
            choices.extend_from_slice(decided);
        })
    }

    /// Puts predictions into a file in the place of all older predictions. What was measured
    /// stays, and problems that were measured get no prediction.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn replace_predicted(path: &Path, predicted: &[Choice]) -> Result<()> {
        Self::change(path, |choices| {
            choices.retain(|old| !old.predicted);
            let is_new = |new: &&Choice| !choices.iter().any(|old| old.problem == new.problem);
            let new: Vec<Choice> = predicted.iter().filter(is_new).cloned().collect();
            choices.extend(new);
        })
    }

    fn change(path: &Path, change: impl FnOnce(&mut Vec<Choice>)) -> Result<()> {
        let failed = |source| failed(path, source);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let _lock = FileLock::wait(&path.with_extension("lock")).map_err(failed)?;
        let mut all = Self::load(path);
        change(&mut all.choices);
        Self::new(all.choices).save(path)
    }

    /// These decisions.
    pub fn new(choices: Vec<Choice>) -> Self {
        Self { schema: SCHEMA, choices }
    }

    /// Writes them in the place of what is there, as a whole.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string(self).expect("plain data should become JSON");
        replace(path, &(text + "\n"))
    }
}

/// A short name for texts: the same for the same texts, on every machine.
pub fn fingerprint(texts: &[&str]) -> String {
    // FNV-1a: nobody attacks this, and a hasher of the standard library may change.
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in texts.iter().flat_map(|text| text.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(size: u64, seconds: f64) -> Choice {
        Choice {
            problem: ProblemKey {
                operation: "matmul".into(),
                dtype: "f32".into(),
                layout: "nn".into(),
                shape: vec![size; 3],
            },
            config: Some(BTreeMap::from([("m".to_owned(), 64)])),
            seconds,
            default_seconds: 1.0,
            driver: "1".into(),
            source: "abc".into(),
            predicted: false,
        }
    }

    #[test]
    fn new_decisions_replace_those_for_the_same_problem() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/chip.choices.json");
        Choices::merge_into(&path, &[choice(64, 0.5), choice(128, 0.6)]).unwrap();
        Choices::merge_into(&path, &[choice(64, 0.4)]).unwrap();
        let mut seconds: Vec<f64> =
            Choices::load(&path).choices.iter().map(|c| c.seconds).collect();
        seconds.sort_by(f64::total_cmp);
        assert_eq!(seconds, [0.4, 0.6]);
    }

    #[test]
    fn predictions_come_and_go_and_never_replace_measurements() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chip.choices.json");
        let guess = |size, seconds| Choice { predicted: true, ..choice(size, seconds) };
        Choices::merge_into(&path, &[choice(64, 0.5)]).unwrap();
        Choices::replace_predicted(&path, &[guess(64, 0.1), guess(128, 0.2)]).unwrap();
        Choices::replace_predicted(&path, &[guess(256, 0.3)]).unwrap();
        Choices::merge_into(&path, &[choice(256, 0.4)]).unwrap();
        let found: Vec<(f64, bool)> =
            Choices::load(&path).choices.iter().map(|c| (c.seconds, c.predicted)).collect();
        assert_eq!(found, [(0.5, false), (0.4, false)]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn special_files_are_no_choices_and_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chip.choices.json");
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(Choices::load(&path).choices.is_empty());
        let error = Choices::merge_into(&path, &[choice(64, 0.5)]).unwrap_err().to_string();
        assert!(error.contains("it is a device"), "{error}");
        assert!(path.is_symlink());
    }

    #[test]
    fn damaged_and_foreign_files_are_no_choices() {
        assert!(Choices::from_json("{").choices.is_empty());
        assert!(Choices::from_json(r#"{"schema": 99, "choices": []}"#).choices.is_empty());
        assert_ne!(fingerprint(&["ab", "c"]), fingerprint(&["a", "bc"]));
    }
}
