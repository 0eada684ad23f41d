//! SentencePiece's byte-pair encoding: the adjacent pair that is the token with the best score is merged first.
//!
//! Files write U+2581 for a space. Here both are a space, in tokens and in text, so that text need not be copied.

use std::borrow::Cow;

use crate::merge::{Fallback, Merge, Merger, NONE, Pairs, Symbol};
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// The sign for a space.
pub(crate) const ESCAPED: &str = "\u{2581}";

/// Scores and bytes of a vocabulary.
#[derive(Debug)]
pub(crate) struct Spm {
    /// The place of each token's score among all, the best first.
    ranks: Vec<u32>,
    fallback: Fallback,
    longest: usize,
    splits_at_spaces: bool,
}

/// The text with spaces for their signs.
pub(crate) fn as_spaces(text: &str) -> Cow<'_, str> {
    if text.contains(ESCAPED) { text.replace(ESCAPED, " ").into() } else { text.into() }
}

/// The bytes that a token of the file stands for, and whether text can turn into it: one with a plain space cannot be
/// told from that with the sign for it.
pub(crate) fn unescape(text: &[u8]) -> (Vec<u8>, bool) {
    let plain = text.contains(&b' ');
    match std::str::from_utf8(text) {
        Ok(text) => (as_spaces(text).as_bytes().to_vec(), !plain),
        Err(_) => (text.to_vec(), !plain),
    }
}

/// The end of the first word of a text: spaces, and what follows up to the next space.
pub(crate) fn word_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let spaces = bytes.iter().take_while(|&&byte| byte == b' ').count();
    let rest = bytes[spaces..].iter().position(|&byte| byte == b' ');
    rest.map_or(bytes.len(), |rest| spaces + rest)
}

/// Appends a symbol for each character.
pub(crate) fn characters(vocabulary: &Vocabulary, word: &[u8], symbols: &mut Vec<Symbol>) {
    let mut start = 0;
    while start < word.len() {
        let length =
            word[start..].iter().skip(1).take_while(|&&byte| byte & 0xc0 == 0x80).count() + 1;
        let id = vocabulary.word(&word[start..start + length]).unwrap_or(NONE);
        symbols.push(Symbol { start: start as u32, end: (start + length) as u32, id });
        start += length;
    }
}

/// The vocabulary and its scores.
struct Scored<'a>(&'a Spm, &'a Vocabulary);

impl Pairs for Scored<'_> {
    fn merge(&self, word: &[u8], left: Symbol, right: Symbol) -> Option<Merge> {
        let text = &word[left.start as usize..right.end as usize];
        let id = Some(text).filter(|text| text.len() <= self.0.longest)?;
        let id = self.1.word(id)?;
        Some(Merge { rank: self.0.ranks[id as usize], id })
    }
}

impl Spm {
    /// `find` gives the id of a token by its text in the file.
    pub(crate) fn new(
        vocabulary: &Vocabulary,
        scores: &[f32],
        find: impl Fn(&[u8]) -> Option<u32>,
        unknown: Option<u32>,
    ) -> Result<Self> {
        if scores.len() != vocabulary.len() {
            let (found, tokens) = (scores.len(), vocabulary.len());
            let why =
                format!("it has {found} scores for {tokens} tokens; expected is one for each");
            return Err(Error::vocabulary(why));
        }
        if let Some(id) = scores.iter().position(|score| score.is_nan()) {
            let why =
                format!("the score of token {id} is not a number; expected is a finite float");
            return Err(Error::vocabulary(why));
        }
        let mut order: Vec<f32> = scores.to_vec();
        order.sort_unstable_by(|a, b| b.total_cmp(a));
        // Zero and minus zero are equal here, as for `<`.
        let rank = |score: &f32| order.partition_point(|other| other > score) as u32;
        let ranks = scores.iter().map(rank).collect();
        let byte = |byte: usize| find(format!("<0x{byte:02X}>").as_bytes()).unwrap_or(NONE);
        Ok(Self {
            ranks,
            fallback: Fallback { bytes: Box::new(std::array::from_fn(byte)), unknown },
            longest: vocabulary.longest_word(),
            splits_at_spaces: vocabulary.splits_at_spaces(),
        })
    }

    /// Appends the tokens of a text, in which spaces are spaces.
    pub(crate) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        merger: &mut Merger,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let mut rest = text;
        while !rest.is_empty() {
            let cut = if self.splits_at_spaces { word_end(rest) } else { rest.len() };
            let (word, others) = rest.split_at(cut);
            self.word(vocabulary, word.as_bytes(), merger, out)?;
            rest = others;
        }
        Ok(())
    }

    fn word(
        &self,
        vocabulary: &Vocabulary,
        word: &[u8],
        merger: &mut Merger,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let merge = |merger: &mut Merger| {
            merger.symbols.clear();
            characters(vocabulary, word, &mut merger.symbols);
            merger.run(word, &Scored(self, vocabulary));
        };
        if let Some(id) = vocabulary.word(word) {
            let merged = || {
                merge(merger);
                merger.symbols.len() == 1
            };
            if vocabulary.is_whole(id, merged) {
                out.push(id);
                return Ok(());
            }
        }
        if merger.again(word, out) {
            return Ok(());
        }
        merge(merger);
        merger.finish(word, &self.fallback, out)
    }
}
