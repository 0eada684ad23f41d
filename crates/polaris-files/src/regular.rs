//! Reading of regular files, with a limit on what is read into memory.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Opens a regular file for reading.
///
/// # Errors
/// If it cannot be opened, or is anything but a regular file (`ErrorKind::InvalidInput`).
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    // Asked before opening, because opening a device can have effects of its own.
    require_regular(&std::fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    // Asked again after opening, because the name may mean another file by now; without O_NONBLOCK a FIFO
    // would block here until somebody writes.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    require_regular(&metadata)?;
    Ok((file, metadata))
}

/// Opens a regular file for reading and for writing at its end; it is created if it is missing.
///
/// # Errors
/// As [`open`].
pub fn open_append(path: &Path) -> io::Result<File> {
    if let Ok(there) = std::fs::metadata(path) {
        require_regular(&there)?;
    }
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.open(path)?;
    require_regular(&file.metadata()?)?;
    Ok(file)
}

/// The bytes of a regular file of at most `limit` bytes.
///
/// # Errors
/// As [`open`]; if the file is larger than `limit` (`ErrorKind::FileTooLarge`), or does not fit into memory
/// (`ErrorKind::OutOfMemory`).
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_all(&mut open(path)?.0, limit)
}

/// The rest of an open file of at most `limit` bytes.
///
/// # Errors
/// As [`read`].
pub fn read_all(file: &mut File, limit: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let too_large = |bytes: u64| {
        let why = format!("it has {bytes} bytes or more; at most {limit} are accepted");
        Err(io::Error::new(ErrorKind::FileTooLarge, why))
    };
    if length > limit {
        return too_large(length);
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length as usize).map_err(|_| ErrorKind::OutOfMemory)?;
    // Files of /proc claim to be empty, and any file may grow meanwhile: the limit holds all the same.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return too_large(bytes.len() as u64);
    }
    Ok(bytes)
}

/// The text of a regular file of at most `limit` bytes.
///
/// # Errors
/// As [`read`]; if it is not UTF-8 (`ErrorKind::InvalidData`).
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// The kind of a file: "a regular file", "a FIFO".
pub fn kind_of(kind: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return "a FIFO";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
        if kind.is_socket() {
            return "a socket";
        }
    }
    match kind {
        _ if kind.is_file() => "a regular file",
        _ if kind.is_dir() => "a folder",
        _ => "a special file",
    }
}

pub(crate) fn require_regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let why = format!("it is {}; name a regular file", kind_of(metadata.file_type()));
    Err(io::Error::new(ErrorKind::InvalidInput, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert_eq!(read(&path, 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(read_text(&path, 5).unwrap(), "12345");
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text(&path, 5).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(read(folder.path(), 5).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(read(&path.with_extension("no"), 5).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[cfg(unix)]
    #[test]
    fn special_files_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let error = open(&fifo).unwrap_err();
        assert_eq!(error.to_string(), "it is a FIFO; name a regular file");
        let error = read(Path::new("/dev/zero"), 10).unwrap_err();
        assert_eq!(error.to_string(), "it is a device; name a regular file");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        assert_eq!(open(&link).unwrap_err().kind(), ErrorKind::InvalidInput);
        for special in [&fifo, &link] {
            assert_eq!(open_append(special).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn files_that_claim_to_be_empty_are_read_up_to_the_limit() {
        let status = Path::new("/proc/self/status");
        assert!(read_text(status, 1 << 20).unwrap().contains("VmPeak"));
        assert_eq!(read(status, 10).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }
}
