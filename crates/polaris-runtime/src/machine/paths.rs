//! The folders for the files of Polaris.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// The folders Polaris writes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Built programs, packed weights and measured costs; may be deleted at any time. `None` if there is
    /// no home folder.
    pub cache: Option<PathBuf>,
    /// The machine's profile.
    pub data: Option<PathBuf>,
}

impl Paths {
    /// `POLARIS_CACHE_DIR` and `POLARIS_DATA_DIR` if set, otherwise the system's usual places.
    pub fn from_environment() -> Self {
        let home = |below: &str| folder("HOME").map(|home| home.join(below));
        let usual = |xdg: &str, unix: &str, mac: &str, windows: &str| {
            if cfg!(windows) {
                folder("LOCALAPPDATA").map(|base| base.join("polaris").join(windows))
            } else if cfg!(target_os = "macos") {
                home(mac).map(|base| base.join("polaris"))
            } else {
                folder(xdg).or_else(|| home(unix)).map(|base| base.join("polaris"))
            }
        };
        Self {
            cache: folder("POLARIS_CACHE_DIR")
                .or_else(|| usual("XDG_CACHE_HOME", ".cache", "Library/Caches", "cache")),
            data: folder("POLARIS_DATA_DIR").or_else(|| {
                usual("XDG_DATA_HOME", ".local/share", "Library/Application Support", "data")
            }),
        }
    }

    /// The folders of a program that names none: below `POLARIS_TEST_DIR` if that is set, otherwise those of
    /// [`Paths::from_environment`].
    ///
    /// This repository's `.cargo/config.toml` sets the variable, so that tests, examples and those of the
    /// documentation neither read nor change what belongs to the user. The `polaris` command ignores it: what
    /// `cargo run` starts works for the user.
    pub fn of_library() -> Self {
        let Some(base) = folder("POLARIS_TEST_DIR") else { return Self::from_environment() };
        let below = |name: &str| Some(base.join(name));
        Self {
            cache: folder("POLARIS_CACHE_DIR").or_else(|| below("cache")),
            data: folder("POLARIS_DATA_DIR").or_else(|| below("data")),
        }
    }

    /// The folder of built programs.
    pub fn programs(&self) -> Option<PathBuf> {
        self.cache.as_ref().map(|cache| cache.join("programs"))
    }

    /// The folder of models' weights in its preferred form.
    pub fn packed(cache: &Path) -> PathBuf {
        cache.join("packed")
    }

    /// The folder of what instructions of models cost on this machine.
    pub fn costs(cache: &Path) -> PathBuf {
        cache.join("costs")
    }

    /// What tuning measured and decided.
    pub fn tuning(&self) -> Option<PathBuf> {
        self.data.as_ref().map(|data| data.join("tuning"))
    }

    /// The machine's profile.
    pub fn profile(&self) -> Option<PathBuf> {
        self.data.as_ref().map(|data| data.join("machine.json"))
    }
}

/// The folder that a variable of the environment names.
fn folder(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The files of a folder; none if there is no such folder.
pub fn files_in(folder: Option<&Path>) -> impl Iterator<Item = PathBuf> {
    let entries = folder.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file())
}
