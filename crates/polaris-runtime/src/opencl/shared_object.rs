//! Checks that a shared library is complete. The system's loader maps a library as its headers say; if the file is
//! truncated, as after an interrupted download or update, the process ends with SIGBUS when it touches the missing
//! part.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// What the loader would find under a library's name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SharedObject {
    /// A whole library for this processor.
    Whole,
    /// None, something else, or a library for another processor: the loader says so itself.
    Unknown,
    /// A file that would end or block the process, with the reason.
    Damaged(String),
}

/// Looks at a library by its path, or by a bare name where the loader looks for it.
pub(super) fn inspect(library: &Path) -> SharedObject {
    if !cfg!(all(target_os = "linux", target_pointer_width = "64")) {
        return SharedObject::Unknown;
    }
    let is_path = library.components().count() > 1 || library.has_root();
    let candidates = if is_path { vec![library.to_owned()] } else { candidates(library) };
    // The loader passes over files for other processors.
    let mut found = candidates.iter().map(|candidate| inspect_file(candidate));
    found.find(|found| *found != SharedObject::Unknown).unwrap_or(SharedObject::Unknown)
}

fn inspect_file(path: &Path) -> SharedObject {
    let damaged = |why: String| SharedObject::Damaged(format!("{}: {why}", path.display()));
    let (mut file, metadata) = match polaris_files::open(path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::InvalidInput && !path.is_dir() => {
            return damaged(error.to_string());
        }
        Err(_) => return SharedObject::Unknown,
    };
    let Ok(Some(end)) = end_of_contents(&mut file) else {
        return SharedObject::Unknown;
    };
    if end > metadata.len() {
        let has = metadata.len();
        return damaged(format!("it is truncated: it has {has} bytes and needs {end}"));
    }
    SharedObject::Whole
}

/// The machine's number in ELF files; 0 where it is not checked.
const MACHINE: u16 = match std::env::consts::ARCH.as_bytes() {
    b"x86_64" => 62,
    b"aarch64" => 183,
    b"riscv64" => 243,
    _ => 0,
};

/// How many bytes a library's headers say its file has; `None` if it is none for this processor.
fn end_of_contents(file: &mut File) -> io::Result<Option<u64>> {
    const HEADER: u64 = 64;
    const SEGMENT: usize = 56;
    const PT_LOAD: u32 = 1;
    let mut header = [0; HEADER as usize];
    file.read_exact(&mut header)?;
    let u16_at = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let u64_at = |bytes: &[u8], at: usize| {
        u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes should be eight bytes"))
    };
    let byte_order = if cfg!(target_endian = "little") { 1 } else { 2 };
    // Magic, 64 bits, the byte order.
    let ours = header.starts_with(&[0x7f, b'E', b'L', b'F', 2, byte_order])
        && (MACHINE == 0 || u16_at(18) == MACHINE);
    if !ours || usize::from(u16_at(54)) != SEGMENT {
        return Ok(None);
    }
    let (segments_at, sections_at) = (u64_at(&header, 32), u64_at(&header, 40));
    let mut segments = vec![0; usize::from(u16_at(56)) * SEGMENT];
    let sections_end = sections_at.saturating_add(u64::from(u16_at(58)) * u64::from(u16_at(60)));
    let segments_end = segments_at.saturating_add(segments.len() as u64);
    let mut end = HEADER.max(sections_end).max(segments_end);
    file.seek(SeekFrom::Start(segments_at))?;
    if file.read_exact(&mut segments).is_err() {
        return Ok(Some(end));
    }
    for segment in segments.chunks_exact(SEGMENT) {
        if u32::from_ne_bytes(segment[..4].try_into().expect("four bytes should be four bytes"))
            == PT_LOAD
        {
            end = end.max(u64_at(segment, 8).saturating_add(u64_at(segment, 32)));
        }
    }
    Ok(Some(end))
}

/// Where the loader looks for a bare name, in its order: the user's folders, its cache, its own folders.
fn candidates(name: &Path) -> Vec<PathBuf> {
    let user = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let user: Vec<PathBuf> = std::env::split_paths(&user).map(|folder| folder.join(name)).collect();
    // The cache of a machine with thousands of libraries has some hundred KiB.
    let cache = polaris_files::read(Path::new("/etc/ld.so.cache"), 64 << 20).unwrap_or_default();
    let arch = std::env::consts::ARCH;
    let own = [
        format!("/lib/{arch}-linux-gnu"),
        format!("/usr/lib/{arch}-linux-gnu"),
        "/lib64".into(),
        "/usr/lib64".into(),
        "/lib".into(),
        "/usr/local/lib".into(),
        "/usr/lib".into(),
    ];
    let own = own.map(|folder| Path::new(&folder).join(name));
    user.into_iter().chain(cached(&cache, name).unwrap_or_default()).chain(own).collect()
}

/// The paths under a name in glibc's cache of libraries; `None` if it is in another form.
fn cached(cache: &[u8], name: &Path) -> Option<Vec<PathBuf>> {
    const HEADER: usize = 48;
    const ENTRY: usize = 24;
    let entries = cache.strip_prefix(b"glibc-ld.so.cache1.1")?;
    let number = |bytes: &[u8]| Some(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize);
    let count = number(entries)?;
    let text_at = |at: usize| CStr::from_bytes_until_nul(cache.get(at..)?).ok()?.to_str().ok();
    let entries = cache.get(HEADER..HEADER.checked_add(count.checked_mul(ENTRY)?)?)?;
    let path_of = |entry: &[u8]| {
        let (key, path) = (number(&entry[4..])?, number(&entry[8..])?);
        (Path::new(text_at(key)?) == name).then(|| text_at(path).map(PathBuf::from))?
    };
    Some(entries.chunks_exact(ENTRY).filter_map(path_of).collect())
}

#[cfg(all(test, target_os = "linux", target_pointer_width = "64"))]
mod tests {
    use super::*;

    /// A library that is there wherever these tests run: their own program is built like one.
    fn program() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    fn inspect_bytes(bytes: &[u8]) -> SharedObject {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("library.so");
        std::fs::write(&path, bytes).unwrap();
        inspect(&path)
    }

    #[test]
    fn a_library_that_is_cut_off_is_damaged() {
        let whole = program();
        assert_eq!(inspect_bytes(&whole), SharedObject::Whole);
        for length in [64, 4096, whole.len() / 2, whole.len() - 1] {
            let found = inspect_bytes(&whole[..length]);
            let SharedObject::Damaged(why) = found else { panic!("{length}: {found:?}") };
            assert!(why.contains(&format!("it has {length} bytes")), "{why}");
        }
    }

    #[test]
    fn what_the_loader_refuses_itself_is_left_to_it() {
        let mut foreign = program();
        foreign[18] ^= 0x55;
        for bytes in [&b""[..], b"\x7fELF", b"not a library", &foreign, &[0; 100]] {
            assert_eq!(inspect_bytes(bytes), SharedObject::Unknown);
        }
        for missing in ["/no/such/library.so", "libno-such-library-of-polaris.so.1"] {
            assert_eq!(inspect(Path::new(missing)), SharedObject::Unknown);
        }
    }

    #[test]
    fn special_files_are_damaged_libraries() {
        let SharedObject::Damaged(why) = inspect(Path::new("/dev/zero")) else { panic!() };
        assert!(why.contains("it is a device"), "{why}");
    }

    #[test]
    fn hostile_headers_do_no_harm() {
        let whole = program();
        for at in [32, 40, 54, 56, 58, 60, 64 + 8, 64 + 32] {
            let mut bytes = whole.clone();
            bytes[at..at + 2].fill(0xff);
            inspect_bytes(&bytes);
            bytes[at..at + 8].fill(0xff);
            inspect_bytes(&bytes);
        }
        assert_eq!(cached(b"glibc-ld.so.cache1.1\xff\xff\xff\xff", Path::new("x")), None);
        assert_eq!(cached(b"something else", Path::new("x")), None);
    }

    #[test]
    fn a_bare_name_is_found_in_the_cache_of_the_loader() {
        let mut cache = b"glibc-ld.so.cache1.1\x02\0\0\0".to_vec();
        cache.resize(48, 0);
        let text = b"liba.so\0/x/liba.so\0libb.so\0/x/libb.so\0";
        for [key, path] in [[0u32, 8], [19, 27]] {
            let start = 48 + 2 * 24;
            let entry = [1u32, key + start, path + start, 0, 0, 0];
            cache.extend(entry.iter().flat_map(|number| number.to_ne_bytes()));
        }
        cache.extend(text);
        let found = |name: &str| cached(&cache, Path::new(name)).unwrap();
        assert_eq!(found("libb.so"), [Path::new("/x/libb.so")]);
        assert!(found("libc.so").is_empty());
    }
}
