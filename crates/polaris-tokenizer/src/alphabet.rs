//! The 256 characters that byte-level vocabularies write for bytes, so that their tokens are printable text.
//!
//! Printable characters of Latin-1 stand for themselves; the other bytes are U+0100 and following, in order.

const fn is_itself(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

/// The bytes that are not themselves: those of U+0100 and following.
const OTHERS: [u8; 68] = {
    let mut others = [0; 68];
    let (mut byte, mut count) = (0, 0);
    while count < others.len() {
        if !is_itself(byte) {
            others[count] = byte;
            count += 1;
        }
        byte += 1;
    }
    others
};

/// The character that stands for a byte.
pub(crate) fn character(byte: u8) -> char {
    match OTHERS.iter().position(|&other| other == byte) {
        Some(place) => char::from_u32(0x100 + place as u32).unwrap_or(char::REPLACEMENT_CHARACTER),
        None => char::from(byte),
    }
}

/// The byte that a character stands for.
pub(crate) fn byte(c: char) -> Option<u8> {
    match u8::try_from(c) {
        Ok(byte) => is_itself(byte).then_some(byte),
        Err(_) => OTHERS.get(c as usize - 0x100).copied(),
    }
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
        let every: Vec<u8> = (0..0x1000).filter_map(char::from_u32).filter_map(byte).collect();
        let mut sorted = every.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..=255).collect::<Vec<u8>>());
        assert!((0..=255).all(|found| byte(character(found)) == Some(found)));
        // The space and the newline as they are known from GPT-2's files.
        assert_eq!(bytes("\u{120}a\u{10a}".as_bytes()), Some(b" a\n".to_vec()));
        assert_eq!(bytes("\u{4e2d}".as_bytes()), None);
        assert_eq!(bytes(" ".as_bytes()), None);
    }
}
