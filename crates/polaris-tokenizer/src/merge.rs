//! Merging adjacent symbols, the best pair first, until none of the pairs is a token.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

use crate::error::Shown;
use crate::hash::Seeded;
use crate::{Error, Result};

/// The id of a symbol that is no token.
pub(crate) const NONE: u32 = u32::MAX;

/// A part of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub start: u32,
    pub end: u32,
    pub id: u32,
}

/// What stands for symbols that are no tokens.
#[derive(Debug)]
pub(crate) struct Fallback {
    /// The token of each byte, or [`NONE`].
    pub bytes: Box<[u32; 256]>,
    /// The token for all other text.
    pub unknown: Option<u32>,
}

impl Fallback {
    /// Appends the tokens of bytes that are no token together: one for each byte, or the one for unknown text.
    fn encode(&self, bytes: &[u8], out: &mut Vec<u32>) -> Result<()> {
        let token = |byte: &u8| self.bytes[*byte as usize];
        if bytes.iter().all(|byte| token(byte) != NONE) {
            out.extend(bytes.iter().map(token));
        } else {
            let what = || match std::str::from_utf8(bytes) {
                Ok(text) => format!("`{}`", Shown(text)),
                Err(_) => format!("the byte {:#04x}", bytes[0]),
            };
            out.push(self.unknown.ok_or_else(|| Error::NoToken { what: what() })?);
        }
        Ok(())
    }
}

/// What two adjacent symbols become.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Merge {
    /// The lowest is merged first; of equals the leftmost.
    pub rank: u32,
    pub id: u32,
}

/// A rule for pairs.
pub(crate) trait Pairs {
    /// What two adjacent symbols of a word become, if anything.
    fn merge(&self, word: &[u8], left: Symbol, right: Symbol) -> Option<Merge>;
}

/// The symbols of a word, and memory that is used again for the next.
#[derive(Debug, Default)]
pub(crate) struct Merger {
    pub symbols: Vec<Symbol>,
    merges: Vec<Option<Merge>>,
    links: Vec<Link>,
    /// Where in the output the tokens of words are that were merged before.
    seen: HashMap<Box<[u8]>, Range<usize>, Seeded>,
}

/// The longest word that is remembered, and how many are: names and stems come again, and they are short.
const REMEMBERED: (usize, usize) = (64, 1 << 16);

/// The neighbours of a symbol; a symbol that was merged into its left neighbour is dead.
#[derive(Debug, Clone, Copy)]
struct Link {
    left: u32,
    right: u32,
    dead: bool,
}

/// Up to this length looking at all pairs is faster than a heap; measured with words of English and German.
const SHORT: usize = 48;

impl Merger {
    /// Merges the symbols as far as it goes.
    pub(crate) fn run(&mut self, word: &[u8], pairs: &impl Pairs) {
        match self.symbols.len() {
            0 | 1 => {}
            2..=SHORT => self.short(word, pairs),
            _ => self.long(word, pairs),
        }
    }

    /// Appends the tokens of a word that was finished before with the same output; `false` if there was none.
    pub(crate) fn again(&self, word: &[u8], out: &mut Vec<u32>) -> bool {
        let range = self.seen.get(word);
        out.extend_from_within(range.cloned().unwrap_or_default());
        range.is_some()
    }

    /// Appends the tokens of the symbols.
    pub(crate) fn finish(
        &mut self,
        word: &[u8],
        fallback: &Fallback,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let start = out.len();
        for symbol in &self.symbols {
            match symbol.id {
                NONE => fallback.encode(&word[symbol.start as usize..symbol.end as usize], out)?,
                id => out.push(id),
            }
        }
        if word.len() <= REMEMBERED.0 && self.seen.len() < REMEMBERED.1 {
            self.seen.insert(word.into(), start..out.len());
        }
        Ok(())
    }

    fn short(&mut self, word: &[u8], pairs: &impl Pairs) {
        let (symbols, merges) = (&mut self.symbols, &mut self.merges);
        merges.clear();
        merges.extend(symbols.windows(2).map(|two| pairs.merge(word, two[0], two[1])));
        loop {
            let mut best: Option<(usize, Merge)> = None;
            for (place, merge) in merges.iter().enumerate() {
                if let Some(merge) = merge
                    && best.is_none_or(|(_, best)| merge.rank < best.rank)
                {
                    best = Some((place, *merge));
                }
            }
            let Some((place, merge)) = best else { return };
            symbols[place] = Symbol { end: symbols[place + 1].end, id: merge.id, ..symbols[place] };
            symbols.remove(place + 1);
            merges.remove(place);
            let mut renew = |left: usize| {
                if left + 1 < symbols.len() {
                    merges[left] = pairs.merge(word, symbols[left], symbols[left + 1]);
                }
            };
            renew(place);
            if place > 0 {
                renew(place - 1);
            }
        }
    }

    /// In time that grows with the length times its logarithm.
    fn long(&mut self, word: &[u8], pairs: &impl Pairs) {
        let (symbols, links) = (&mut self.symbols, &mut self.links);
        let count = symbols.len() as u32;
        let neighbours = |at: u32| Link {
            left: at.checked_sub(1).unwrap_or(NONE),
            right: if at + 1 < count { at + 1 } else { NONE },
            dead: false,
        };
        links.clear();
        links.extend((0..count).map(neighbours));
        // The rank, the two symbols, where the right one ends, and what they become.
        let candidate = |symbols: &[Symbol], left: u32, right: u32| {
            if left == NONE || right == NONE {
                return None;
            }
            let (l, r) = (symbols[left as usize], symbols[right as usize]);
            let merge = pairs.merge(word, l, r)?;
            Some(Reverse((merge.rank, left, right, r.end, merge.id)))
        };
        let first: Vec<_> = (1..count).filter_map(|at| candidate(symbols, at - 1, at)).collect();
        let mut queue = BinaryHeap::from(first);
        while let Some(Reverse((_, left, right, end, id))) = queue.pop() {
            // The left symbol grows only by taking the right one; so if both live and the right one is as long as it
            // was, this is still the same pair.
            let (l, r) = (links[left as usize], links[right as usize]);
            if l.dead || r.dead || symbols[right as usize].end != end {
                continue;
            }
            symbols[left as usize].end = end;
            symbols[left as usize].id = id;
            links[right as usize].dead = true;
            links[left as usize].right = r.right;
            if r.right != NONE {
                links[r.right as usize].left = left;
            }
            queue.extend(candidate(symbols, l.left, left));
            queue.extend(candidate(symbols, left, r.right));
        }
        let mut link = links.iter();
        symbols.retain(|_| link.next().is_some_and(|link| !link.dead));
    }
}
