//! A predictor in a file, with what it was trained on.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Predictor;
use crate::Result;
use crate::files::{replace, text_of};

/// The version of the file.
const SCHEMA: u32 = 2;
/// Fewer measurements are left to near shapes: a model of them would be a guess.
const ENOUGH: usize = 200;
/// A predictor is trained again when there are this many times as many measurements.
const GROWN: f64 = 1.1;

/// A predictor, and how much it has seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    schema: u32,
    /// How many measurements it learnt from.
    pub samples: usize,
    /// The fingerprint of the kernel's source whose times they are.
    pub source: String,
    /// The names of the features, in order: a program that has others cannot ask it.
    pub features: Vec<String>,
    /// The models.
    pub predictor: Predictor,
}

impl Saved {
    /// Where the predictor of a chip is in a folder.
    pub fn file(folder: &Path, chip: &str) -> PathBuf {
        folder.join(format!("{chip}.predictor.json"))
    }

    /// A predictor to be saved.
    pub fn new(predictor: Predictor, samples: usize, source: &str, features: &[&str]) -> Self {
        let features = features.iter().map(|&name| name.to_owned()).collect();
        Self { schema: SCHEMA, samples, source: source.to_owned(), features, predictor }
    }

    /// The predictor in a file; nothing if there is none, it is damaged, or it is about another
    /// source or other features. It can always be trained again.
    pub fn load(path: &Path, source: &str, features: &[&str]) -> Option<Self> {
        let saved: Self = serde_json::from_str(&text_of(path)?).ok()?;
        let fits = saved.schema == SCHEMA && saved.source == source && saved.features == features;
        let sound = saved.predictor.width() == features.len() && saved.predictor.is_sound();
        (fits && sound).then_some(saved)
    }

    /// Whether so many measurements are worth training again.
    pub fn is_outgrown(known: Option<&Self>, samples: usize) -> bool {
        let before = known.map_or(0.0, |known| known.samples as f64);
        samples >= ENOUGH && samples as f64 >= GROWN * before
    }

    /// Writes it in the place of an older one.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string(self).expect("plain numbers should have a text");
        replace(path, &text)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::{Model, Sample};
    use super::*;

    fn predictor() -> Predictor {
        let sample = |x: u32| Sample {
            features: vec![x as f32, 1.0],
            seconds: f64::from(x + 1),
            baseline: 1.0,
            group: u64::from(x % 3),
            device: 0,
        };
        let samples: Vec<Sample> = (0..40).map(sample).collect();
        Predictor::fit(&samples, Model::Both, 1).unwrap()
    }

    #[test]
    fn it_comes_back_as_it_was_for_the_same_source_and_features() {
        let folder = tempfile::tempdir().unwrap();
        let path = Saved::file(folder.path(), "chip");
        let saved = Saved::new(predictor(), 40, "abc", &["x", "one"]);
        saved.save(&path).unwrap();
        let loaded = Saved::load(&path, "abc", &["x", "one"]).unwrap();
        assert_eq!(loaded.predictor.predict(&[3.0, 1.0]), saved.predictor.predict(&[3.0, 1.0]));
        assert!(Saved::load(&path, "other", &["x", "one"]).is_none());
        assert!(Saved::load(&path, "abc", &["x", "two"]).is_none());
        let text = fs::read_to_string(&path).unwrap();
        let damaged = [
            text[..text.len() / 2].to_owned(),
            text.replacen("\"roots\":[0", "\"roots\":[4000000", 1),
            text.replacen("\"first_bias\":[", "\"first_bias\":[0.5,", 1),
        ];
        if cfg!(target_os = "linux") {
            assert!(Saved::load(Path::new("/dev/zero"), "abc", &["x", "one"]).is_none());
        }
        for damaged in damaged {
            assert_ne!(damaged, text);
            fs::write(&path, damaged).unwrap();
            assert!(Saved::load(&path, "abc", &["x", "one"]).is_none());
        }
    }

    #[test]
    fn it_is_trained_again_when_there_is_more_to_learn_from() {
        let known = Saved::new(predictor(), 1000, "abc", &["x", "one"]);
        assert!(!Saved::is_outgrown(None, 100));
        assert!(Saved::is_outgrown(None, 300));
        assert!(!Saved::is_outgrown(Some(&known), 1050));
        assert!(Saved::is_outgrown(Some(&known), 1101));
    }
}
