//! Escapes text from files, drivers and other processes for a terminal.
//!
//! An escape sequence in a tensor's name can recolour a terminal, move its cursor or rewrite its title; a
//! bidirectional override makes text read as something else.

use std::borrow::Cow;
use std::fmt::Write;

/// The text on one line, with control characters and bidirectional overrides escaped: `\u{1b}`, `\n`.
/// Nothing is copied where nothing has to be escaped.
pub fn printable(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// As [`printable`], but line breaks and tabs stay: for texts of several lines, such as build logs.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escape(text, |character| matches!(character, '\n' | '\t'))
}

fn escape(text: &str, kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let Some(first) = text.find(|character| is_unsafe(character) && !kept(character)) else {
        return Cow::Borrowed(text);
    };
    let mut escaped = String::with_capacity(text.len() + 16);
    escaped.push_str(&text[..first]);
    for character in text[first..].chars() {
        match character {
            _ if !is_unsafe(character) || kept(character) => escaped.push(character),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            _ => write!(escaped, "\\u{{{:x}}}", u32::from(character))
                .expect("a String takes all text"),
        }
    }
    Cow::Owned(escaped)
}

/// C0, DEL and C1, separators of lines and paragraphs, and what changes the direction of text.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_overrides_are_escaped() {
        assert_eq!(printable("\u{1b}[31mred\u{7}"), "\\u{1b}[31mred\\u{7}");
        assert_eq!(printable("a\u{9b}2J\u{7f}"), "a\\u{9b}2J\\u{7f}");
        assert_eq!(printable("x\u{202e}y\u{2066}z"), "x\\u{202e}y\\u{2066}z");
        assert_eq!(printable("a\r\n\tb\0"), "a\\r\\n\\tb\\u{0}");
        assert_eq!(printable_lines("a\r\n\tb\u{1b}"), "a\\r\n\tb\\u{1b}");
    }

    #[test]
    fn safe_text_is_not_copied() {
        for text in ["", "Großes Gerät (µ, 中文, 🦀)", r"C:\n"] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
        }
        assert!(matches!(printable_lines("a\n\tb"), Cow::Borrowed(_)));
    }
}
