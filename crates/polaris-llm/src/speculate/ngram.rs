//! Proposals from the text itself: what followed its last tokens where they occurred before.

use std::collections::HashMap;

/// The longest n-gram that is looked up. Four tokens in a row seldom repeat by chance, and longer matches are found by
/// extending theirs.
const LONGEST: usize = 4;
/// The shortest one. A single token occurs again in most texts and says little about the next.
const SHORTEST: usize = 2;
/// Matches are extended to this length, beyond which they are equally good.
const EXTENDED: usize = 8;
/// Fills up the keys of shorter n-grams; no vocabulary has this token.
const NOTHING: u32 = u32::MAX;

/// The chance of the first proposed token, before anything is known, for matches of 2, 3, 4 to 7, and 8 tokens.
pub(super) const CHANCES: [f64; 4] = [0.2, 0.35, 0.5, 0.8];

/// Where n-grams of a text occurred last. The hash is keyed at random (that of the standard library), so that no prompt
/// can make it slow.
#[derive(Debug, Default)]
pub(super) struct Ngrams {
    /// N-grams, and the place of the token that followed them.
    followers: HashMap<[u32; LONGEST], u32>,
}

/// A place of a text whose tokens before it are the last ones of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Match {
    /// Where the token that followed is.
    place: usize,
    /// How many tokens before it are equal.
    length: usize,
}

fn key(tokens: &[u32]) -> [u32; LONGEST] {
    let mut key = [NOTHING; LONGEST];
    key[..tokens.len()].copy_from_slice(tokens);
    key
}

impl Ngrams {
    /// Takes up the last token of a text, which follows the n-grams before it.
    pub fn push(&mut self, text: &[u32]) {
        let place = text.len() - 1;
        for length in SHORTEST..=LONGEST.min(place) {
            self.followers.insert(key(&text[place - length..place]), place as u32);
        }
    }

    /// Where the longest n-gram at the end of a text occurred last.
    pub fn find(&self, text: &[u32]) -> Option<Match> {
        let end = text.len();
        let longest = LONGEST.min(end);
        let found = (SHORTEST..=longest).rev().find_map(|length| {
            let place = *self.followers.get(&key(&text[end - length..]))? as usize;
            Some((place, length))
        });
        let (place, mut length) = found?;
        while length < EXTENDED.min(place) && text[place - length - 1] == text[end - length - 1] {
            length += 1;
        }
        Some(Match { place, length })
    }
}

impl Match {
    /// The index of its chance.
    pub fn kind(self) -> usize {
        match self.length {
            ..=2 => 0,
            3 => 1,
            4..EXTENDED => 2,
            EXTENDED.. => 3,
        }
    }

    /// Appends the tokens that followed. Behind the end of the text the proposals themselves go on, so that a text that
    /// repeats a short period gets proposals of any length.
    pub fn propose(self, text: &[u32], count: usize, to: &mut Vec<u32>) {
        for place in self.place..self.place + count {
            let token = text.get(place).copied().unwrap_or_else(|| to[place - text.len()]);
            to.push(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal(text: &[u32], count: usize) -> Option<(usize, Vec<u32>)> {
        let mut ngrams = Ngrams::default();
        (1..=text.len()).for_each(|end| ngrams.push(&text[..end]));
        let found = ngrams.find(text)?;
        let mut tokens = Vec::new();
        found.propose(text, count, &mut tokens);
        Some((found.length, tokens))
    }

    #[test]
    fn the_longest_and_then_the_last_match_counts() {
        assert_eq!(proposal(&[], 2), None);
        assert_eq!(proposal(&[5], 2), None);
        assert_eq!(proposal(&[5, 5], 2), None);
        // A single token is no match.
        assert_eq!(proposal(&[1, 2, 3, 2], 2), None);
        assert_eq!(proposal(&[1, 2, 3, 4, 1, 2], 2), Some((2, vec![3, 4])));
        // Of two matches of the same length, the last.
        assert_eq!(proposal(&[1, 2, 3, 1, 2, 4, 9, 1, 2], 2), Some((2, vec![4, 9])));
        // A longer match goes before a later one.
        assert_eq!(proposal(&[7, 1, 2, 3, 8, 1, 2, 4, 7, 1, 2], 1), Some((3, vec![3])));
        assert_eq!(proposal(&[1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5], 1), Some((5, vec![6])));
    }

    #[test]
    fn periods_go_on_for_ever() {
        assert_eq!(proposal(&[5, 5, 5], 4), Some((2, vec![5; 4])));
        let text: Vec<u32> = (0..30).map(|place| place % 3).collect();
        assert_eq!(proposal(&text, 7), Some((EXTENDED, vec![0, 1, 2, 0, 1, 2, 0])));
    }

    /// The index finds what a search of the whole text finds.
    #[test]
    fn the_index_is_a_search() {
        let mut random = polaris_core::random::SplitMix64::new(1);
        let mut ngrams = Ngrams::default();
        let mut text: Vec<u32> = Vec::new();
        for _ in 0..2000 {
            text.push((random.unit() * 6.0) as u32);
            ngrams.push(&text);
            let end = text.len();
            let searched = (SHORTEST..=LONGEST.min(end)).rev().find_map(|length| {
                let last = &text[end - length..];
                (length..end).rev().find(|&place| &text[place - length..place] == last)
            });
            assert_eq!(ngrams.find(&text).map(|found| found.place), searched);
        }
    }
}
