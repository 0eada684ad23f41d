//! Byte-pair encoding, from and to Hugging Face's `tokenizer.json`.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::bpe_train::learn;
use crate::tokenizer_guard::{guarded, probe, read_json};
use crate::{Error, Result, Tokenizer, files, write_atomic};

/// A tokenizer read from a `tokenizer.json` or trained here. The file may hold other models than
/// byte-pair encoding; whatever the `tokenizers` crate reads is used as it is.
#[derive(Debug, Clone)]
pub struct Bpe {
    inner: tokenizers::Tokenizer,
    vocabulary: usize,
}

impl Bpe {
    /// Reads a `tokenizer.json`.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::from_json(&files::read_all(path, LARGEST)?).map_err(unreadable(path))
    }

    /// Reads the contents of a `tokenizer.json`, such as one that is part of a model's file.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        let mut inner = read_json(json)?;
        // Files hold what was convenient where they were written; a text to learn from is neither cut nor filled up.
        inner.with_padding(None);
        guarded("read it", || inner.with_truncation(None).map(drop))?;
        let tokenizer = Self::new(inner)?;
        probe(|text| tokenizer.encode(text).map(drop))?;
        Ok(tokenizer)
    }

    fn new(inner: tokenizers::Tokenizer) -> Result<Self> {
        // Numbers may have gaps, so the table that a network looks tokens up in must have room
        // for the largest, however many there are.
        let largest = inner.get_vocab(true).into_values().max();
        let largest = largest.ok_or_else(|| failed("read it")("it has no tokens".into()))?;
        Ok(Bpe { inner, vocabulary: largest as usize + 1 })
    }

    /// Learns a byte-level encoding of at most `tokens` tokens from a text: the 256 bytes, the most frequent pairs in
    /// the words of GPT-2's pre-tokenizer, and at the end the special texts, each of which is one token wherever it
    /// occurs. A short text may not have enough pairs; then there are fewer.
    pub fn train(text: &str, tokens: usize, special: &[&str]) -> Result<Self> {
        let least = 256 + special.len();
        if tokens < least || u32::try_from(tokens).is_err() {
            return Err(Error::BadOption {
                option: "tokens",
                value: tokens.to_string(),
                reason: format!(
                    "every byte and every special text is a token, so it must be at least {least}, and fit 32 bits"
                ),
            });
        }
        let learned = learn(text, special, tokens - special.len())?;
        let ids = 0..learned.tokens.len() as u32;
        let vocabulary: Map<String, Value> = ids.map(|id| (learned.text(id), id.into())).collect();
        let merge = |&(left, right): &(u32, u32)| json!([learned.text(left), learned.text(right)]);
        let merges: Vec<Value> = learned.merges.iter().map(merge).collect();
        let added = |(at, text): (usize, &&str)| {
            json!({
                "id": learned.tokens.len() + at, "content": text, "special": true, "normalized": false,
                "single_word": false, "lstrip": false, "rstrip": false,
            })
        };
        // No space is put in front, so that decoding gives back exactly what was encoded.
        let bytes = json!({
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true,
        });
        let file = json!({
            "version": "1.0",
            "added_tokens": special.iter().enumerate().map(added).collect::<Vec<_>>(),
            "pre_tokenizer": bytes, "decoder": bytes,
            "model": { "type": "BPE", "vocab": vocabulary, "merges": merges },
        });
        Self::from_json(file.to_string().as_bytes())
    }

    /// The contents of its `tokenizer.json`.
    pub fn to_json(&self) -> Result<String> {
        self.inner.to_string(true).map_err(failed("write it"))
    }

    /// Writes its `tokenizer.json`. The file appears whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        write_atomic(path, self.to_json()?.as_bytes()).map_err(files::io(path, "write"))
    }
}

/// Learns a byte-level encoding of at most `tokens` tokens from a text and writes it to a
/// `tokenizer.json`.
pub fn train_bpe(text: &str, tokens: usize, path: impl AsRef<Path>) -> Result<Bpe> {
    let bpe = Bpe::train(text, tokens, &[])?;
    bpe.save(path)?;
    Ok(bpe)
}

/// The largest `tokenizer.json` that is read; those with a quarter of a million tokens have some 20 MB.
pub(crate) const LARGEST: u64 = 256 << 20;

/// The text of a `tokenizer.json`, which [`Bpe::from_json`] reads.
///
/// # Errors
/// If it cannot be read, is not a text, or describes no tokenizer.
pub fn read_tokenizer(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    let bytes = files::read_all(path, LARGEST)?;
    Bpe::from_json(&bytes).map_err(unreadable(path))?;
    String::from_utf8(bytes)
        .map_err(|_| unreadable(path)(failed("read it")("it is not UTF-8".into())))
}

/// Adds the file to an error.
pub(crate) fn unreadable(path: &Path) -> impl FnOnce(Error) -> Error {
    move |error| Error::Format {
        path: path.into(),
        format: "tokenizer.json",
        reason: error.to_string(),
    }
}

pub(crate) fn failed(action: &'static str) -> impl FnOnce(tokenizers::Error) -> Error {
    move |error| Error::Tokenizer { action, reason: error.to_string() }
}

impl Tokenizer for Bpe {
    fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = guarded("encode the text", || self.inner.encode_fast(text, false))?;
        Ok(encoding.get_ids().to_vec())
    }

    fn decode(&self, tokens: &[u32]) -> String {
        // It fails only where a decoder named in the file does, and then there is no text.
        guarded("decode", || self.inner.decode(tokens, false)).unwrap_or_default()
    }
}
