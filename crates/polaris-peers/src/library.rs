//! Loading foreign libraries and finding their functions.

use std::path::PathBuf;

use libloading::Library;

use crate::{Error, Result};

/// The variable with a list of folders that are searched first.
pub const SEARCH_PATH: &str = "POLARIS_PEERS_PATH";

/// Loads the first library of these names. It stays loaded: libraries with threads of their own do
/// not survive being unloaded.
pub fn open(names: &[&str]) -> Result<&'static Library> {
    let folders: Vec<PathBuf> = std::env::var_os(SEARCH_PATH)
        .map(|list| std::env::split_paths(&list).filter(|f| !f.as_os_str().is_empty()).collect())
        .unwrap_or_default();
    let in_folders = folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
    let candidates = in_folders.chain(names.iter().map(PathBuf::from));
    let mut reason = String::new();
    for file in candidates {
        // SAFETY: the user asked for these well-known libraries; loading one runs its start-up
        // code, as it would in any program linked with it.
        match unsafe { Library::new(&file) } {
            Ok(library) => return Ok(Box::leak(Box::new(library))),
            Err(error) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                reason = source.unwrap_or_else(|| error.to_string());
            }
        }
    }
    Err(Error::NotFound { names: names.join(" or "), reason })
}

/// A function of a library.
///
/// # Safety
/// `F` must be the type of a pointer to the function as the library's header declares it.
pub unsafe fn function<F: Copy>(library: &'static Library, symbol: &'static str) -> Result<F> {
    // SAFETY: the caller vouches for the type; the library is never unloaded.
    match unsafe { library.get::<F>(symbol) } {
        Ok(function) => Ok(*function),
        Err(error) => Err(Error::MissingFunction { symbol, reason: error.to_string() }),
    }
}
