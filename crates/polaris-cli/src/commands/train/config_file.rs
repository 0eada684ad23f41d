//! Configurations of the command line: a file or one that is built in, with values that `--set` changes.

use std::path::Path;

use anyhow::{anyhow, bail};
use polaris::nn;
use polaris::nn::train::{Config, ConfigTable};

use crate::exit::Usage;

/// A configuration, with absolute paths, and a name for the run.
pub struct ConfigFile {
    pub config: Config,
    pub name: String,
}

/// Reads a file, or one of the built-in configurations, and changes it.
pub fn read(path: &Path, changes: &[String]) -> anyhow::Result<ConfigFile> {
    let built_in = path.to_str().filter(|_| !path.exists()).and_then(ConfigTable::built_in);
    let (table, folder) = match built_in {
        Some(table) => (table, Path::new("")),
        None => (file(path)?, path.parent().unwrap_or(Path::new(""))),
    };
    let checked = |changes: &[String]| {
        let config = changed(&table, changes)?;
        config.check().map_err(|error| anyhow!("{}: {error}", path.display()))?;
        anyhow::Ok(config)
    };
    let mut config = checked(changes).map_err(|error| blame(error, || checked(&[]).is_ok()))?;
    config.resolve_paths(folder)?;
    let name = path.file_stem().map_or("run".into(), |stem| stem.to_string_lossy().into_owned());
    Ok(ConfigFile { config, name })
}

fn file(path: &Path) -> anyhow::Result<ConfigTable> {
    ConfigTable::read(path).map_err(|error| match error {
        nn::Error::File { .. } => {
            let names: Vec<&str> = ConfigTable::built_in_names().collect();
            anyhow!("{error}; give a file, or one of: {}", names.join(", "))
        }
        error => error.into(),
    })
}

/// A configuration from its table, with changes from the command line.
pub fn changed(table: &ConfigTable, changes: &[String]) -> anyhow::Result<Config> {
    let with = |changes: &[String]| {
        let mut table = table.clone();
        for change in changes {
            let Some((key, value)) = change.split_once('=') else {
                bail!("--set {change}: write it as in optim.lr=1e-3");
            };
            table.set(key, value).map_err(|error| anyhow!("--set {change}: {error}"))?;
        }
        table.config().map_err(|error| by_change(error, changes))
    };
    with(changes).map_err(|error| blame(error, || with(&[]).is_ok()))
}

/// An error with the change that it comes from, if that is known.
fn by_change(error: nn::Error, changes: &[String]) -> anyhow::Error {
    let nn::Error::Config { key: Some(key), what, .. } = &error else { return error.into() };
    let is_of = |change: &&String| {
        let path = change.split('=').next().unwrap_or_default().trim();
        path.strip_prefix(key.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    match changes.iter().find(is_of) {
        Some(change) => anyhow!("--set {change}: {what}"),
        None => error.into(),
    }
}

/// What is right without the changes from the command line is wrong by them: a mistake of usage.
fn blame(error: anyhow::Error, is_right_without: impl Fn() -> bool) -> anyhow::Error {
    match error.is::<Usage>() || !is_right_without() {
        true => error,
        false => Usage(format!("{error:#}")).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_set_by_their_path() {
        let changes = ["optim.lr=0.5", "train.device=opencl:0"].map(str::to_owned);
        let file = read(Path::new("digits"), &changes).unwrap();
        assert_eq!((file.config.optim.lr, file.config.train.device.as_str()), (0.5, "opencl:0"));
    }

    #[test]
    fn mistakes_of_the_command_line_are_told_from_those_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        let refused = |text: &str, change: &str| {
            std::fs::write(&path, text).unwrap();
            let error = read(&path, &[change.to_owned()]).err().expect(change);
            (error.is::<Usage>(), error.to_string())
        };
        let right = "[model]\nkind = \"mlp\"\n[data]\nsource = \"digits\"\n";
        for change in ["optim", "optm.lr=1", "optim.lrr=1", "optim.lr=fast"] {
            let (is_usage, found) = refused(right, change);
            assert!(is_usage && found.starts_with(&format!("--set {change}: ")), "{found}");
        }
        assert!(refused(right, "optim.lr=-1").0);
        assert!(refused(right, "data.dims=[3]").0, "digits do not use it");
        assert!(!refused("[model]\nkind = \"mlp\"\n", "optim.lr=1").0);
        assert!(!refused(&format!("{right}dims = [3]\n"), "optim.lr=1").0);
    }
}
