//! The 256 characters that byte-level vocabularies write for bytes, so that their tokens are printable text.
//!
//! Printable characters of Latin-1 stand for themselves; the other bytes are U+0100 and following, in order.

const fn is_itself(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

/// The number of a byte among those that are not themselves.
const LAST: u32 = 0x143;

/// The byte that a character stands for.
pub(crate) fn byte(c: char) -> Option<u8> {
    let code = c as u32;
    match u8::try_from(code) {
        Ok(byte) => is_itself(byte).then_some(byte),
        Err(_) if code <= LAST => others().nth((code - 0x100) as usize),
        Err(_) => None,
    }
}

fn others() -> impl Iterator<Item = u8> {
    (0..=255).filter(|&byte| !is_itself(byte))
}

/// The bytes that a text of such characters stands for; `None` if it has others.
pub(crate) fn bytes(text: &[u8]) -> Option<Vec<u8>> {
    std::str::from_utf8(text).ok()?.chars().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        let every: Vec<u8> = (0..=LAST).filter_map(char::from_u32).filter_map(byte).collect();
        let mut sorted = every.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..=255).collect::<Vec<u8>>());
        // The space and the newline as they are known from GPT-2's files.
        assert_eq!(bytes("\u{120}a\u{10a}".as_bytes()), Some(b" a\n".to_vec()));
        assert_eq!(bytes("\u{4e2d}".as_bytes()), None);
        assert_eq!(bytes(" ".as_bytes()), None);
    }
}
