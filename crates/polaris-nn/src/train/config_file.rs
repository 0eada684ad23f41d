//! Configurations as TOML, with the place and the cure of what is wrong with them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use polaris_data::nearest_name;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::config::Config;
use crate::{Error, Result};

/// Configurations that are built in, with their names.
const BUILT_IN: [(&str, &str); 4] = [
    ("digits", include_str!("digits.toml")),
    ("text", include_str!("text.toml")),
    ("llama", include_str!("llama.toml")),
    ("tiny", include_str!("tiny.toml")),
];

/// The largest file that is read.
const LARGEST: u64 = 1 << 20;

/// The sections of a configuration.
const SECTIONS: [&str; 6] = ["model", "data", "optim", "schedule", "train", "quantize"];

impl Config {
    /// Reads a configuration from TOML, and checks it.
    ///
    /// ```
    /// use polaris_nn::train::Config;
    ///
    /// let text = "[model]\nkind = \"mlp\"\n[data]\nsource = \"digits\"\n[optim]\nlr = 0.01\n";
    /// assert_eq!(Config::from_toml(text)?.optim.lr, 0.01);
    /// let error = Config::from_toml(&format!("{text}epz = 1e-8\n")).unwrap_err().to_string();
    /// assert!(error.starts_with("line 7: `epz` in [optim]: unknown field"), "{error}");
    /// assert!(error.ends_with("(did you mean `eps`?)"), "{error}");
    /// # Ok::<(), polaris_nn::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Config` with the line and the key, if there is one to blame.
    pub fn from_toml(text: &str) -> Result<Self> {
        ConfigTable::parse(text)?.checked()
    }

    /// Reads a configuration from a file, and checks it. Its relative paths are relative to the file's folder.
    ///
    /// # Errors
    /// `File` if it cannot be read; otherwise as [`from_toml`](Self::from_toml), with the file.
    pub fn from_file(path: &Path) -> Result<Self> {
        let mut config = ConfigTable::read(path)?.checked()?;
        config.resolve_paths(path.parent().unwrap_or(Path::new("")))?;
        Ok(config)
    }

    /// The configuration as TOML.
    ///
    /// # Errors
    /// If a number has no place in TOML.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|error| Error::invalid(error.to_string()))
    }
}

/// A configuration before it is decoded: a table whose values can be set by their names.
#[derive(Debug, Clone)]
pub struct ConfigTable {
    path: Option<PathBuf>,
    text: String,
    table: Table,
    /// Keys whose values are not those of the text any more.
    set: BTreeSet<String>,
}

impl ConfigTable {
    /// A table of TOML.
    ///
    /// # Errors
    /// `Config` if it is not TOML.
    pub fn parse(text: &str) -> Result<Self> {
        Self::of_text(None, text.to_owned())
    }

    /// The table of a file.
    ///
    /// # Errors
    /// `File` if it cannot be read, `Config` if it is not TOML.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            polaris_files::read_text(path, LARGEST).map_err(|error| Error::file(path, error))?;
        Self::of_text(Some(path.to_owned()), text)
    }

    /// The table of a configuration that is there.
    ///
    /// # Errors
    /// If a number has no place in TOML.
    pub fn of(config: &Config) -> Result<Self> {
        Self::parse(&config.to_toml()?)
    }

    /// A configuration that is built in: `digits`, `text`, `llama` or `tiny`.
    pub fn built_in(name: &str) -> Option<Self> {
        let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
        Self::parse(text).ok()
    }

    /// The names of those that are built in.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    fn of_text(path: Option<PathBuf>, text: String) -> Result<Self> {
        match text.parse() {
            Ok(table) => Ok(Self { path, text, table, set: BTreeSet::new() }),
            Err(error) => {
                let what = format!("this is not TOML: {error}");
                Err(Error::Config { path, line: None, key: None, what })
            }
        }
    }

    /// Sets a value by its name, such as `optim.lr`; what is no number, list or truth value is a string, with or
    /// without quotes.
    ///
    /// # Errors
    /// `Config` if the name goes through something that is no section.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let key = key.trim();
        let mut names: Vec<&str> = key.split('.').collect();
        let last = names.pop().unwrap_or_default();
        let value = format!("value = {value}")
            .parse::<Table>()
            .ok()
            .and_then(|mut parsed| parsed.remove("value"))
            .unwrap_or_else(|| Value::String(value.trim().to_owned()));
        let mut table = &mut self.table;
        for name in names {
            let section =
                table.entry(name.to_owned()).or_insert_with(|| Value::Table(Table::new()));
            let Some(section) = section.as_table_mut() else {
                let what = format!("`{name}` is no section");
                let key = Some(key.to_owned());
                return Err(Error::Config { path: None, line: None, key, what });
            };
            table = section;
        }
        table.insert(last.to_owned(), value);
        self.set.insert(key.to_owned());
        Ok(())
    }

    /// The configuration. Whether its numbers make sense is for [`Config::check`] to say.
    ///
    /// # Errors
    /// `Config` with the line and the key, if there is one to blame.
    pub fn config(&self) -> Result<Config> {
        for name in ["model", "data"] {
            if !self.table.contains_key(name) {
                return Err(self.error(None, format!("the section [{name}] is missing")));
            }
        }
        if let Some(unknown) = self.table.keys().find(|key| !SECTIONS.contains(&key.as_str())) {
            let nearest = nearest(unknown, &SECTIONS.map(str::to_owned));
            let what = format!(
                "there is no section or key `{unknown}`{nearest}; the sections are {}",
                SECTIONS.join(", ")
            );
            return Err(self.error(Some(unknown.clone()), what));
        }
        Ok(Config {
            model: self.section("model")?,
            data: self.section("data")?,
            optim: self.section("optim")?,
            schedule: self.section("schedule")?,
            train: self.section("train")?,
            quantize: self.section("quantize")?,
        })
    }

    fn checked(&self) -> Result<Config> {
        let config = self.config()?;
        config.check().map_err(|error| self.error(None, error.to_string()))?;
        Ok(config)
    }

    fn error(&self, key: Option<String>, what: String) -> Error {
        let in_text = key.as_deref().filter(|key| !self.set.contains(*key));
        let line = in_text.and_then(|key| line_of(&self.text, key));
        Error::Config { path: self.path.clone(), line, key, what }
    }

    /// A section. They are decoded one by one, so that a message can name its own.
    fn section<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let section = self.table.get(name).cloned().unwrap_or_else(|| Value::Table(Table::new()));
        section.clone().try_into::<T>().map_err(|error| {
            let message = error.message().trim().to_owned();
            // Serde's words: unknown field `x`, expected one of `a`, `b`.
            let mut quoted = message.split('`').skip(1).step_by(2).map(str::to_owned);
            let (wrong, known) = (quoted.next().unwrap_or_default(), quoted.collect::<Vec<_>>());
            let nearest = match message.starts_with("unknown") {
                true => nearest(&wrong, &known),
                false => String::new(),
            };
            match culprit::<T>(&section, &message) {
                Some(key) => {
                    let what = format!("`{key}` in [{name}]: {message}{nearest}");
                    self.error(Some(format!("{name}.{key}")), what)
                }
                None => self.error(None, format!("in [{name}]: {message}{nearest}")),
            }
        })
    }
}

/// The key without which a section would not be refused in this way.
fn culprit<T: DeserializeOwned>(section: &Value, message: &str) -> Option<String> {
    let table = section.as_table()?;
    let is_culprit = |key: &&String| {
        let mut rest = table.clone();
        rest.remove(*key);
        match Value::Table(rest).try_into::<T>() {
            Ok(_) => true,
            Err(error) => error.message().trim() != message && *key == "kind",
        }
    };
    table.keys().find(is_culprit).cloned()
}

/// The line of `section.key`, counted from 1.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let (section, wanted) = key.split_once('.')?;
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            inside = name.trim() == section;
        } else if inside && line.split('=').next().is_some_and(|key| key.trim() == wanted) {
            return Some(index + 1);
        }
    }
    None
}

/// ` (did you mean ...?)` with the name that is most alike, if one is.
fn nearest(wrong: &str, known: &[String]) -> String {
    nearest_name(known, wrong).map_or(String::new(), |name| format!(" (did you mean `{name}`?)"))
}
