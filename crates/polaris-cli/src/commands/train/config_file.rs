//! Configurations: a TOML file, changes from the command line, and words for what is wrong with them.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use polaris::data::nearest_name;
use polaris::nn::train::Config;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::exit::Usage;

/// Configurations that are built in, with their names.
const BUILT_IN: &[(&str, &str)] =
    &[("digits", include_str!("digits.toml")), ("text", include_str!("text.toml"))];

/// The largest configuration that is read.
const LARGEST: u64 = 1 << 20;

/// A configuration, and where it comes from.
pub struct ConfigFile {
    pub config: Config,
    /// What its paths are relative to.
    pub folder: PathBuf,
    /// A name for the run.
    pub name: String,
}

/// Reads a file, or one of the built-in configurations, and changes it.
pub fn read(path: &Path, changes: &[String]) -> anyhow::Result<ConfigFile> {
    let named = path.to_str().filter(|_| !path.exists());
    let built_in = named.and_then(|name| BUILT_IN.iter().find(|(known, _)| *known == name));
    let text = match built_in {
        Some((_, text)) => (*text).to_owned(),
        None => polaris::files::read_text(path, LARGEST).with_context(|| {
            let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
            format!("{}: give a file, or one of: {}", path.display(), names.join(", "))
        })?,
    };
    let shown = path.display().to_string();
    let table: Table =
        text.parse().map_err(|error| anyhow!("{shown}: this is not TOML: {error}"))?;
    let config = changed(&table, &shown, &text, changes)?;
    let checked = config.check().with_context(|| shown.clone());
    checked.map_err(|error| {
        let without = || changed(&table, &shown, &text, &[]);
        blame(error, || without().is_ok_and(|config| config.check().is_ok()))
    })?;
    let folder = match path.parent() {
        Some(folder) if built_in.is_none() => folder.to_owned(),
        _ => PathBuf::new(),
    };
    let name = path.file_stem().map_or("run".into(), |stem| stem.to_string_lossy().into_owned());
    Ok(ConfigFile { config, folder, name })
}

/// A configuration from its table, with changes from the command line.
pub fn changed(
    table: &Table,
    shown: &str,
    text: &str,
    changes: &[String],
) -> anyhow::Result<Config> {
    let with = |changes: &[String]| {
        let mut table = table.clone();
        changes.iter().try_for_each(|change| set(&mut table, change))?;
        decode(table, shown, text, changes)
    };
    with(changes).map_err(|error| blame(error, || with(&[]).is_ok()))
}

/// What is right without the changes from the command line is wrong by them: a mistake of usage.
fn blame(error: anyhow::Error, is_right_without: impl Fn() -> bool) -> anyhow::Error {
    match is_right_without() {
        true => Usage(format!("{error:#}")).into(),
        false => error,
    }
}

/// Changes one value: `optim.lr=1e-3`.
fn set(table: &mut Table, change: &str) -> anyhow::Result<()> {
    let Some((path, value)) = change.split_once('=') else {
        bail!("--set {change}: write it as in optim.lr=1e-3");
    };
    let mut names: Vec<&str> = path.trim().split('.').collect();
    let last = names.pop().unwrap_or_default();
    // What is no number, list or truth value is a string without its quotes.
    let value = format!("value = {value}")
        .parse::<Table>()
        .ok()
        .and_then(|mut parsed| parsed.remove("value"))
        .unwrap_or_else(|| Value::String(value.trim().to_owned()));
    let mut table = table;
    for name in names {
        let section = table.entry(name.to_owned()).or_insert_with(|| Value::Table(Table::new()));
        let Some(section) = section.as_table_mut() else {
            bail!("--set {change}: `{name}` is no section");
        };
        table = section;
    }
    table.insert(last.to_owned(), value);
    Ok(())
}

/// The sections of a configuration.
const SECTIONS: [&str; 5] = ["model", "data", "optim", "schedule", "train"];

/// A configuration from its table. Sections are read one by one, so that a message can name its own.
fn decode(mut table: Table, shown: &str, text: &str, changes: &[String]) -> anyhow::Result<Config> {
    for name in ["model", "data"] {
        if !table.contains_key(name) {
            bail!("{shown}: the section [{name}] is missing");
        }
    }
    if let Some(unknown) = table.keys().find(|key| !SECTIONS.contains(&key.as_str())) {
        let nearest = nearest(unknown, &SECTIONS.map(str::to_owned));
        bail!(
            "{shown}: there is no section or key `{unknown}`{nearest}; the sections are {}",
            SECTIONS.join(", ")
        );
    }
    Ok(Config {
        model: section(&mut table, "model", shown, text, changes)?,
        data: section(&mut table, "data", shown, text, changes)?,
        optim: section(&mut table, "optim", shown, text, changes)?,
        schedule: section(&mut table, "schedule", shown, text, changes)?,
        train: section(&mut table, "train", shown, text, changes)?,
    })
}

fn section<T: DeserializeOwned>(
    table: &mut Table,
    name: &str,
    shown: &str,
    text: &str,
    changes: &[String],
) -> anyhow::Result<T> {
    let section = table.remove(name).unwrap_or_else(|| Value::Table(Table::new()));
    section.clone().try_into::<T>().map_err(|error| {
        let message = error.message().trim().to_owned();
        // Serde's words: unknown field `x`, expected one of `a`, `b`.
        let mut quoted = message.split('`').skip(1).step_by(2).map(str::to_owned);
        let (wrong, known) = (quoted.next().unwrap_or_default(), quoted.collect::<Vec<_>>());
        let nearest =
            if message.starts_with("unknown") { nearest(&wrong, &known) } else { String::new() };
        let Some(key) = culprit::<T>(&section, &message) else {
            return anyhow!("{shown}: in [{name}]: {message}{nearest}");
        };
        let path = format!("{name}.{key}");
        let place = match changes.iter().find(|change| change.split('=').next() == Some(&path)) {
            Some(change) => format!("--set {change}"),
            None => {
                line_of(text, name, &key).map_or(shown.to_owned(), |line| format!("{shown}:{line}"))
            }
        };
        anyhow!("{place}: `{key}` in [{name}]: {message}{nearest}")
    })
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

/// The line of a section's key, counted from 1.
fn line_of(text: &str, section: &str, wanted: &str) -> Option<usize> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        let table = text.parse().unwrap();
        decode(table, "a.toml", text, &[]).unwrap_err().to_string()
    }

    #[test]
    fn built_in_configurations_are_right() {
        for (name, _) in BUILT_IN {
            read(Path::new(name), &[]).unwrap().config.check().unwrap();
        }
    }

    #[test]
    fn misspelled_keys_are_named_with_line_and_nearest() {
        let head = "[model]\nkind = \"mlp\"\n[data]\nsource = \"digits\"\n";
        let found = message(&format!("{head}[optim]\nlrr = 1\n"));
        assert!(found.starts_with("a.toml:6: `lrr` in [optim]: unknown field `lrr`"), "{found}");
        assert!(found.ends_with("(did you mean `lr`?)"), "{found}");
        let found = message("[model]\nkind = \"cn\"\n[data]\nsource = \"digits\"\n");
        assert!(found.contains("a.toml:2") && found.contains("`cnn`?"), "{found}");
        let found = message("[model]\nkind = \"mlp\"\nhiden = [3]\n[data]\nsource = \"digits\"\n");
        assert!(found.contains("a.toml:3") && found.contains("did you mean `hidden`"), "{found}");
        let found = message(&format!("{head}[train] # how long\n# the epochs\nepochs = \"ten\"\n"));
        assert!(found.starts_with("a.toml:7: `epochs` in [train]"), "{found}");
        let found = message(&format!("{head}[optm]\nlr = 1\n"));
        assert!(found.contains("did you mean `optim`"), "{found}");
        assert!(message("[model]\nkind = \"mlp\"\n").contains("[data] is missing"));
    }

    #[test]
    fn values_are_set_by_their_path() {
        let changes = ["optim.lr=0.5", "train.device=opencl:0", "model.hidden=[3, 4]"];
        let changes = changes.map(str::to_owned);
        let file = read(Path::new("digits"), &changes[..2]).unwrap();
        assert_eq!((file.config.optim.lr, file.config.train.device.as_str()), (0.5, "opencl:0"));
    }

    #[test]
    fn mistakes_of_the_command_line_are_told_from_those_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        let is_usage = |text: &str, change: &str| {
            std::fs::write(&path, text).unwrap();
            let error = read(&path, &[change.to_owned()]).err().expect(change);
            error.is::<Usage>()
        };
        let right = "[model]\nkind = \"mlp\"\n[data]\nsource = \"digits\"\n";
        for change in ["optim", "optm.lr=1", "optim.lrr=1", "optim.lr=fast", "optim.lr=-1"] {
            assert!(is_usage(right, change), "{change}");
        }
        assert!(is_usage(right, "data.dims=[3]"), "digits do not use it");
        assert!(!is_usage("[model]\nkind = \"mlp\"\n", "optim.lr=1"));
        assert!(!is_usage(&format!("{right}dims = [3]\n"), "optim.lr=1"));
    }
}
