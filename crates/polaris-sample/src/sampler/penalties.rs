//! Penalties for tokens that occurred among the last ones.

use std::collections::VecDeque;

use super::shift;
use crate::Options;

#[derive(Debug, Clone)]
pub(super) struct Penalties {
    /// The last tokens, the oldest first.
    history: VecDeque<u32>,
    length: usize,
    repeat: f64,
    frequency: f64,
    presence: f64,
    /// How often each token occurs; zero between two steps.
    counts: Vec<u32>,
}

impl Penalties {
    pub fn new(options: &Options, vocabulary_size: usize) -> Self {
        let length = options.penalty_last_n as usize;
        Self {
            history: VecDeque::with_capacity(length),
            length,
            repeat: options.penalty_repeat.into(),
            frequency: options.penalty_frequency.into(),
            presence: options.penalty_presence.into(),
            counts: vec![0; vocabulary_size],
        }
    }

    pub fn reset(&mut self) {
        self.history.clear();
    }

    pub fn accept(&mut self, token: u32) {
        if self.history.len() == self.length {
            self.history.pop_front();
        }
        self.history.push_back(token);
    }

    pub fn apply(&mut self, scores: &mut [f32]) {
        for &token in &self.history {
            self.counts[token as usize] += 1;
        }
        for &token in &self.history {
            let count = std::mem::take(&mut self.counts[token as usize]);
            let score = &mut scores[token as usize];
            if count == 0 || *score == f32::NEG_INFINITY {
                continue;
            }
            // Dividing a negative logit would make the token more probable.
            let old = f64::from(*score);
            let scaled = if old <= 0.0 { old * self.repeat } else { old / self.repeat };
            shift(score, scaled - old - f64::from(count) * self.frequency - self.presence);
        }
    }
}
