//! Splitting numbers into groups of three digits, counted from the right.

use crate::categories::{M, N, ND, Set};

static NUMBER: Set = Set::new(N, &[]);
static DIGIT: Set = Set::new(ND, &[]);

/// Whether a character is one of `\w`.
fn is_word(c: char) -> bool {
    // Connecting punctuation, and the two joiners.
    static FURTHER: Set = Set::new(
        M | ND,
        &[
            ('_', '_'),
            ('\u{200c}', '\u{200d}'),
            ('\u{203f}', '\u{2040}'),
            ('\u{2054}', '\u{2054}'),
            ('\u{fe33}', '\u{fe34}'),
            ('\u{fe4d}', '\u{fe4f}'),
            ('\u{ff3f}', '\u{ff3f}'),
        ],
    );
    c.is_alphabetic() || FURTHER.has(c)
}

/// The runs of a set: from, to, how many characters.
fn runs(text: &str, set: &'static Set) -> impl Iterator<Item = (usize, usize, usize)> {
    let mut characters = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (from, first) = characters.find(|&(_, c)| set.has(c))?;
        let (mut to, mut count) = (from + first.len_utf8(), 1);
        while let Some((place, c)) = characters.next_if(|&(_, c)| set.has(c)) {
            to = place + c.len_utf8();
            count += 1;
        }
        Some((from, to, count))
    })
}

/// [`crate::split::Stage::Thousands`].
pub(crate) fn thousands<'t>(word_end: bool, text: &'t str, out: &mut dyn FnMut(&'t str)) {
    let mut done = 0;
    for (from, to, count) in runs(text, if word_end { &DIGIT } else { &NUMBER }) {
        if word_end && text[to..].chars().next().is_some_and(is_word) {
            continue;
        }
        if done < from {
            out(&text[done..from]);
        }
        done = from;
        for (number, (place, _)) in text[from..to].char_indices().enumerate() {
            if number > 0 && (count - number) % 3 == 0 {
                out(&text[done..from + place]);
                done = from + place;
            }
        }
        out(&text[done..to]);
        done = to;
    }
    if done < text.len() {
        out(&text[done..]);
    }
}

/// [`crate::split::Stage::BeforeThousands`].
pub(crate) fn before_thousands<'t>(text: &'t str, out: &mut dyn FnMut(&'t str)) {
    let mut done = 0;
    for (from, to, count) in runs(text, &DIGIT) {
        for (number, (place, _)) in text[from..to].char_indices().enumerate() {
            if (count - number) % 3 == 0 && done < from + place {
                out(&text[done..from + place]);
                done = from + place;
            }
        }
    }
    if done < text.len() {
        out(&text[done..]);
    }
}
