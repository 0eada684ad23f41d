//! Search paths for the compiler and AMD's device libraries.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process;

/// Clang's own folder, which may hold device libraries.
pub fn resource_folder(clang: &Path, limit: Duration) -> io::Result<PathBuf> {
    let mut command = Command::new(clang);
    command.arg("-print-resource-dir");
    let Some(ended) = process::run(command, Vec::new(), limit)? else {
        return Err(io::Error::new(ErrorKind::TimedOut, "-print-resource-dir does not end"));
    };
    if !ended.status.success() {
        return Err(io::Error::other(format!("-print-resource-dir: {}", ended.status)));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&ended.output).trim()))
}

/// Folders that hold the device libraries; only the one in `ROCM_DEVICE_LIBS` when that is set.
pub fn bitcode_folders(resources: &Path) -> Vec<PathBuf> {
    let folders = match std::env::var_os("ROCM_DEVICE_LIBS") {
        Some(folder) => {
            let folder = PathBuf::from(folder);
            vec![folder.join("amdgcn/bitcode"), folder]
        }
        None => vec![
            PathBuf::from(format!("/usr/lib/{}-linux-gnu/amdgcn/bitcode", std::env::consts::ARCH)),
            resources.join("amdgcn/bitcode"),
            resources.join("lib/amdgcn/bitcode"),
            PathBuf::from("/usr/lib/amdgcn/bitcode"),
            PathBuf::from("/usr/lib64/amdgcn/bitcode"),
            PathBuf::from("/usr/share/amdgcn/bitcode"),
            PathBuf::from("/usr/amdgcn/bitcode"),
            PathBuf::from("/opt/rocm/amdgcn/bitcode"),
        ],
    };
    folders.into_iter().filter(|folder| folder.join("opencl.bc").is_file()).collect()
}
