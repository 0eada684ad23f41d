//! Files that are replaced as a whole.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::{Error, Result};

/// An error of a file in the user's folder.
pub(crate) fn failed(path: &Path, source: std::io::Error) -> Error {
    let cure = "name a place that can be written, as in POLARIS_DATA_DIR";
    Error::File { path: path.display().to_string(), source, cure }
}

/// Puts a text in the place of a file: readers see the old one or the new one.
///
/// # Errors
/// If the folder cannot be written.
pub(crate) fn replace(path: &Path, text: &str) -> Result<()> {
    // A name of its own: two processes may write at the same time, and either is right.
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    let write = || {
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(|source| {
        let _ = fs::remove_file(&beside);
        failed(path, source)
    })
}
