//! Tokenizers of language models: text to token ids and back.
//!
//! [`Tokenizer::from_gguf`] reads the tokenizer of a GGUF file: byte-pair encoding with the pre-tokenizers of many
//! models, SentencePiece and WordPiece. [`Tokenizer::open_folder`] reads the `tokenizer.json` of Hugging Face with the
//! `tokenizers` crate. Files may be hostile: what is wrong with them is an error.
//!
//! ```
//! use polaris_gguf::{Gguf, Writer};
//! use polaris_tokenizer::{Special, Tokenizer};
//!
//! let mut writer = Writer::new();
//! writer.set("tokenizer.ggml.model", "gpt2")?;
//! writer.set("tokenizer.ggml.pre", "gpt-2")?;
//! writer.set("tokenizer.ggml.tokens", &["a", "b", "ab", "<|im_end|>"][..])?;
//! writer.set("tokenizer.ggml.merges", &["a b"][..])?;
//! let gguf = Gguf::from_bytes(writer.into_bytes()?.into())?;
//!
//! let tokenizer = Tokenizer::from_gguf(gguf.metadata())?;
//! assert_eq!(tokenizer.encode("abba<|im_end|>", Special::Parse)?, [2, 1, 0, 3]);
//! assert_eq!(tokenizer.decode(&[2, 1, 0, 3], Special::Plain), "abba");
//! assert!(tokenizer.is_stop(3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod alphabet;
mod bpe;
mod categories;
mod category_table;
mod error;
mod folder;
mod gguf;
mod hash;
pub mod library;
mod merge;
mod pre;
mod pre_sets;
mod specials;
mod split;
mod spm;
mod stops;
mod stream;
mod thousands;
mod tokenizer;
mod vocabulary;
mod wordpiece;

pub use error::{Error, Result};
pub use stream::Stream;
pub use tokenizer::{Special, Tokenizer};
pub use vocabulary::Kind;

/// The names of the pre-tokenizers that [`Tokenizer::from_gguf`] accepts as `tokenizer.ggml.pre`, in order.
pub fn pre_tokenizers() -> Vec<&'static str> {
    pre::names()
}

/// Splits a text into words by the rules of a pre-tokenizer, as it is done before byte-pair encoding. Joined, the
/// words are the text.
///
/// # Errors
/// If there is no pre-tokenizer of this name.
pub fn pre_tokenize<'t>(name: &str, text: &'t str) -> Result<Vec<&'t str>> {
    let mut words = Vec::new();
    for_each_word(name, text, |word| words.push(word))?;
    Ok(words)
}

/// The words of [`pre_tokenize`], one after another: a long text has too many to keep.
///
/// # Errors
/// If there is no pre-tokenizer of this name.
pub fn for_each_word<'t>(
    name: &str,
    text: &'t str,
    mut use_word: impl FnMut(&'t str),
) -> Result<()> {
    split::split(pre::find(Some(name))?.stages, text, &mut use_word);
    Ok(())
}

/// The character that byte-level vocabularies write for a byte, so that their tokens are printable text.
pub fn byte_character(byte: u8) -> char {
    alphabet::character(byte)
}
