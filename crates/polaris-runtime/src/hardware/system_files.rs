//! Reading the small text files in which kernel and distribution describe the machine.
//!
//! Every one of them may be missing, unreadable, binary or huge, so reading is
//! bounded and yields an `Option`: a machine without `/sys` is described by less,
//! it is never an error.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Far above the largest honest file (`/proc/cpuinfo` with hundreds of cores, `pci.ids`).
const MAX_TEXT_BYTES: u64 = 16 << 20;

/// The text of `path`, with broken UTF-8 replaced, or `None` where it cannot be read.
pub(super) fn read_text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_TEXT_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A file that holds one decimal number.
pub(super) fn read_number(path: &Path) -> Option<u64> {
    read_text(path)?.trim().parse().ok()
}

/// One line of `text` fit for a terminal: single spaces, and no control characters,
/// since the text is shown to the user and must not steer the terminal.
pub(super) fn printable(text: &str) -> String {
    let visible: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .filter(|c| *c != char::REPLACEMENT_CHARACTER)
        .collect();
    let line = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    polaris_core::printable(&line).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_binary_and_overlong_contents_are_no_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("number");
        assert_eq!(read_number(&path), None);
        assert_eq!(read_text(dir.path()), None, "a folder is not text");
        for hostile in [&b""[..], b"\xff\xfe\0", b"99999999999999999999999", b"-1", b"max"] {
            std::fs::write(&path, hostile).unwrap();
            assert_eq!(read_number(&path), None, "{hostile:?}");
        }
        std::fs::write(&path, " 42\n").unwrap();
        assert_eq!(read_number(&path), Some(42));
    }

    #[test]
    fn printable_removes_what_steers_a_terminal() {
        assert_eq!(printable("  Intel(R)\t Core\u{1b}[31m\n\u{fffd} "), "Intel(R) Core [31m");
        assert_eq!(printable("\0\u{7}"), "");
        assert_eq!(printable("a\u{202e}b"), "a\\u{202e}b");
    }
}
