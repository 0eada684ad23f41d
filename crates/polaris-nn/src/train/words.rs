//! How texts become tokens: bytes, a tokenizer that is learned from the text, or one from a file.

use std::path::Path;

use polaris_data::{Bytes, TextDataset, Tokenizer};

use super::config::{Data, LEARNED, Source};
use super::data::data_path;
#[cfg(not(feature = "text"))]
use super::data::without;
#[cfg(feature = "text")]
use crate::Error;
use crate::Result;

/// How a text becomes tokens.
pub struct Words {
    /// The tokenizer.
    pub tokenizer: Box<dyn Tokenizer>,
    /// Its own file, if it is not bytes.
    pub json: Option<String>,
}

impl Words {
    /// Bytes, or what a tokenizer's own file says.
    ///
    /// # Errors
    /// If the file makes no sense.
    pub fn new(json: Option<String>) -> Result<Self> {
        let tokenizer: Box<dyn Tokenizer> = match &json {
            Some(json) => bpe(json)?,
            None => Box::new(Bytes),
        };
        Ok(Self { tokenizer, json })
    }
}

/// The tokenizer of a text; none for data that are no text.
pub(super) fn words(data: &Data) -> Result<Option<Words>> {
    if !matches!(data.source, Source::Text | Source::Sample | Source::Dialogs) {
        return Ok(None);
    }
    let json = match data.tokenizer.as_str() {
        "bytes" => None,
        LEARNED => Some(learned(&text(data)?, data.vocabulary)?),
        path => Some(tokenizer_file(Path::new(path))?),
    };
    Words::new(json).map(Some)
}

/// The windows of a text.
pub(super) fn text_dataset(data: &Data, words: Option<&Words>) -> Result<TextDataset> {
    let tokenizer = words.map_or(&Bytes as &dyn Tokenizer, |words| &*words.tokenizer);
    let is_bytes = words.is_none_or(|words| words.json.is_none());
    Ok(match data.source {
        // Bytes need not be text.
        Source::Text if is_bytes => TextDataset::from_bytes(data_path(data)?, data.context, None)?,
        _ => TextDataset::from_text(&text(data)?, tokenizer, data.context, None)?,
    })
}

fn text(data: &Data) -> Result<String> {
    Ok(match data.source {
        Source::Sample => polaris_data::text()?,
        Source::Dialogs => polaris_data::dialogs()?,
        _ => polaris_data::read_text(data_path(data)?)?,
    })
}

/// The file of a tokenizer that is learned from a text.
#[cfg(feature = "text")]
fn learned(text: &str, tokens: usize) -> Result<String> {
    let bpe = polaris_data::Bpe::train(text, tokens, &polaris_data::DIALOG_TOKENS)?;
    let found = bpe.vocabulary();
    if found < tokens {
        let bytes = text.len();
        return Err(Error::invalid(format!(
            "the text of {bytes} bytes has frequent pairs for {found} tokens, and data.vocabulary = {tokens}; use at \
             most {found}, or give more text"
        )));
    }
    Ok(bpe.to_json()?)
}

#[cfg(not(feature = "text"))]
fn learned(_: &str, _: usize) -> Result<String> {
    Err(without("a tokenizer that is learned", "text"))
}

#[cfg(feature = "text")]
fn tokenizer_file(path: &Path) -> Result<String> {
    Ok(polaris_data::read_tokenizer(path)?)
}

#[cfg(not(feature = "text"))]
fn tokenizer_file(_: &Path) -> Result<String> {
    Err(without("a tokenizer in a file", "text"))
}

#[cfg(feature = "text")]
fn bpe(json: &str) -> Result<Box<dyn Tokenizer>> {
    Ok(Box::new(polaris_data::Bpe::from_json(json.as_bytes())?))
}

#[cfg(not(feature = "text"))]
fn bpe(_: &str) -> Result<Box<dyn Tokenizer>> {
    Err(without("a tokenizer in a file", "text"))
}
