//! Byte-pair encoding with a list of merges, over bytes or over the characters of UTF-8.

use std::collections::HashMap;

use crate::alphabet;
use crate::error::Shown;
use crate::hash::Seeded;
use crate::merge::{Fallback, Merge, Merger, NONE, Pairs, Symbol};
use crate::pre::Pre;
use crate::split::split;
use crate::vocabulary::{Vocabulary, byte_of};
use crate::{Error, Result};

/// The merges, and how text becomes symbols.
#[derive(Debug)]
pub(crate) struct Bpe {
    pre: Pre,
    /// What becomes of two tokens, by their ids.
    merges: HashMap<u64, Merge, Seeded>,
    fallback: Fallback,
    /// Whether words may be split before spaces: over characters, lines would be long words.
    splits_at_spaces: bool,
}

const fn pair(left: u32, right: u32) -> u64 {
    (left as u64) << 32 | right as u64
}

impl Pairs for Bpe {
    fn merge(&self, _: &[u8], left: Symbol, right: Symbol) -> Option<Merge> {
        self.merges.get(&pair(left.id, right.id)).copied()
    }
}

impl Bpe {
    /// Reads merges such as `h e`. `find` gives the id of a token by its text in the file.
    pub(crate) fn new<'m>(
        pre: Pre,
        vocabulary: &Vocabulary,
        merges: impl ExactSizeIterator<Item = &'m [u8]>,
        find: impl Fn(&[u8]) -> Option<u32>,
        unknown: Option<u32>,
    ) -> Result<Self> {
        let mut table = HashMap::with_capacity_and_hasher(merges.len(), Seeded::default());
        let mut joined = Vec::new();
        for (rank, merge) in (0..).zip(merges) {
            // A token may begin with a space, but none has a space behind its first character.
            let space = merge.iter().skip(1).position(|&byte| byte == b' ').map(|at| at + 1);
            let parts = space.map(|at| (&merge[..at], &merge[at + 1..]));
            let ids = parts.and_then(|(left, right)| {
                joined.clear();
                joined.extend_from_slice(left);
                joined.extend_from_slice(right);
                Some((find(left)?, find(right)?, find(&joined)?))
            });
            let Some((left, right, id)) = ids else {
                let why = format!(
                    "merge {rank} is `{}`; expected are two tokens with a space between, which together are a token",
                    Shown(&String::from_utf8_lossy(merge))
                );
                return Err(Error::vocabulary(why));
            };
            // Text never becomes a control token by merging, and user-defined ones are found before.
            let is_special = |id| vocabulary.kind(id).is_some_and(|kind| kind.is_special());
            if !is_special(id) {
                table.entry(pair(left, right)).or_insert(Merge { rank, id });
            }
        }
        let token = |byte: usize| match pre.byte_level {
            true => vocabulary.word(&[byte as u8]),
            false => find(format!("<0x{byte:02X}>").as_bytes()),
        };
        let bytes = Box::new(std::array::from_fn(|byte| token(byte).unwrap_or(NONE)));
        let splits_at_spaces = !pre.byte_level && vocabulary.splits_at_spaces();
        Ok(Self { pre, merges: table, fallback: Fallback { bytes, unknown }, splits_at_spaces })
    }

    /// The bytes that a token of the file stands for, and whether text can turn into it.
    pub(crate) fn piece(pre: &Pre, text: &[u8]) -> (Vec<u8>, bool) {
        if pre.byte_level {
            alphabet::bytes(text).map_or_else(|| (text.to_vec(), false), |bytes| (bytes, true))
        } else if pre.escape_spaces {
            crate::spm::unescape(text)
        } else {
            (text.to_vec(), true)
        }
    }

    /// Appends the tokens of a text.
    pub(crate) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        merger: &mut Merger,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let mut failed = Ok(());
        let text = if self.pre.escape_spaces { crate::spm::as_spaces(text) } else { text.into() };
        split(self.pre.stages, &text, &mut |word| {
            let mut rest = word;
            while failed.is_ok() && !rest.is_empty() {
                let cut = self.splits_at_spaces.then(|| crate::spm::word_end(rest));
                let (first, others) = rest.split_at(cut.unwrap_or(rest.len()));
                failed = self.word(vocabulary, first.as_bytes(), merger, out);
                rest = others;
            }
        });
        failed
    }

    fn word(
        &self,
        vocabulary: &Vocabulary,
        word: &[u8],
        merger: &mut Merger,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let token = vocabulary.word(word);
        if let Some(id) = token {
            let as_it_is = self.pre.ignore_merges
                || self.pre.whole_lines && word.iter().all(|&byte| byte == b'\n');
            let merged = || {
                self.merge(vocabulary, word, merger);
                merger.symbols.len() == 1 && merger.symbols[0].id == id
            };
            if as_it_is || vocabulary.is_whole(id, merged) {
                out.push(id);
                return Ok(());
            }
        }
        if merger.again(word, out) {
            return Ok(());
        }
        self.merge(vocabulary, word, merger);
        merger.finish(word, &self.fallback, out)
    }

    fn merge(&self, vocabulary: &Vocabulary, word: &[u8], merger: &mut Merger) {
        merger.symbols.clear();
        let count = |end: usize| end as u32;
        if self.pre.byte_level {
            let symbol = |(at, &byte): (usize, &u8)| Symbol {
                start: count(at),
                end: count(at + 1),
                id: self.fallback.bytes[byte as usize],
            };
            merger.symbols.extend(word.iter().enumerate().map(symbol));
        } else {
            crate::spm::characters(vocabulary, word, &mut merger.symbols);
        }
        merger.run(word, self);
    }
}

/// Whether a token of the kind "byte" is one.
pub(crate) fn check_byte(id: usize, text: &[u8]) -> Result<Vec<u8>> {
    byte_of(text).map(|byte| vec![byte]).ok_or_else(|| {
        let text = String::from_utf8_lossy(text);
        Error::vocabulary(format!(
            "token {id} stands for a byte and is `{}`; expected is <0x00> to <0xFF>",
            Shown(&text)
        ))
    })
}
