//! Tokenizers: text to token ids and back.

use crate::Result;

/// Turns text into tokens, the numbers below [`Tokenizer::vocabulary`], and back.
pub trait Tokenizer: Send + Sync {
    /// How many different tokens there are.
    fn vocabulary(&self) -> usize;

    /// The tokens of a text.
    fn encode(&self, text: &str) -> Result<Vec<u32>>;

    /// The text of tokens. What is not a text, such as half a letter, becomes U+FFFD; tokens that do not exist are
    /// left out.
    fn decode(&self, tokens: &[u32]) -> String;
}

/// Every byte of the text's UTF-8 is a token: no vocabulary to learn, no text it cannot write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bytes;

impl Tokenizer for Bytes {
    fn vocabulary(&self) -> usize {
        256
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        Ok(text.bytes().map(u32::from).collect())
    }

    fn decode(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().filter_map(|&t| u8::try_from(t).ok()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        let text = "naïve – 日本\n";
        let tokens = Bytes.encode(text).unwrap();
        assert_eq!(tokens.len(), text.len());
        assert_eq!(Bytes.decode(&tokens), text);
        assert_eq!(Bytes.decode(&[104, 0xff, 105, 256, u32::MAX]), "h\u{fffd}i");
    }
}
