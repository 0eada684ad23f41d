//! Files in the folder of tuning: read if they are regular and not too large, replaced as a whole.

use std::path::Path;

use crate::{Error, Result};

/// More than a file of decisions or a predictor has.
const MAX_BYTES: u64 = 256 << 20;

/// An error of a file in the user's folder.
pub(crate) fn failed(path: &Path, source: std::io::Error) -> Error {
    let cure = "name a place that can be written, as in POLARIS_DATA_DIR";
    Error::File { path: path.display().to_string(), source, cure }
}

/// The text of a file; nothing if it cannot be read.
pub(crate) fn text_of(path: &Path) -> Option<String> {
    polaris_files::read_text(path, MAX_BYTES).ok()
}

/// Puts a text in the place of a file: readers see the old one or the new one.
///
/// # Errors
/// If the folder cannot be written.
pub(crate) fn replace(path: &Path, text: &str) -> Result<()> {
    polaris_files::write_atomic(path, text.as_bytes()).map_err(|source| failed(path, source))
}
