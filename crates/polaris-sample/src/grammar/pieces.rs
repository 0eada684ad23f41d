//! A vocabulary as a trie of bytes, so that common beginnings of tokens are followed once.

use crate::{Error, Result};

/// The most bytes of one token.
const LONGEST: usize = u16::MAX as usize;
/// The most bytes of a vocabulary.
const MOST_BYTES: usize = 1 << 28;

/// A node of the trie. The nodes below it follow it, in the order of their bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// The first node that is not below this one.
    pub skip: u32,
    /// Where the list of tokens that end here begins; it ends where that of the next node begins.
    pub tokens: u32,
    /// The number of bytes up to here.
    pub depth: u16,
    pub byte: u8,
}

/// The bytes of every token of a vocabulary, prepared for masks.
#[derive(Debug, Clone)]
pub struct Pieces {
    pieces: Vec<Box<[u8]>>,
    ends: Vec<bool>,
    pub(super) steps: Vec<Step>,
    pub(super) tokens: Vec<u32>,
}

impl Pieces {
    /// The bytes of each token, and the tokens that end a text. Tokens that stand for no text, such as control tokens,
    /// have no bytes; a grammar never allows them, unless they end a complete text.
    pub fn new<P: AsRef<[u8]>>(pieces: &[P], ends: &[u32]) -> Result<Self> {
        let total = pieces.iter().map(|piece| piece.as_ref().len()).sum::<usize>();
        if total > MOST_BYTES || pieces.len() > MOST_BYTES {
            return Err(Error::limit("bytes of a vocabulary", MOST_BYTES));
        }
        if pieces.iter().any(|piece| piece.as_ref().len() > LONGEST) {
            return Err(Error::limit("bytes of a token", LONGEST));
        }
        let mut is_end = vec![false; pieces.len()];
        for &token in ends {
            match is_end.get_mut(token as usize) {
                Some(end) => *end = true,
                None => return Err(Error::Token { token, size: pieces.len() }),
            }
        }
        let pieces: Vec<Box<[u8]>> = pieces.iter().map(|piece| piece.as_ref().into()).collect();
        let mut tokens: Vec<u32> = (0..pieces.len() as u32)
            .filter(|&token| !is_end[token as usize] && !pieces[token as usize].is_empty())
            .collect();
        tokens.sort_by(|&a, &b| pieces[a as usize].cmp(&pieces[b as usize]));
        let steps = trie(&pieces, &tokens);
        Ok(Self { pieces, ends: is_end, steps, tokens })
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The bytes of a token.
    pub fn piece(&self, token: u32) -> Result<&[u8]> {
        match self.pieces.get(token as usize) {
            Some(piece) => Ok(piece),
            None => Err(Error::Token { token, size: self.len() }),
        }
    }

    /// Whether the token ends a text.
    pub fn is_end(&self, token: u32) -> bool {
        self.ends.get(token as usize).copied().unwrap_or(false)
    }

    pub(super) fn end_tokens(&self) -> impl Iterator<Item = u32> {
        (0..self.len() as u32).filter(|&token| self.ends[token as usize])
    }
}

/// The nodes for tokens in the order of their bytes, and one more that ends the last list.
fn trie(pieces: &[Box<[u8]>], tokens: &[u32]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    // The nodes that lead to the last token.
    let mut path: Vec<u32> = Vec::new();
    let mut last: &[u8] = &[];
    for (index, &token) in tokens.iter().enumerate() {
        let piece = &pieces[token as usize][..];
        let common = last.iter().zip(piece).take_while(|(a, b)| a == b).count();
        for &node in &path[common..] {
            steps[node as usize].skip = steps.len() as u32;
        }
        path.truncate(common);
        for (depth, &byte) in piece.iter().enumerate().skip(common) {
            path.push(steps.len() as u32);
            steps.push(Step { skip: 0, tokens: index as u32, depth: depth as u16 + 1, byte });
        }
        last = piece;
    }
    let end = steps.len() as u32;
    for node in path {
        steps[node as usize].skip = end;
    }
    steps.push(Step { skip: end, tokens: tokens.len() as u32, depth: 0, byte: 0 });
    steps
}
