//! WordPiece, the tokenizer of BERT: words without accents and capitals, and the longest tokens that make them up.

use tokenizers::normalizers::BertNormalizer;
use tokenizers::{NormalizedString, Normalizer};

use crate::categories::{P, Set};
use crate::library::guarded;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// How words are simplified, and what stands for words without tokens.
#[derive(Debug)]
pub(crate) struct WordPiece {
    normalizer: BertNormalizer,
    unknown: u32,
    longest: usize,
}

/// A longer word is unknown, as in BERT's own code.
const LONGEST_WORD: usize = 100;

/// Punctuation and symbols of ASCII, each a word.
static SINGLE: Set = Set::new(P, &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')]);

impl WordPiece {
    /// `strip_accents` is by default what `lowercase` is.
    pub(crate) fn new(
        vocabulary: &Vocabulary,
        lowercase: bool,
        strip_accents: Option<bool>,
        unknown: Option<u32>,
    ) -> Result<Self> {
        let unknown = unknown.ok_or_else(|| {
            Error::vocabulary("it has no token for unknown words, which WordPiece needs")
        })?;
        let normalizer = BertNormalizer::new(true, true, strip_accents, lowercase);
        Ok(Self { normalizer, unknown, longest: vocabulary.longest_word() })
    }

    /// Appends the tokens of a text.
    pub(crate) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let mut text = NormalizedString::from(text);
        guarded("simplify the text", || self.normalizer.normalize(&mut text))?;
        for words in text.get().split_whitespace() {
            let mut start = 0;
            for (at, c) in words.char_indices().filter(|&(_, c)| SINGLE.has(c)) {
                self.word(vocabulary, &words[start..at], out);
                start = at + c.len_utf8();
                self.word(vocabulary, &words[at..start], out);
            }
            self.word(vocabulary, &words[start..], out);
        }
        Ok(())
    }

    fn word(&self, vocabulary: &Vocabulary, word: &str, out: &mut Vec<u32>) {
        if word.is_empty() {
            return;
        }
        let before = out.len();
        // In files the tokens that begin a word begin with a space.
        let spaced = format!(" {word}");
        let mut rest = spaced.as_str();
        let mut known = word.chars().count() <= LONGEST_WORD;
        while known && !rest.is_empty() {
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
            let mut ends: Vec<usize> = ends.take_while(|&end| end <= self.longest).collect();
            ends.reverse();
            let longest = |end| Some((end, vocabulary.word(&rest.as_bytes()[..end])?));
            match ends.into_iter().find_map(longest) {
                Some((end, id)) => {
                    out.push(id);
                    rest = &rest[end..];
                }
                None => known = false,
            }
        }
        if !known {
            out.truncate(before);
            out.push(self.unknown);
        }
    }
}
