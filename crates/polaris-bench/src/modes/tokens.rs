//! Tokenization: text of the bundled book to numbers, by a byte-pair encoding that is learned from it.

use polaris_data::{Bpe, Tokenizer, text};

use crate::{Error, Result};

/// Characters that the encoding is learned from; more would take longer than what is measured.
const LEARNED_FROM: usize = 60_000;
/// Tokens that it knows.
const VOCABULARY: usize = 1024;
/// Tokens that the text has at least.
const TOKENS: usize = 10_000;

/// A tokenizer with a text of about ten thousand tokens.
pub struct Text {
    bpe: Bpe,
    text: String,
}

impl Text {
    /// Learns the encoding and cuts the text.
    pub fn new() -> Result<Self> {
        let book = text()?;
        let mut lines = book.split_inclusive('\n');
        let mut sample = String::new();
        while sample.len() < LEARNED_FROM {
            let Some(line) = lines.next() else { break };
            sample.push_str(line);
        }
        let bpe = Bpe::train(&sample, VOCABULARY, &[])?;
        // What follows it was not learned from.
        let (mut text, mut tokens) = (String::new(), 0);
        for line in lines {
            if tokens >= TOKENS {
                break;
            }
            tokens += bpe.encode(line)?.len();
            text.push_str(line);
        }
        let tokens = bpe.encode(&text)?;
        if bpe.decode(&tokens) != text {
            return Err(Error::BadWorkload("the tokens of a text do not give the text back"));
        }
        Ok(Self { bpe, text })
    }

    /// Encodes all of it.
    pub fn encode(&self) -> Result<Vec<u32>> {
        Ok(self.bpe.encode(&self.text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_ten_thousand_tokens_and_comes_back() {
        let text = Text::new().unwrap();
        let tokens = text.encode().unwrap();
        assert!((TOKENS - 100..TOKENS + 200).contains(&tokens.len()), "{}", tokens.len());
        assert!(tokens.iter().all(|&token| (token as usize) < VOCABULARY));
        // An encoding that learned nothing would have a token for each letter.
        assert!(text.text.len() > 2 * tokens.len());
    }
}
