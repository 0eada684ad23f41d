//! Text from tokens that come one after another.

use crate::{Special, Tokenizer};

/// Turns tokens into text as they come. A character may consist of several tokens: its bytes are held back until it is
/// whole.
///
/// ```
/// # use polaris_gguf::{Gguf, Writer};
/// # use polaris_tokenizer::{Special, Tokenizer};
/// # let mut writer = Writer::new();
/// # writer.set("tokenizer.ggml.model", "gpt2")?;
/// # // The two bytes of é in the characters that stand for bytes.
/// # writer.set("tokenizer.ggml.tokens", &["\u{c3}", "\u{a9}", "a"][..])?;
/// # writer.set("tokenizer.ggml.merges", &[""; 0][..])?;
/// # let gguf = Gguf::from_bytes(writer.into_bytes()?.into())?;
/// # let tokenizer = Tokenizer::from_gguf(gguf.metadata())?;
/// let mut stream = tokenizer.stream(Special::Plain);
/// let texts: Vec<String> = tokenizer.encode("aé", Special::Plain)?.into_iter().map(|id| stream.push(id)).collect();
/// assert_eq!(texts, ["a", "", "é"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Stream {
    tokenizer: Tokenizer,
    special: Special,
    held: Vec<u8>,
}

impl Stream {
    pub(crate) fn new(tokenizer: Tokenizer, special: Special) -> Self {
        Self { tokenizer, special, held: Vec::new() }
    }

    /// The text that is whole with this token; often none. Bytes that belong to no character become U+FFFD. Tokens that
    /// the vocabulary does not have are no text.
    pub fn push(&mut self, id: u32) -> String {
        self.held.extend_from_slice(self.tokenizer.shown(id, self.special));
        let mut text = String::new();
        let mut rest = self.held.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(whole) => {
                    text.push_str(whole);
                    rest = &[];
                }
                Err(error) => {
                    let (whole, others) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(whole));
                    rest = others;
                    if let Some(bytes) = error.error_len() {
                        text.push(char::REPLACEMENT_CHARACTER);
                        rest = &rest[bytes..];
                        continue;
                    }
                }
            }
            let held = self.held.len() - rest.len();
            self.held.drain(..held);
            return text;
        }
    }

    /// The rest: U+FFFD if the last character is not whole, otherwise nothing.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.held).into_owned()
    }
}
