//! DRY (don't repeat yourself): the longer the repetition that a token would continue, the larger its penalty.

use std::collections::VecDeque;

use super::shift;
use crate::Options;

/// The longest tail of a breaker after its first token.
const LONGEST_TAIL: usize = 20;

#[derive(Debug, Clone)]
pub(super) struct Dry {
    /// The last tokens, the newest first.
    history: VecDeque<u32>,
    length: usize,
    allowed: usize,
    multiplier: f64,
    base: f64,
    /// Sorted, so that those with the same first token are one range.
    breakers: Vec<Vec<u32>>,
    /// For each position of the history, how many tokens from there on equal the newest ones.
    common: Vec<usize>,
    /// For each token, the longest repetition that it would continue; zero between two steps.
    longest: Vec<u32>,
}

impl Dry {
    pub fn new(options: &Options, vocabulary_size: usize) -> Self {
        let length = options.dry_last_n as usize;
        let mut breakers = options.dry_breakers.clone();
        breakers.sort_unstable();
        Self {
            history: VecDeque::with_capacity(length),
            length,
            allowed: options.dry_allowed_length as usize,
            multiplier: options.dry_multiplier.into(),
            base: options.dry_base.into(),
            breakers,
            common: Vec::with_capacity(length),
            longest: vec![0; vocabulary_size],
        }
    }

    pub fn reset(&mut self) {
        self.history.clear();
    }

    pub fn accept(&mut self, token: u32) {
        if self.history.len() == self.length {
            self.history.pop_back();
        }
        self.history.push_front(token);
    }

    pub fn apply(&mut self, scores: &mut [f32]) {
        let limit = self.reach();
        if self.history.len() <= self.allowed || limit < self.allowed {
            return;
        }
        self.find_repetitions();
        // The token before a repetition, in the newest-first order, is the one that continued it.
        for position in 1..self.history.len() {
            let length = self.common[position].min(limit);
            if length >= self.allowed {
                let longest = &mut self.longest[self.history[position - 1] as usize];
                *longest = (*longest).max(length as u32);
            }
        }
        // The exponent at which `f32` would overflow.
        let largest = if self.base > 1.000_001 {
            (f64::from(f32::MAX).ln() / self.base.ln()) as i32
        } else {
            i32::MAX
        };
        for &token in &self.history {
            let length = std::mem::take(&mut self.longest[token as usize]);
            if length == 0 || self.breakers_from(token).any(|breaker| breaker.len() == 1) {
                continue;
            }
            let exponent = (length as i32 - self.allowed as i32).min(largest);
            shift(&mut scores[token as usize], -self.multiplier * self.base.powi(exponent));
        }
    }

    /// The breakers with this first token.
    fn breakers_from(&self, token: u32) -> impl Iterator<Item = &Vec<u32>> {
        let first = self.breakers.partition_point(|breaker| breaker[0] < token);
        self.breakers[first..].iter().take_while(move |breaker| breaker[0] == token)
    }

    /// How far back repetitions may reach: to the newest breaker.
    fn reach(&self) -> usize {
        let newest = &self.history;
        for position in 0..newest.len() {
            let matches = |breaker: &&Vec<u32>| {
                breaker.len() <= position + 1
                    && breaker
                        .iter()
                        .enumerate()
                        .all(|(offset, &token)| newest[position - offset] == token)
            };
            let starting = self.breakers_from(newest[position]);
            let longest = starting.filter(matches).map(Vec::len).max();
            if let Some(longest) = longest {
                return position + 1 - longest;
            }
        }
        newest.len()
    }

    /// The Z-function of the history: linear, since each token is compared once beyond the rightmost match.
    fn find_repetitions(&mut self) {
        let (newest, count) = (&self.history, self.history.len());
        self.common.clear();
        self.common.resize(count, 0);
        // The match that reaches furthest: from `left` to before `right`.
        let (mut left, mut right) = (0, 0);
        for position in 1..count {
            let known = if position < right {
                self.common[position - left].min(right - position)
            } else {
                0
            };
            let mut length = known;
            while position + length < count && newest[length] == newest[position + length] {
                length += 1;
            }
            self.common[position] = length;
            if position + length > right {
                (left, right) = (position, position + length);
            }
        }
    }
}

/// The token sequences that contain a text, for [`Options::dry_breakers`]: single tokens with the text inside, and
/// tokens that end with its beginning, followed by what `tokenize` makes of the rest.
pub fn breakers<P: AsRef<[u8]>>(
    pieces: &[P],
    text: &str,
    tokenize: impl Fn(&str) -> Vec<u32>,
) -> Vec<Vec<u32>> {
    let bytes = text.as_bytes();
    let mut sequences = Vec::new();
    if bytes.is_empty() {
        return sequences;
    }
    for (token, piece) in pieces.iter().enumerate() {
        let (token, piece) = (token as u32, piece.as_ref());
        if piece.windows(bytes.len()).any(|window| window == bytes) {
            sequences.push(vec![token]);
            continue;
        }
        for length in 1..bytes.len() {
            // A rest that begins inside a character has no tokens of its own.
            if piece.ends_with(&bytes[..length]) && text.is_char_boundary(length) {
                let mut sequence = vec![token];
                sequence.extend(tokenize(&text[length..]).into_iter().take(LONGEST_TAIL));
                if sequence.len() > 1 && !sequences.contains(&sequence) {
                    sequences.push(sequence);
                }
            }
        }
    }
    sequences
}
