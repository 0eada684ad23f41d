//! Which tokens are allowed: one bit for each token of a vocabulary.

use crate::{Error, Result};

/// A set of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    words: Vec<u64>,
    size: usize,
}

impl Mask {
    /// No token of a vocabulary of this size.
    pub fn none(vocabulary_size: usize) -> Self {
        Self { words: vec![0; vocabulary_size.div_ceil(64)], size: vocabulary_size }
    }

    /// How many tokens the vocabulary has.
    pub fn vocabulary_size(&self) -> usize {
        self.size
    }

    /// Allows a token; tokens beyond the vocabulary are ignored.
    pub fn allow(&mut self, token: u32) {
        if (token as usize) < self.size {
            self.words[token as usize / 64] |= 1 << (token % 64);
        }
    }

    /// Whether the token is allowed.
    pub fn allows(&self, token: u32) -> bool {
        self.words.get(token as usize / 64).is_some_and(|word| word >> (token % 64) & 1 == 1)
    }

    /// How many tokens are allowed.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Sets the logits of all other tokens to -inf.
    pub fn apply(&self, logits: &mut [f32]) -> Result<()> {
        if logits.len() != self.size {
            return Err(Error::Length { found: logits.len(), expected: self.size });
        }
        for (chunk, &word) in logits.chunks_mut(64).zip(&self.words) {
            match word {
                0 => chunk.fill(f32::NEG_INFINITY),
                u64::MAX => {}
                _ => {
                    for (bit, logit) in chunk.iter_mut().enumerate() {
                        if word >> bit & 1 == 0 {
                            *logit = f32::NEG_INFINITY;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
