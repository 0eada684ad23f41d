//! Finding special tokens in text: the leftmost, and of those the longest.

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
    texts: Vec<(Box<[u8]>, u32, Strip)>,
    /// For each byte the texts that begin with it.
    by_first: Box<[(u32, u32); 256]>,
}

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fragment<'t> {
    Text(&'t str),
    Token(u32),
}

impl Specials {
    /// The special tokens of a vocabulary of some kinds.
    pub(crate) fn new(
        vocabulary: &Vocabulary,
        is_searched: impl Fn(Kind) -> bool,
        strip: impl Fn(u32) -> Strip,
    ) -> Self {
        let mut texts: Vec<_> = vocabulary
            .specials()
            .filter(|&(_, id)| vocabulary.kind(id).is_some_and(&is_searched))
            // What is no text is in no text; and what is found is cut out of one.
            .filter(|(text, _)| std::str::from_utf8(text).is_ok())
            .map(|(text, id)| (text.into(), id, strip(id)))
            .collect();
        texts.sort_unstable_by(|a: &(Box<[u8]>, _, _), b| a.0.cmp(&b.0));
        let below = |first: usize| texts.partition_point(|text| usize::from(text.0[0]) < first);
        let range = |first: usize| (below(first) as u32, below(first + 1) as u32);
        let by_first = Box::new(std::array::from_fn(range));
        Self { texts, by_first }
    }

    /// The longest text that the bytes begin with: its length, id and white space.
    fn longest(&self, bytes: &[u8]) -> Option<(usize, u32, Strip)> {
        let (first, end) = self.by_first[usize::from(bytes[0])];
        let mut candidates = &self.texts[first as usize..end as usize];
        let mut found = None;
        let mut length = 1;
        while let Some((text, id, strip)) = candidates.first() {
            if text.len() == length {
                found = Some((length, *id, *strip));
                candidates = &candidates[1..];
            }
            let Some(&next) = bytes.get(length) else { break };
            // All candidates are longer than `length` and equal up to it.
            let from = candidates.partition_point(|text| text.0[length] < next);
            let to = candidates.partition_point(|text| text.0[length] <= next);
            candidates = &candidates[from..to];
            length += 1;
        }
        found
    }

    /// Hands out the parts of a text, in order.
    pub(crate) fn split<'t>(
        &self,
        text: &'t str,
        mut out: impl FnMut(Fragment<'t>) -> Result<()>,
    ) -> Result<()> {
        let bytes = text.as_bytes();
        let (mut start, mut at) = (0, 0);
        while at < bytes.len() && !self.texts.is_empty() {
            let (first, end) = self.by_first[usize::from(bytes[at])];
            let found = if first < end { self.longest(&bytes[at..]) } else { None };
            let Some((length, id, strip)) = found else {
                at += 1;
                continue;
            };
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
