//! Text in a page: escaped, measured and truncated to fit.

use std::fmt::{self, Write};

/// Writes formatted text to a `String`, which cannot fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => {
        std::fmt::Write::write_fmt($out, format_args!($($arg)*))
            .expect("writing to a String should not fail")
    };
}
pub(crate) use put;

/// Text that is written so that HTML reads it as text, inside an element or a quoted attribute.
pub(crate) struct Escaped<'a>(&'a str);

/// Marks text for escaping. Every string a caller hands to this crate passes through here.
pub(crate) fn escape(text: &str) -> Escaped<'_> {
    Escaped(text)
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(c)?,
                // HTML has no way to write control characters; a visible mark says one was there.
                c if c.is_control() => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// About how wide text becomes in a sans-serif font. There is no font here to ask, so this leans
/// to the wide side: too much room looks better than overlapping labels.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(char_width).sum::<f64>() * size
}

fn char_width(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.32,
        'f' | 't' | 'r' | ' ' | '-' | '(' | ')' | '/' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.95,
        'A'..='Z' => 0.7,
        c if c.is_ascii() => 0.6,
        '\u{300}'..='\u{36f}' => 0.0,
        c if c < '\u{1100}' => 0.65,
        '\u{2000}'..='\u{206f}' => 0.5,
        _ => 1.05,
    }
}

/// Text cut with an ellipsis where it would be wider than `room`.
pub(crate) fn fit(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut left = room - size;
    let mut cut = String::new();
    for c in text.chars() {
        left -= char_width(c) * size;
        if left < 0.0 {
            break;
        }
        cut.push(c);
    }
    // A space before the ellipsis looks like a missing word.
    let mut cut = cut.trim_end().to_owned();
    cut.push('…');
    cut
}

/// Text of at most `most` characters. Names are repeated in every hover title, so that one absurd
/// name could otherwise make the page a hundred times larger.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(
            escape("<script>alert(\"a\" & 'b')</script>").to_string(),
            "&lt;script&gt;alert(&quot;a&quot; &amp; &#39;b&#39;)&lt;/script&gt;"
        );
        assert_eq!(escape("a\0b\u{7f}\nc").to_string(), "a\u{fffd}b\u{fffd}\nc");
    }

    #[test]
    fn long_text_is_cut_to_fit() {
        assert_eq!(fit("short", 10.0, 100.0), "short");
        let cut = fit("a name that is far too long for its place", 10.0, 100.0);
        assert!(cut.ends_with('…') && cut.starts_with("a name"), "{cut}");
        assert_eq!(fit("anything", 10.0, 0.0), "…");
        assert_eq!(shorten("äöü", 2), "äö…");
        assert_eq!(shorten("äöü", 3), "äöü");
    }

    proptest! {
        #[test]
        fn nothing_escapes_the_escaping(text in any::<String>()) {
            let escaped = escape(&text).to_string();
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            let back = escaped
                .replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"")
                .replace("&#39;", "'").replace("&amp;", "&");
            let kept: String = text
                .chars()
                .map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c })
                .collect();
            prop_assert_eq!(back, kept);
        }

        #[test]
        fn what_was_cut_fits(text in any::<String>(), room in 20.0..300.0f64) {
            prop_assert!(width(&fit(&text, 12.0, room), 12.0) <= room + 1e-6);
        }
    }
}
