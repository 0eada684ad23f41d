//! Tokenisation for encoders of the BERT family: ids of word pieces between special tokens, truncated to a length.

use std::path::Path;

use tokenizers::{PaddingParams, PostProcessor, TruncationParams};

use crate::bpe::{LARGEST, unreadable};
use crate::tokenizer_guard::{guarded, probe, read_json};
use crate::{Error, Result, files};

/// A text in tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sentence {
    /// The tokens.
    pub ids: Vec<u32>,
    /// Which of two texts each token belongs to; for one text usually all zero.
    pub types: Vec<u32>,
}

/// A tokenizer read from a `tokenizer.json` that cuts texts to a length and pads none of them.
#[derive(Debug, Clone)]
pub struct SentenceTokenizer {
    inner: tokenizers::Tokenizer,
    limit: Option<usize>,
    padding: u32,
}

impl SentenceTokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// If it cannot be read or is none.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::from_json(&files::read_all(path, LARGEST)?).map_err(unreadable(path))
    }

    /// Reads the contents of a `tokenizer.json`.
    ///
    /// # Errors
    /// If it is none.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        let mut inner = read_json(json)?;
        let named = || ["[PAD]", "<pad>"].iter().find_map(|name| inner.token_to_id(name));
        let padding = inner.get_padding().map(|padding: &PaddingParams| padding.pad_id);
        let padding = padding.or_else(named).unwrap_or(0);
        let limit = inner.get_truncation().map(|truncation| truncation.max_length);
        // Files hold what was convenient where they were written; batches are padded elsewhere.
        inner.with_padding(None);
        let tokenizer = Self { inner, limit, padding };
        let vocabulary = tokenizer.vocabulary();
        let known = |id: u32| match (id as usize) < vocabulary {
            true => Ok(()),
            false => Err(Error::BadTokenizer {
                reason: format!("it returned token {id}, but its vocabulary has {vocabulary}"),
            }),
        };
        probe(|text| tokenizer.encode(text)?.ids.into_iter().try_for_each(known))?;
        known(padding)?;
        Ok(tokenizer)
    }

    /// The most tokens of a text, with those that begin and end it, if there is a limit.
    pub fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// Cuts texts to so many tokens.
    ///
    /// # Errors
    /// If nothing would be left between the tokens that begin and end a text.
    pub fn set_limit(&mut self, limit: usize) -> Result<()> {
        let added = self.inner.get_post_processor().map_or(0, |after| after.added_tokens(false));
        if limit <= added {
            return Err(Error::BadOption {
                option: "the most tokens of a text",
                value: limit.to_string(),
                reason: format!("{added} tokens begin and end a text; leave room for more"),
            });
        }
        let truncation = TruncationParams { max_length: limit, ..TruncationParams::default() };
        guarded("cut texts", || self.inner.with_truncation(Some(truncation)).map(|_| ()))?;
        self.limit = Some(limit);
        Ok(())
    }

    /// The token that fills up shorter texts.
    pub fn padding(&self) -> u32 {
        self.padding
    }

    /// The number above that of any token.
    pub fn vocabulary(&self) -> usize {
        self.inner.get_vocab(true).into_values().max().map_or(0, |largest| largest as usize + 1)
    }

    /// The tokens of a text.
    ///
    /// # Errors
    /// If the file names a step that fails on it.
    pub fn encode(&self, text: &str) -> Result<Sentence> {
        let encoding = guarded("encode the text", || self.inner.encode_fast(text, true))?;
        Ok(Sentence { ids: encoding.get_ids().to_vec(), types: encoding.get_type_ids().to_vec() })
    }
}
