//! The driver files of the OpenCL loader. They are inspected before the loader sees them: it skips a broken one
//! silently, and crashes or hangs on some.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use polaris_core::printable;
use serde::Serialize;

use crate::opencl::shared_object::{self, SharedObject};

/// A driver file of the OpenCL loader.
#[derive(Debug, Clone, Serialize)]
pub struct IcdFinding {
    /// The file that names the driver.
    pub file: PathBuf,
    /// The library it names.
    pub library: String,
    /// Why the library cannot be loaded, if so.
    pub problem: Option<String>,
    /// Whether the loader would crash or hang on it.
    #[serde(skip)]
    pub(super) harmful: bool,
}

/// Driver files hold one line; one of more bytes is something else.
const MAX_BYTES: u64 = 64 << 10;

/// The driver files that the loader would read, with what is wrong with each.
pub(super) fn inspect_icds() -> Vec<IcdFinding> {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let vendors = named("OCL_ICD_VENDORS").or_else(|| named("OPENCL_VENDOR_PATH"));
    let vendors = vendors.map_or_else(|| PathBuf::from("/etc/OpenCL/vendors"), PathBuf::from);
    let is_icd = |file: &Path| file.extension().is_some_and(|extension| extension == "icd");
    let mut found = match std::fs::read_dir(&vendors) {
        Ok(entries) => {
            let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
            let mut files: Vec<PathBuf> = files.filter(|file| is_icd(file)).collect();
            files.sort();
            files.into_iter().map(inspect_icd).collect()
        }
        Err(_) if is_icd(&vendors) => vec![inspect_icd(vendors)],
        // The loader takes it for a library, by its path or bare name.
        Err(_) if vendors.exists() || vendors.components().count() == 1 => {
            vec![inspect_library(vendors)]
        }
        Err(_) => Vec::new(),
    };
    // Libraries that are named without a file.
    if let Some(libraries) = named("OCL_ICD_FILENAMES") {
        found.extend(std::env::split_paths(&libraries).map(inspect_library));
    }
    found
}

fn inspect_library(library: PathBuf) -> IcdFinding {
    let (problem, harmful) = library_problem(&library).unzip();
    let name = printable(&library.to_string_lossy()).into_owned();
    IcdFinding { file: library, library: name, problem, harmful: harmful.unwrap_or(false) }
}

fn inspect_icd(file: PathBuf) -> IcdFinding {
    let found = |library: &str, problem: Option<String>, harmful| {
        let library = printable(library).into_owned();
        IcdFinding { file: file.clone(), library, problem, harmful }
    };
    let bytes = match polaris_files::read(&file, MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(error) => {
            let special = error.kind() == ErrorKind::InvalidInput && !file.is_dir();
            let harmful = special || error.kind() == ErrorKind::FileTooLarge;
            return found("", Some(format!("it cannot be read ({error})")), harmful);
        }
    };
    // ocl-icd 2.3.1 crashes in `clGetPlatformIDs` on a driver file whose first byte is zero.
    let crashes = bytes.first() == Some(&0);
    let text = String::from_utf8_lossy(&bytes);
    let library = text.lines().next().unwrap_or_default().trim();
    if library.is_empty() {
        let problem = "it names no library; reinstall the driver's package".to_owned();
        return found("", Some(problem), crashes);
    }
    match library_problem(Path::new(library)) {
        None => found(library, None, crashes),
        Some((reason, harmful)) => {
            let problem = format!(
                "it names {}, which cannot be loaded ({}); reinstall the driver's package or remove the file",
                printable(library),
                printable(&reason)
            );
            found(library, Some(problem), crashes || harmful)
        }
    }
}

/// Why a library cannot be loaded, and whether trying it would do harm.
fn library_problem(library: &Path) -> Option<(String, bool)> {
    if let SharedObject::Damaged(reason) = shared_object::inspect(library) {
        return Some((reason, true));
    }
    // SAFETY: the loader opens the same library by the same name anyway; this is the same call.
    match unsafe { libloading::Library::new(library) } {
        Ok(library) => {
            // Drivers do not expect to be unloaded and loaded again.
            std::mem::forget(library);
            None
        }
        Err(error) => {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            Some((source.unwrap_or_else(|| error.to_string()), false))
        }
    }
}
