//! Finding special tokens in text: the leftmost, and of those the longest.

use std::ops::Range;

use crate::Result;
use crate::vocabulary::{Kind, Vocabulary};

/// White space that belongs to a special token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Strip {
    /// White space before it is dropped.
    pub left: bool,
    /// White space behind it is dropped.
    pub right: bool,
}

/// The texts that are searched for.
#[derive(Debug)]
pub(crate) struct Specials {
    /// In order, so that those with a common beginning are next to each other.
    entries: Vec<Entry>,
    /// For each byte the entries that begin with it.
    by_first: Box<[(u32, u32); 256]>,
    /// Whether some are found in plain text, too.
    any_plain: bool,
}

#[derive(Debug)]
struct Entry {
    text: Box<[u8]>,
    id: u32,
    strip: Strip,
    /// Found in plain text, too.
    is_plain: bool,
}

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fragment<'t> {
    Text(&'t str),
    Token(u32),
}

impl Specials {
    /// The special tokens of a vocabulary.
    pub(crate) fn new(vocabulary: &Vocabulary, strip: impl Fn(u32) -> Strip) -> Self {
        let mut entries: Vec<Entry> = vocabulary
            .specials()
            // What is no text is in no text; and what is found is cut out of one.
            .filter(|(text, _)| std::str::from_utf8(text).is_ok())
            .map(|(text, id)| Entry {
                text: text.into(),
                id,
                strip: strip(id),
                is_plain: vocabulary.kind(id) == Some(Kind::UserDefined),
            })
            .collect();
        entries.sort_unstable_by(|a, b| a.text.cmp(&b.text));
        let below =
            |first: usize| entries.partition_point(|entry| usize::from(entry.text[0]) < first);
        let range = |first: usize| (below(first) as u32, below(first + 1) as u32);
        let by_first = Box::new(std::array::from_fn(range));
        let any_plain = entries.iter().any(|entry| entry.is_plain);
        Self { entries, by_first, any_plain }
    }

    /// The longest text that the bytes begin with, and that is found in plain text or within the first `free` bytes.
    fn longest(&self, bytes: &[u8], free: usize) -> Option<&Entry> {
        let (first, end) = self.by_first[usize::from(bytes[0])];
        let mut candidates = &self.entries[first as usize..end as usize];
        let mut found = None;
        let mut length = 1;
        while let Some(entry) = candidates.first() {
            if entry.text.len() == length {
                if entry.is_plain || length <= free {
                    found = Some(entry);
                }
                candidates = &candidates[1..];
            }
            let Some(&next) = bytes.get(length) else { break };
            // All candidates are longer than `length` and equal up to it.
            let from = candidates.partition_point(|entry| entry.text[length] < next);
            let to = candidates.partition_point(|entry| entry.text[length] <= next);
            candidates = &candidates[from..to];
            length += 1;
        }
        found
    }

    /// Hands out the parts of a text, in order. `plain`: ranges of it, in order, in which only user-defined tokens are
    /// found; others are not found either where they reach into one.
    pub(crate) fn split<'t>(
        &self,
        text: &'t str,
        plain: &[Range<usize>],
        mut out: impl FnMut(Fragment<'t>) -> Result<()>,
    ) -> Result<()> {
        let bytes = text.as_bytes();
        let mut plain = plain.iter().peekable();
        let all_plain = plain.peek().is_some_and(|range| **range == (0..text.len()));
        let nothing = self.entries.is_empty() || (all_plain && !self.any_plain);
        let (mut start, mut at) = (0, 0);
        while at < bytes.len() && !nothing {
            let (first, end) = self.by_first[usize::from(bytes[at])];
            if first == end {
                at += 1;
                continue;
            }
            while plain.next_if(|range| range.end <= at).is_some() {}
            let free = plain.peek().map_or(usize::MAX, |range| range.start.saturating_sub(at));
            let Some(entry) = self.longest(&bytes[at..], free) else {
                at += 1;
                continue;
            };
            let (length, id, strip) = (entry.text.len(), entry.id, entry.strip);
            let before = &text[start..at];
            let before = if strip.left { before.trim_end_matches(is_ascii_space) } else { before };
            if !before.is_empty() {
                out(Fragment::Text(before))?;
            }
            out(Fragment::Token(id))?;
            at += length;
            if strip.right {
                at = text.len() - text[at..].trim_start_matches(is_ascii_space).len();
            }
            start = at;
        }
        if start < text.len() {
            out(Fragment::Text(&text[start..]))?;
        }
        Ok(())
    }
}

fn is_ascii_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\u{b}' | '\u{c}' | '\r')
}
