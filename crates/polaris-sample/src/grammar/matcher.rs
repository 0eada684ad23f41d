//! Follows a text through a grammar and says which tokens may come next.

use std::collections::HashMap;
use std::sync::Arc;

use super::automaton::{Automaton, DEAD};
use super::{Grammar, Pieces};
use crate::{Error, Mask, Result};

/// How many masks are kept.
const MOST_MASKS: usize = 1024;

/// A text that a grammar constrains, as far as it has come.
#[derive(Debug, Clone)]
pub struct Matcher {
    automaton: Automaton,
    pieces: Arc<Pieces>,
    state: u32,
    /// Whether a token ended the text.
    ended: bool,
    /// The masks of states; that of no state is for a text that has ended.
    masks: HashMap<Option<u32>, Mask>,
    /// The states along the way to a token.
    path: Vec<u32>,
}

impl Matcher {
    /// An empty text.
    pub fn new(grammar: &Grammar, pieces: Arc<Pieces>) -> Result<Self> {
        let automaton = Automaton::new(grammar)?;
        Ok(Self {
            state: automaton.start(),
            automaton,
            pieces,
            ended: false,
            masks: HashMap::new(),
            path: Vec::new(),
        })
    }

    /// Starts a new text; what was learned about the grammar stays.
    pub fn reset(&mut self) {
        self.state = self.automaton.start();
        self.ended = false;
    }

    /// Whether the text may end here.
    pub fn is_complete(&self) -> bool {
        self.automaton.is_complete(self.state)
    }

    /// Whether the text may go on.
    pub fn can_continue(&self) -> bool {
        !self.ended && self.automaton.goes_on(self.state)
    }

    /// The tokens that may come next; those that end a text if it is complete.
    pub fn allowed(&mut self) -> Result<&Mask> {
        self.make_room()?;
        let key = (!self.ended).then_some(self.state);
        if !self.masks.contains_key(&key) {
            if self.masks.len() == MOST_MASKS {
                self.masks.clear();
            }
            let mask = if self.ended { Mask::none(self.pieces.len()) } else { self.mask()? };
            // Making the mask may have renumbered the states.
            let key = (!self.ended).then_some(self.state);
            return Ok(self.masks.entry(key).or_insert(mask));
        }
        Ok(&self.masks[&key])
    }

    /// Whether this token may come next, without a mask.
    pub fn permits(&mut self, token: u32) -> Result<bool> {
        let pieces = self.pieces.clone();
        let piece = pieces.piece(token)?;
        if self.ended {
            return Ok(false);
        }
        if pieces.is_end(token) {
            return Ok(self.is_complete());
        }
        Ok(!piece.is_empty() && self.follow(piece)? != DEAD)
    }

    /// Adds a token. The text stays as it was if the token is not allowed.
    pub fn accept_token(&mut self, token: u32) -> Result<()> {
        let pieces = self.pieces.clone();
        let piece = pieces.piece(token)?;
        if self.ended || (piece.is_empty() && !pieces.is_end(token)) {
            return Err(Error::Rejected { text: format!("token {token}") });
        }
        if !pieces.is_end(token) {
            return self.accept(piece);
        }
        if !self.is_complete() {
            return Err(Error::Rejected { text: format!("the end (token {token})") });
        }
        self.ended = true;
        Ok(())
    }

    /// Adds text, which may begin or end within a character. The text stays as it was if this is not allowed.
    pub fn accept(&mut self, text: &[u8]) -> Result<()> {
        let next = if self.ended { DEAD } else { self.follow(text)? };
        if next == DEAD {
            return Err(Error::rejected(text));
        }
        self.state = next;
        Ok(())
    }

    /// The state after some text.
    fn follow(&mut self, text: &[u8]) -> Result<u32> {
        self.automaton.begin();
        let mut state = self.state;
        for &byte in text {
            if self.automaton.is_full() {
                let mut kept = [self.state, state];
                let cleaned = self.clean(&mut kept);
                [self.state, state] = kept;
                cleaned?;
            }
            state = self.automaton.step(state, byte)?;
            if state == DEAD {
                break;
            }
        }
        Ok(state)
    }

    fn make_room(&mut self) -> Result<()> {
        if self.automaton.is_full() {
            let mut kept = [self.state];
            let cleaned = self.clean(&mut kept);
            [self.state] = kept;
            cleaned?;
        }
        Ok(())
    }

    fn clean(&mut self, kept: &mut [u32]) -> Result<()> {
        self.masks.clear();
        self.automaton.clean(kept)
    }

    /// Walks the trie of the vocabulary, and not below bytes that are not allowed.
    fn mask(&mut self) -> Result<Mask> {
        self.automaton.begin();
        let pieces = self.pieces.clone();
        let mut mask = Mask::none(pieces.len());
        if self.automaton.is_complete(self.state) {
            pieces.end_tokens().for_each(|token| mask.allow(token));
        }
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        path.push(self.state);
        let result = self.walk(&pieces, &mut path, &mut mask);
        self.state = path[0];
        self.path = path;
        result.map(|()| mask)
    }

    fn walk(&mut self, pieces: &Pieces, path: &mut Vec<u32>, mask: &mut Mask) -> Result<()> {
        let count = pieces.steps.len() - 1;
        let mut at = 0;
        while at < count {
            let step = pieces.steps[at];
            path.truncate(usize::from(step.depth));
            let before = path[path.len() - 1];
            let next = self.automaton.step(before, step.byte)?;
            if next == DEAD {
                at = step.skip as usize;
                continue;
            }
            path.push(next);
            let ends = step.tokens as usize..pieces.steps[at + 1].tokens as usize;
            pieces.tokens[ends].iter().for_each(|&token| mask.allow(token));
            if self.automaton.is_full() {
                self.clean(path)?;
            }
            at += 1;
        }
        Ok(())
    }
}
