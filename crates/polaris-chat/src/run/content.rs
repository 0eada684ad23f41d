//! Which parts of a text come from the conversation.
//!
//! Special tokens are the template's to write: where a user types the text of one, it is text. So every text remembers
//! which of its bytes are content, through whatever the template does with it. Where an operation changes text such that
//! its bytes cannot be followed, all of the result is content if any of its sources is.

use std::ops::Range;

/// Ranges of bytes that are content, in order; those that touch are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content(Vec<Range<usize>>);

impl Content {
    /// All of a text of this length, or nothing of it.
    pub fn all(length: usize, is_content: bool) -> Self {
        let mut content = Self::default();
        if is_content {
            content.add(0..length);
        }
        content
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many ranges it has.
    pub fn ranges(&self) -> usize {
        self.0.len()
    }

    /// Adds a range that begins at the end of the last one, or behind it.
    pub fn add(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => self.0.push(range),
        }
    }

    /// What is content of a part of the text, counted from the beginning of the part.
    pub fn within(&self, part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let first = self.0.partition_point(|range| range.end <= part.start);
        let inside = self.0[first..].iter().take_while(move |range| range.start < part.end);
        let cut = inside.map(move |range| {
            range.start.max(part.start) - part.start..range.end.min(part.end) - part.start
        });
        cut.filter(|range| !range.is_empty())
    }

    pub fn into_ranges(self) -> Vec<Range<usize>> {
        self.0
    }
}

/// The place of a part within a text, if it is one: a slice of it.
pub(super) fn place(text: &str, part: &str) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let range = start..start.checked_add(part.len())?;
    (range.end <= text.len()).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one_and_parts_are_cut_out() {
        let mut content = Content::default();
        for range in [2..4, 4..6, 7..7, 8..10, 9..12] {
            content.add(range);
        }
        assert_eq!(content.clone().into_ranges(), [2..6, 8..12]);
        let within = |part| content.within(part).collect::<Vec<_>>();
        assert_eq!(within(0..20), [2..6, 8..12]);
        assert_eq!(within(3..9), [0..3, 5..6]);
        assert_eq!(within(6..8), []);
        assert_eq!(within(5..5), []);
    }

    #[test]
    fn parts_are_found_by_where_they_are() {
        let text = "abcabc".to_owned();
        assert_eq!(place(&text, &text[3..5]), Some(3..5));
        assert_eq!(place(&text, &text[6..]), Some(6..6));
        assert_eq!(place(&text[..3], &text[3..5]), None);
        assert_eq!(place(&text[3..], &text[..2]), None);
    }
}
